"""The PostgreSQL store: what the loops do, each as one statement over a batch.

The same statements run on CockroachDB, see ``go_scheduler.stores.cockroachdb``. Each
commits by itself. Who owns what rests on the conditions of the UPDATEs alone; SKIP
LOCKED only keeps nodes out of each other's way.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from sqlalchemy import ARRAY, Uuid, any_, bindparam, text
from sqlalchemy.dialects.postgresql import insert

from go_scheduler.models import Cancelled
from go_scheduler.stores.sql.database import Database, Lane
from go_scheduler.stores.sql.driver import EngineKind, judge, make_engines
from go_scheduler.stores.sql.rows import INSTANCE_COLUMNS
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.sweep import LATE, Sweep
from go_scheduler.stores.sql.tables import contents, definitions
from go_scheduler.stores.sql.types import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from typing import Any

    from sqlalchemy import ColumnElement, Connection, Row
    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import (
        Claim,
        Claimant,
        Firing,
        Release,
        Renewal,
        RunOutcome,
        TaskDefinition,
        TaskInstance,
    )

_INSTANCE = ", ".join(f"t.{name}" for name in INSTANCE_COLUMNS)

# Every parameter is cast: CockroachDB infers other types than PostgreSQL. {now} is the
# database's now(), or the time of the clock that the store was given.

_DUE = """
SELECT * FROM ({branches}) AS due ORDER BY next_fire_time, id LIMIT {limit}
"""
_DUE_IN_TIME = """
(SELECT * FROM task_definitions
 WHERE shard = {shard} AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
   AND next_fire_time >= {now} - CAST(:back AS interval)
   AND next_fire_time <= {now} + CAST(:ahead AS interval) {after}
 ORDER BY next_fire_time, id LIMIT {limit})
"""
_DUE_LATE = """
(SELECT * FROM task_definitions
 WHERE next_fire_time IS NOT NULL AND NOT paused AND late
   AND next_fire_time <= {now} + CAST(:ahead AS interval) {after}
 ORDER BY next_fire_time, id LIMIT {limit})
"""
_AFTER = """
   AND (next_fire_time, id) > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid))
"""

_FIRE = """
WITH moved AS (
  UPDATE task_definitions AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= {now} - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN {now}
                        END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:expected AS timestamptz[]),
                CAST(:revisions AS bigint[]), CAST(:next_times AS timestamptz[]))
         AS x (id, expected, revision, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
     AND (NOT d.waits OR NOT EXISTS (
           SELECT 1 FROM task_instances AS o
            WHERE o.definition_key = d.key
              AND o.completed_at IS NULL AND o.outcome IS NULL))
  RETURNING d.key, d.id, d.queue, d.expire_after, d.waits),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, expire_after, waits, fire_time, execute_at,
          due_at, claimable_at, outcome, completed_at, skipped_last, skipped_count,
          skipped_reason)
  SELECT f.id, m.key, f.shard, m.queue, m.expire_after, m.waits, f.fire_time,
         f.fire_time, f.fire_time,
         CASE WHEN f.reason IS NULL THEN greatest(f.fire_time, {now}) END,
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN {now} END,
         f.last, f.count, f.reason
    FROM unnest(CAST(:instance_ids AS uuid[]), CAST(:definition_ids AS uuid[]),
                CAST(:shards AS bigint[]), CAST(:fire_times AS timestamptz[]),
                CAST(:lasts AS timestamptz[]), CAST(:counts AS bigint[]),
                CAST(:reasons AS text[]))
         AS f (id, definition_id, shard, fire_time, last, count, reason)
    JOIN moved AS m ON m.id = f.definition_id
  ON CONFLICT (definition_key, fire_time) DO NOTHING)
SELECT id FROM moved
"""

# A guess at where there is anything to claim, when there is more than one place.
_HEADS = """
SELECT * FROM ({branches}) AS heads
"""
_HEAD = """
(SELECT {place} AS place FROM task_instances
 WHERE queue = CAST(:queue{place} AS text) AND shard = {shard}
   AND claimable_at IS NOT NULL
   AND claimable_at >= {now} - CAST(:back{place} AS interval)
   AND claimable_at <= {now} + CAST(:ahead AS interval)
 ORDER BY claimable_at LIMIT 1)
"""
_CLAIM = """
WITH due AS MATERIALIZED ({due}),
t AS (
  UPDATE task_instances AS t
     SET claimed_by = CAST(:node AS uuid), attempt = t.attempt + 1, claimable_at = NULL,
         runs = t.runs + CASE WHEN {starts} THEN 1 ELSE 0 END,
         started_at = CASE WHEN {starts} THEN greatest({now}, t.due_at) END,
         expires_at = greatest({now}, t.due_at) + CASE WHEN {starts}
             THEN least(CAST(:lease AS interval),
                        coalesce(t.expire_after * interval '1 microsecond',
                                 CAST(:expire_after AS interval)))
             ELSE CAST(:lease AS interval) END
    FROM due
   WHERE t.id = due.id AND {guard}
  RETURNING {columns}, due.place)
SELECT * FROM t ORDER BY place, due_at
"""
_STARTS = "t.due_at <= {now} + CAST(:lead AS interval)"
_FREE = """
  SELECT id, claimable_at AS place FROM task_instances
   WHERE queue = CAST(:queue AS text) AND shard = CAST(:shard AS bigint)
     AND claimable_at IS NOT NULL
     AND claimable_at >= coalesce(CAST(:position AS timestamptz),
                                  {now} - CAST(:back AS interval))
     AND claimable_at <= {now} + CAST(:ahead AS interval)
   ORDER BY claimable_at, due_at LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
_LAPSED = """
  SELECT id, expires_at AS place FROM task_instances
   WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT held
     AND expires_at >= {now} - CAST(:back AS interval) AND expires_at <= {now}
     AND queue = ANY(CAST(:queues AS text[]))
   ORDER BY expires_at LIMIT {limit} FOR UPDATE SKIP LOCKED
"""

# From here on instances are named by their claims. `attempt` names one claim, so that
# the owner need not be compared: comparing it would let a planner walk an index of all
# that is claimed instead of the primary key.
_OWNED = """
     t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
"""
_START = """
UPDATE task_instances AS t
   SET runs = t.runs + CASE WHEN t.started_at IS NULL THEN 1 ELSE 0 END,
       started_at = coalesce(t.started_at, greatest({now}, t.due_at)),
       expires_at = CASE WHEN t.started_at IS NOT NULL THEN t.expires_at
           ELSE greatest({now}, t.due_at)
                + least(CAST(:lease AS interval),
                        coalesce(t.expire_after * interval '1 microsecond',
                                 CAST(:expire_after AS interval))) END
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
 WHERE {owned}
RETURNING {columns}
"""
_RENEW = """
UPDATE task_instances AS t
   SET expires_at = {now} + x.lease * interval '1 microsecond'
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[])) AS x (id, attempt, lease)
 WHERE {owned}
RETURNING t.id, t.cancel_requested
"""
_FINISH = """
WITH ended AS (
  UPDATE task_instances AS t
     SET outcome = x.outcome,
         completed_at = CASE WHEN x.outcome IS NOT NULL THEN {now} END,
         started_at = CASE WHEN x.outcome IS NOT NULL THEN x.started_at END,
         runs = t.runs - CASE WHEN x.started_at IS NULL AND t.started_at IS NOT NULL
                         THEN 1 ELSE 0 END,
         error = coalesce(x.error, t.error),
         claimed_by = CASE WHEN x.outcome IS NOT NULL THEN t.claimed_by END,
         expires_at = CASE WHEN x.outcome IS NOT NULL THEN t.expires_at END,
         due_at = CASE WHEN x.outcome IS NOT NULL THEN t.due_at
                  ELSE {now} + x.retry_in * interval '1 microsecond' END,
         claimable_at = CASE WHEN x.outcome IS NULL AND NOT t.held
                        THEN {now} + x.retry_in * interval '1 microsecond' END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:outcomes AS text[]), CAST(:started AS timestamptz[]),
                CAST(:retries AS bigint[]), CAST(:errors AS text[]),
                CAST(:next_times AS timestamptz[]))
         AS x (id, attempt, outcome, started_at, retry_in, error, next_at)
   WHERE {owned}
  RETURNING t.id, t.definition_key, t.waits AND x.outcome IS NOT NULL AS goes_on,
            x.next_at),
{gone_on}
SELECT id FROM ended
"""
_GONE_ON = """
gone_on AS (
  UPDATE task_definitions AS d
     SET next_fire_time = e.next_at,
         late = coalesce(e.next_at <= {now} - CAST(:late AS interval), false),
         completed_at = CASE WHEN e.next_at IS NULL THEN {now} END
    FROM ended AS e
   WHERE e.goes_on AND d.key = e.definition_key AND d.waits
     AND d.next_fire_time IS NULL AND d.completed_at IS NULL AND d.deleted_at IS NULL
  RETURNING d.key)
"""
_RELEASE = """
UPDATE task_instances AS t
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL,
       runs = t.runs - CASE WHEN t.started_at IS NOT NULL THEN 1 ELSE 0 END,
       due_at = CASE WHEN x.delay > 0
                THEN greatest(t.due_at, {now} + x.delay * interval '1 microsecond')
                ELSE t.due_at END,
       claimable_at = CASE WHEN NOT t.held
           THEN greatest(t.due_at, {now} + x.delay * interval '1 microsecond') END
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:delays AS bigint[])) AS x (id, attempt, delay)
 WHERE {owned}
RETURNING t.id
"""
_CANCEL = """
WITH ended AS (
  UPDATE task_instances AS t
     SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
         outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
         completed_at = CASE WHEN t.started_at IS NULL THEN {now} END,
         claimable_at = NULL
    FROM unnest(CAST(:ids AS uuid[]), CAST(:next_times AS timestamptz[]))
         AS x (id, next_at)
   WHERE t.id = x.id AND t.completed_at IS NULL
  RETURNING t.id, t.definition_key, t.waits AND t.started_at IS NULL AS goes_on,
            x.next_at, t.started_at IS NOT NULL AS runs_on),
{gone_on}
SELECT id, runs_on FROM ended
"""

_DELETE_ENDED = """
WITH old AS MATERIALIZED (
  SELECT id, completed_at FROM task_instances
   WHERE completed_at IS NOT NULL
     AND completed_at >= coalesce(CAST(:position AS timestamptz),
                                  {now} - CAST(:back AS interval))
     AND completed_at <= {now} - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT {limit} FOR UPDATE SKIP LOCKED)
DELETE FROM task_instances AS t USING old
 WHERE t.id = old.id AND t.completed_at IS NOT NULL
RETURNING old.completed_at
"""
_DELETE_DEFINITIONS = """
WITH old AS MATERIALIZED (
  SELECT d.key FROM task_definitions AS d
   WHERE {which} IS NOT NULL AND {which} <= {now} - CAST(:older_than AS interval)
     AND NOT EXISTS (SELECT 1 FROM task_instances AS i WHERE i.definition_key = d.key)
   ORDER BY {which} LIMIT {limit}),
gone AS (
  DELETE FROM task_definitions AS d USING old
   WHERE d.key = old.key AND {which} <= {now} - CAST(:older_than AS interval)
  RETURNING d.key),
emptied AS (
  DELETE FROM task_contents AS c USING gone WHERE c.key = gone.key RETURNING c.key)
SELECT key FROM gone
"""


class PostgreSQLStore(SQLStore):
    """Keeps everything in a PostgreSQL database that any number of nodes share.

    Args:
        url: Such as ``postgresql://user:password@host:5432/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``.
        clock: Used instead of the database's time, for tests.
        connect_args: More arguments of ``psycopg.connect``; they win over the URL.
        pool_size: Most connections for what is called by hand; the loops have at most
            six of their own.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database.
    """

    _dialect = "postgresql"
    _kind = EngineKind.POSTGRESQL

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
    ) -> None:
        engines = make_engines(
            url, self._kind, connect_args=connect_args, pool_size=pool_size
        )
        database = Database(engines, judge=judge, transaction=self._transaction)
        super().__init__(database, schema=Schema(self._dialect, migrate), clock=clock)
        self._url = engines[Lane.USERS].url
        self._now_sql = "now()" if clock is None else "CAST(:now AS timestamptz)"
        self._sweeps: dict[object, Sweep] = {}

    def __repr__(self) -> str:
        shown = self._url.set(query={}).render_as_string(hide_password=True)
        return f"{type(self).__name__}({shown!r})"

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        level = self._kind.isolation_level
        with connection.execution_options(isolation_level=level).begin():
            yield

    def _now(self, connection: Connection) -> datetime:
        if self.clock is not None:
            return self.clock.now()
        now: datetime = connection.execute(text("SELECT now()")).scalar_one()
        return now

    def _among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        return column == any_(bindparam(None, list(ids), type_=ARRAY(Uuid)))

    def _contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        return contents.c.metadata_search.contains(metadata)

    def _insert_new_ids(self) -> Any:
        return (
            insert(definitions)
            .on_conflict_do_nothing(
                index_elements=[definitions.c.id],
                index_where=definitions.c.deleted_at.is_(None),
            )
            .returning(definitions.c.id)
        )

    # Definitions.

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        sweep = self._sweep("due")
        parts = {"after": "" if after is None else _AFTER, "limit": limit}
        branches = [
            *(
                self._fill(_DUE_IN_TIME, shard=shard, **parts)
                for shard in range(self.shards)
            ),
            self._fill(_DUE_LATE, **parts),
        ]
        statement = self._text(_DUE, branches=" UNION ALL ".join(branches), limit=limit)
        parameters: dict[str, object] = {"ahead": ahead, "back": sweep.back}
        if after is not None:
            parameters["after_time"] = after.next_fire_time
            parameters["after_id"] = after.id

        def read(connection: Connection) -> Sequence[TaskDefinition]:
            rows = self._execute(connection, statement, **parameters)
            return self._with_contents(connection, rows)

        found = self._scan(sweep, read)
        if len(found) < limit:
            sweep.finish()
        return found

    def fire_definitions(self, firings: Sequence[Firing]) -> Set[UUID]:
        """Create the instances of each firing and move its definition on."""
        if not firings:
            return set()
        # One order for all nodes, so that none waits for another in a circle.
        ordered = sorted(firings, key=lambda each: each.definition.id)
        made = [row for firing in ordered for row in self._instances_of(firing)]
        columns = list(zip(*made, strict=True)) or [()] * 6
        ids = [uuid4() for _ in made]
        statement = self._text(_FIRE)
        return self._database.run(
            Lane.SCANS,
            lambda connection: {
                row.id
                for row in self._execute(
                    connection,
                    statement,
                    late=LATE,
                    ids=[each.definition.id for each in ordered],
                    expected=[_utc(each.definition.next_fire_time) for each in ordered],
                    revisions=[each.definition.revision for each in ordered],
                    next_times=[_utc(each.next_fire_time) for each in ordered],
                    instance_ids=ids,
                    shards=[id.int % self.shards for id in ids],
                    definition_ids=list(columns[0]),
                    fire_times=list(columns[1]),
                    lasts=list(columns[2]),
                    counts=list(columns[3]),
                    reasons=list(columns[4]),
                )
            },
            # Its repetition would answer that another node had won.
            repeatable=False,
        )

    @staticmethod
    def _instances_of(firing: Firing) -> Iterator[tuple[object, ...]]:
        """The definition, fire time, and what is skipped, of each instance."""
        id, skipped = firing.definition.id, firing.skipped
        if skipped is not None:
            first, last = _utc(skipped.first), _utc(skipped.last)
            yield id, first, last, skipped.count, skipped.reason
        for fire_time in firing.fire_times:
            if skipped is None or fire_time != skipped.first:
                yield id, _utc(fire_time), None, None, None

    # Instances.

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: bool,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        if not claimant.queues:
            return []
        terms = {
            "node": claimant.node,
            "lease": claimant.lease,
            "expire_after": claimant.expire_after,
            "lead": lead,
        }
        rows: list[Row[Any]] = []
        if lapsed:
            rows += self._claim_lapsed(claimant.queues, limit, terms)
        fresh: list[Row[Any]] = []
        for queue, shard in self._places(claimant.queues, ahead):
            if (left := limit - len(rows) - len(fresh)) <= 0:
                break
            try:
                fresh += self._claim_free(queue, shard, left, terms, ahead=ahead)
            except Exception:
                # What has been claimed already must not be lost with what has not.
                if rows or fresh:
                    break
                raise
        fresh.sort(key=lambda row: (row.due_at, row.id))
        claimed = rows + fresh
        if not claimed:
            return []
        return self._database.run(
            Lane.SCANS, lambda connection: self._read(connection, claimed)
        )

    def _places(
        self, queues: Sequence[str], ahead: timedelta
    ) -> Sequence[tuple[str, int]]:
        """Where to claim, in a random order: nodes should not meet in one place."""
        places = [(queue, shard) for queue in queues for shard in range(self.shards)]
        if len(places) == 1:
            return places
        sweeps = [self._sweep(place) for place in places]
        branches = " UNION ALL ".join(
            self._fill(_HEAD, place=number, shard=shard)
            for number, (_, shard) in enumerate(places)
        )
        statement = self._text(_HEADS, branches=branches)
        parameters: dict[str, object] = {"ahead": ahead}
        for number, (queue, _) in enumerate(places):
            parameters[f"queue{number}"] = queue
            parameters[f"back{number}"] = sweeps[number].back
        found = self._database.run(
            Lane.SCANS,
            lambda connection: {
                row.place
                for row in self._execute(connection, statement, **parameters)
            },
        )
        for number, sweep in enumerate(sweeps):
            if number not in found:
                sweep.finish()
        full = [place for number, place in enumerate(places) if number in found]
        return random.sample(full, len(full))

    def _claim_free(
        self,
        queue: str,
        shard: int,
        limit: int,
        terms: Mapping[str, object],
        *,
        ahead: timedelta,
    ) -> Sequence[Row[Any]]:
        sweep = self._sweep((queue, shard))
        statement = self._text(
            _CLAIM,
            due=self._fill(_FREE, limit=limit),
            starts=self._fill(_STARTS),
            guard="t.claimable_at IS NOT NULL",
            columns=_INSTANCE,
        )
        parameters = {
            **terms,
            "queue": queue,
            "shard": shard,
            "position": sweep.position,
            "back": sweep.back,
            "ahead": ahead,
        }
        rows = self._claim(sweep, statement, parameters)
        if len(rows) < limit:
            sweep.finish()
        else:
            sweep.go_on(rows[-1].place)
        return rows

    def _claim_lapsed(
        self, queues: Sequence[str], limit: int, terms: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        sweep = self._sweep("lapsed")
        statement = self._text(
            _CLAIM,
            due=self._fill(_LAPSED, limit=limit),
            starts=self._fill(_STARTS),
            guard=self._fill("t.completed_at IS NULL AND t.expires_at <= {now}"),
            columns=_INSTANCE,
        )
        parameters = {**terms, "queues": list(queues), "back": sweep.back}
        rows = self._claim(sweep, statement, parameters)
        if len(rows) < limit:
            sweep.finish()
        return rows

    def _claim(
        self, sweep: Sweep, statement: Any, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        return self._scan(
            sweep,
            lambda connection: self._execute(connection, statement, **parameters),
            # Done and repeated, it would leave what it claimed to its lease.
            repeatable=False,
        )

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Sequence[TaskInstance]:
        """Record that handlers are about to be called."""
        if not claims:
            return []
        ordered = sorted(claims, key=_id)
        statement = self._text(
            _START, owned=_OWNED, columns=_INSTANCE
        )

        def start(connection: Connection) -> Sequence[TaskInstance]:
            rows = self._execute(
                connection,
                statement,
                **_keys(ordered),
                lease=claimant.lease,
                expire_after=claimant.expire_after,
            )
            return self._read(connection, rows)

        return self._database.run(Lane.CLAIMS, start)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Mapping[UUID, bool]:
        """Let claims hold for their ``lease`` from the store's time on."""
        if not renewals:
            return {}
        ordered = sorted(renewals, key=lambda each: each.claim.instance_id)
        rows = self._write(
            Lane.RENEWALS,
            self._text(_RENEW, owned=_OWNED),
            **_keys([each.claim for each in ordered]),
            leases=[to_microseconds(each.lease) for each in ordered],
        )
        return {row.id: row.cancel_requested for row in rows}

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Set[UUID]:
        """Record what became of runs."""
        if not outcomes:
            return set()
        ordered = sorted(outcomes, key=lambda each: each.claim.instance_id)
        rows = self._write(
            Lane.CLAIMS,
            self._text(_FINISH, owned=_OWNED, gone_on=self._fill(_GONE_ON)),
            # Done and repeated, it would answer that the claims were lost.
            repeatable=False,
            **_keys([each.claim for each in ordered]),
            outcomes=[each.outcome and each.outcome.value for each in ordered],
            started=[_utc(each.started_at) for each in ordered],
            retries=[to_microseconds(each.retry_in) for each in ordered],
            errors=[each.error for each in ordered],
            next_times=[_utc(each.next_fire_time) for each in ordered],
            late=LATE,
        )
        return {row.id for row in rows}

    def release_instances(self, releases: Sequence[Release]) -> Set[UUID]:
        """Give back what was claimed and not called."""
        if not releases:
            return set()
        ordered = sorted(releases, key=lambda each: each.claim.instance_id)
        rows = self._write(
            Lane.CLAIMS,
            self._text(_RELEASE, owned=_OWNED),
            **_keys([each.claim for each in ordered]),
            delays=[to_microseconds(each.delay) for each in ordered],
        )
        return {row.id for row in rows}

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        if not cancellations:
            return {}
        ordered = sorted(cancellations)
        rows = self._write(
            Lane.USERS,
            self._text(_CANCEL, gone_on=self._fill(_GONE_ON)),
            repeatable=False,
            ids=ordered,
            next_times=[_utc(cancellations[each]) for each in ordered],
            late=LATE,
        )
        return {
            row.id: Cancelled.REQUESTED if row.runs_on else Cancelled.CANCELLED
            for row in rows
        }

    # Cleanup.

    def delete_finished(self, *, older_than: timedelta, limit: int) -> int:
        """Delete what ended long ago."""
        deleted = self._delete_ended(older_than, limit)
        if deleted < limit:
            for which in ("d.completed_at", "d.deleted_at"):
                statement = self._text(
                    _DELETE_DEFINITIONS, which=which, limit=limit - deleted or 1
                )
                rows = self._write(Lane.SCANS, statement, older_than=older_than)
                # Nobody knows of the rows that a delete has left behind.
                deleted += len(rows) if which == "d.completed_at" else 0
        return deleted

    def _delete_ended(self, older_than: timedelta, limit: int) -> int:
        sweep = self._sweep("ended")
        statement = self._text(_DELETE_ENDED, limit=limit)
        rows = self._scan(
            sweep,
            lambda connection: self._execute(
                connection,
                statement,
                older_than=older_than,
                position=sweep.position,
                back=sweep.back + older_than,
            ),
        )
        if len(rows) < limit:
            sweep.finish()
        else:
            sweep.go_on(max(row.completed_at for row in rows))
        return len(rows)

    # Statements.

    def _fill(self, template: str, **parts: object) -> str:
        return template.format(now=self._now_sql, **parts)

    def _text(self, template: str, **parts: object) -> Any:
        return text(self._fill(template, **parts))

    def _execute(
        self, connection: Connection, statement: Any, **parameters: object
    ) -> Sequence[Row[Any]]:
        if self.clock is not None:
            parameters["now"] = self.clock.now()
        return connection.execute(statement, parameters).all()

    def _write(
        self, lane: Lane, statement: Any, *, repeatable: bool = True, **values: object
    ) -> Sequence[Row[Any]]:
        return self._database.run(
            lane,
            lambda connection: self._execute(connection, statement, **values),
            repeatable=repeatable,
        )

    def _sweep(self, what: object) -> Sweep:
        sweep = self._sweeps.get(what)
        if sweep is None:
            sweep = self._sweeps[what] = Sweep(self._elapsed)
        return sweep

    def _scan(
        self,
        sweep: Sweep,
        work: Callable[[Connection], Any],
        *,
        repeatable: bool = True,
    ) -> Any:
        try:
            return self._database.run(Lane.SCANS, work, repeatable=repeatable)
        except BaseException:
            sweep.start_over()
            raise


def _utc(at: datetime | None) -> datetime | None:
    """In UTC, for a server reads no offset of other than whole seconds."""
    return None if at is None else at.astimezone(UTC)


def _id(claim: Claim) -> UUID:
    return claim.instance_id


def _keys(claims: Sequence[Claim]) -> dict[str, object]:
    return {
        "ids": [each.instance_id for each in claims],
        "attempts": [each.attempt for each in claims],
    }
