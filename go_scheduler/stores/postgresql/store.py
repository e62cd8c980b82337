"""The PostgreSQL store, which the CockroachDB store is a variant of."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.checks import LONGEST, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Cancelled
from go_scheduler.shown import shown
from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.postgresql import arrays
from go_scheduler.stores.postgresql import statements as sql
from go_scheduler.stores.postgresql.claims import Claims
from go_scheduler.stores.postgresql.driver import EngineKind, judge, make_engines
from go_scheduler.stores.postgresql.executing import Statements
from go_scheduler.stores.postgresql.newcomers import Newcomers
from go_scheduler.stores.postgresql.writes import Item, Write, Writes
from go_scheduler.stores.remembered import note_forgotten
from go_scheduler.stores.sql.database import Database, Lane
from go_scheduler.stores.sql.dialects import PostgreSQLDialect
from go_scheduler.stores.sql.reader import earliest_first, judged
from go_scheduler.stores.sql.rows import (
    CONTACT_COLUMNS,
    DEFINITION_COLUMNS,
    DefinitionRow,
    read_contacts,
    read_time,
    write_queues,
)
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.spare import Spare
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.sweep import LATE
from go_scheduler.stores.sql.types import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set
    from datetime import datetime

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Firing,
        NodeContact,
        Release,
        Renewal,
        Retention,
        RunOutcome,
    )

# How far back every look goes that found something due: what is not fired in so long
# must not make it walk over all that has been fired since.
_STILL_DUE = timedelta(minutes=5)


class PostgreSQLStore(SQLStore):
    """Keeps everything in a PostgreSQL database that any number of nodes share.

    Args:
        url: Such as ``postgresql://user:password@host:5432/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``. Several hosts, as in
            ``postgresql://user@a:5432,b:5432/database``, are tried in this order for
            the one that is the primary.
        clock: Used instead of the database's time, for tests.
        connect_args: More arguments of ``psycopg.connect``; they win over the URL.
        pool_size: Most connections for what is called by hand; the loops have at most
            six of their own.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database, or
            ``pool_size`` is below one.
    """

    _kind = EngineKind.POSTGRESQL
    _dialect: PostgreSQLDialect

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
    ) -> None:
        check_type("pool_size", pool_size, int)
        if pool_size < 1:
            raise ConfigurationError(
                f"pool_size must be one or more, not {shown(pool_size)}"
            )
        engines, connects = make_engines(
            url, self._kind, connect_args=connect_args, pool_size=pool_size
        )
        spares = [
            Spare(engine, connects[lane], elapsed=lambda: self._elapsed())
            for lane, engine in engines.items()
        ]
        database = Database(
            engines, judge=judge, transaction=self._transaction, spares=spares
        )
        dialect = self._make_dialect(clock)
        schema = Schema(dialect.name, migrate)
        super().__init__(database, dialect, schema=schema, clock=clock)
        self._url = engines[Lane.USERS].url
        self._statements = Statements(database, dialect, clock=clock)
        self._newcomers = Newcomers(self._statements, dialect)
        self._writes = Writes(self._statements)
        self._claims = Claims(
            self._statements, shards=dialect.shards, reads_rows=dialect.reads_rows
        )

    def __repr__(self) -> str:
        query = {
            key: value
            for key, value in self._url.query.items()
            if key in ("host", "port")
        }
        url = self._url.set(query=query).render_as_string(hide_password=True)
        return f"{type(self).__name__}({url!r})"

    def connect(self) -> None:
        """Open all connections of the loops, so that no start waits for one."""
        self._database.connect([Lane.SCANS, Lane.CLAIMS, Lane.RENEWALS])

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        level = self._kind.isolation_level
        with connection.execution_options(isolation_level=level).begin():
            yield

    def _make_dialect(self, clock: Clock | None) -> PostgreSQLDialect:
        return PostgreSQLDialect(clock)

    # Definitions.

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        if len(definitions) == 1 and (stored := self._insert(definitions[0])):
            return [stored]
        return super().put_definitions(definitions)

    def _insert(self, definition: TaskDefinition) -> TaskDefinition | None:
        """Insert one that is new: no transaction has to be begun and ended for it."""
        made = self._database.run(
            Lane.USERS,
            lambda connection: self._newcomers.insert(
                connection, [definition], late=False
            ),
        )
        if (newcomer := made.get(definition.id)) is None:
            return None
        # It may well be due now.
        self._reader.remember(newcomer.key, 1, newcomer.contents)
        return newcomer.definition

    def _put(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
    ) -> Sequence[TaskDefinition]:
        if len(definitions) == 1:
            # It is not new: that was tried.
            return self._edits.put(connection, definitions, late=late)
        made = self._newcomers.insert(connection, definitions, late=late)
        put = {each.id: each for each, *_ in made.values()}
        others = [each for each in definitions if each.id not in put]
        if others:
            changed = self._edits.put(connection, others, late=late)
            put.update((each.id, each) for each in changed)
        return [put[each.id] for each in definitions]

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        sweep = self._statements.sweep("due")
        parameters: dict[str, object] = {
            "ahead": ahead,
            # What was not late when it was written may have passed all the same.
            "back": sweep.back + LATE,
        }
        if after is not None:
            parameters["after_time"] = after.next_fire_time
            parameters["after_id"] = after.id
        following = "" if after is None else sql.AFTER

        statement = self._due(limit=limit, after=following)
        rows = self._statements.scan(
            sweep,
            lambda: self._statements.read(Lane.SCANS, statement, parameters),
            # What has been read is still due: only a page of nothing is the end.
            limit=1,
        )
        times = filter(None, (read_time(row.next_fire_time) for row in rows))
        if (earliest := min(times, default=None)) is not None:
            sweep.go_on(min(rows[0].now - earliest, _STILL_DUE))
        return self._reader.definitions(
            Lane.SCANS, [DefinitionRow(*row[:-1]) for row in rows]
        )

    def _due(self, **parts: str | int) -> TextualSelect:
        parts["columns"] = columns = ", ".join(DEFINITION_COLUMNS)
        shards = range(self._dialect.shards)
        branches = [
            self._statements.fill(sql.DUE_IN_TIME, shard=shard, **parts)
            for shard in shards
        ]
        branches.append(self._statements.fill(sql.DUE_LATE, **parts))
        return self._statements.text(
            sql.DUE,
            returns=(*DEFINITION_COLUMNS, "now"),
            branches=", ".join(branches),
            union=sql.union([*(f"in_time{shard}" for shard in shards), "late"]),
            columns=columns,
            limit=parts["limit"],
        )

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on."""
        if not firings:
            return Answer(done=frozenset())
        some_wait = any(each.definition.trigger.waits for each in firings)
        unless = sql.UNLESS_OPEN if some_wait else ""
        statement = self._statements.text(sql.FIRE, returns=("id",), unless=unless)
        write: Write[Firing] = Write(
            lane=Lane.SCANS,
            statement=statement,
            apart=statement,
            free=self._statements.text(
                sql.FREE_DEFINITIONS, returns=("id", "revision")
            ),
            current=self._statements.text(sql.STILL_TO_FIRE, returns=("id",)),
            parameters=self._firing_parameters,
            id_of=attrgetter("definition.id"),
            # Its repetition would answer that another node had won.
            repeatable=False,
        )
        # One order for all nodes, so that none waits for another in a circle.
        ordered = sorted(firings, key=lambda each: each.definition.id.int)
        rows, busy = self._writes.write(write, ordered)
        return Answer(done={row.id for row in rows}, busy=busy)

    def _firing_parameters(self, firings: Sequence[Firing]) -> Mapping[str, object]:
        made = [each for firing in firings for each in _made_by(firing)]
        ids = [uuid4() for _ in made]
        return {
            "late": LATE,
            "ids": arrays.ids(each.definition.id for each in firings),
            "expected": arrays.times(
                each.definition.next_fire_time for each in firings
            ),
            "revisions": arrays.numbers(each.definition.revision for each in firings),
            "next_times": arrays.times(each.next_fire_time for each in firings),
            "instance_ids": arrays.ids(ids),
            "shards": arrays.numbers(id.int % self._dialect.shards for id in ids),
            "definition_ids": arrays.ids(each.definition_id for each in made),
            "fire_times": arrays.times(each.fire_time for each in made),
            "lasts": arrays.times(each.last for each in made),
            "counts": arrays.numbers(each.skipped for each in made),
            "reasons": arrays.texts(each.reason for each in made),
        }

    # Instances.

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        old, new = self._claims.take(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        claimed = self._reader.claimed(Lane.SCANS, [*old, *new])
        count = len(old)
        return earliest_first(claimed[:count]) + earliest_first(claimed[count:])

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        parameters = {"node": node, "after": UUID(int=0) if after is None else after.id}
        statement = self._statements.text(sql.CLAIMED, returns=sql.BOTH, limit=limit)
        rows = self._statements.read(Lane.SCANS, statement, parameters)
        return judged(self._reader.claimed(Lane.SCANS, rows))

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        if not claims:
            return Answer(done=[])

        def parameters(batch: Sequence[Claim]) -> Mapping[str, object]:
            return {
                **_keys(batch),
                "lease": claimant.lease,
                "expire_after": claimant.expire_after,
            }

        write = self._write_of_claims(
            Lane.CLAIMS,
            sql.START,
            returns=sql.BOTH,
            parameters=parameters,
            id_of=attrgetter("instance_id"),
        )
        rows, busy = self._writes.write(write, sorted(claims, key=_claimed_number))
        started = judged(self._reader.claimed(Lane.CLAIMS, rows))
        return Answer(done=started, busy=busy)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        if not renewals:
            return Answer(done={})
        write = self._write_of_claims(
            Lane.RENEWALS,
            sql.RENEW,
            returns=("id", "cancel_requested"),
            parameters=_renewal_parameters,
        )
        rows, busy = self._writes.write(write, sorted(renewals, key=_number))
        return Answer(done={row.id: row.cancel_requested for row in rows}, busy=busy)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        if not outcomes:
            return Answer(done=frozenset())
        statement = self._statements.text(
            sql.FINISH, returns=("id",), may_end=sql.MAY_END, gone_on=sql.GONE_ON
        )
        write: Write[RunOutcome] = Write(
            lane=Lane.CLAIMS,
            statement=statement,
            apart=statement,
            free=self._statements.text(sql.FREE_TO_END, returns=("id",)),
            current=self._statements.text(
                sql.STILL_MAY_END, returns=("id",), may_end=sql.MAY_END
            ),
            parameters=_outcome_parameters,
            id_of=attrgetter("claim.instance_id"),
            # Done and repeated, it would answer that the claims were lost.
            repeatable=False,
        )
        rows, busy = self._writes.write(write, sorted(outcomes, key=_number))
        return Answer(done={id for (id,) in rows}, busy=busy)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        if not releases:
            return Answer(done=frozenset())
        write = self._write_of_claims(
            Lane.CLAIMS,
            sql.RELEASE,
            returns=("id",),
            parameters=_release_parameters,
        )
        rows, busy = self._writes.write(write, sorted(releases, key=_number))
        return Answer(done={row.id for row in rows}, busy=busy)

    def _write_of_claims(
        self,
        lane: Lane,
        template: str,
        *,
        returns: tuple[str, ...],
        parameters: Callable[[Sequence[Item]], Mapping[str, object]],
        id_of: Callable[[Item], UUID] = attrgetter("claim.instance_id"),
    ) -> Write[Item]:
        """A write that changes what is owned by the claims of its batch."""
        text = self._statements.text
        filled = partial(text, template, returns=returns, owned=sql.OWNED)
        return Write(
            lane=lane,
            statement=filled(apart=""),
            apart=filled(apart=sql.APART),
            free=text(sql.FREE_INSTANCES, returns=("id",)),
            current=text(sql.STILL_OWNED, returns=("id",), owned=sql.OWNED),
            parameters=parameters,
            id_of=id_of,
        )

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        if not cancellations:
            return {}
        ordered = sorted(cancellations, key=lambda each: each.int)
        rows = self._statements.run(
            Lane.USERS,
            self._statements.text(
                sql.CANCEL,
                returns=("id", "runs_on"),
                gone_on=sql.GONE_ON,
            ),
            {
                "ids": arrays.ids(ordered),
                "next_times": arrays.times(cancellations[each] for each in ordered),
                "late": LATE,
            },
            repeatable=False,
        )
        return {
            row.id: Cancelled.REQUESTED if row.runs_on else Cancelled.CANCELLED
            for row in rows
        }

    # Nodes.

    def note_contact(
        self, node: UUID, *, unbroken: timedelta, queues: Sequence[str]
    ) -> None:
        """Record that a node has been in contact with the store up to now."""
        statement = self._statements.text(sql.NOTE_CONTACT, returns=("node",))
        parameters = {
            "node": node,
            "unbroken": unbroken,
            "queues": write_queues(queues),
        }
        self._statements.run(Lane.RENEWALS, statement, parameters)

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        statement = self._statements.text(sql.CONTACTS, returns=CONTACT_COLUMNS)
        return read_contacts(
            self._statements.run(Lane.SCANS, statement, {"within": within})
        )

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        older_than = min(retention.ended, LONGEST)
        failed = min(retention.failed, LONGEST)
        left = limit - self._delete_over("ended", "<>", older_than, limit)
        if left:
            left -= self._delete_over("failed", "=", failed, left)
        if left:
            completed = self._delete_definitions("completed_at", older_than, left)
            left -= completed
            # Nobody knows of the rows that a delete has left behind for their history.
            self._delete_definitions("deleted_at", older_than, limit)
            statement = self._statements.text(sql.DELETE_CONTACTS, returns=("node",))
            self._statements.run(Lane.SCANS, statement, {"kept": CONTACTS_KEPT})
            forgotten = self._database.run(
                Lane.SCANS,
                lambda connection: self._forget(
                    connection, retention.remembered, made=completed, limit=limit
                ),
            )
            note_forgotten(forgotten, most=self.most_remembered)
        # Nobody waits for a cleanup.
        self._database.replace_one()
        return limit - left

    def _delete_over(
        self, over: str, which: str, older_than: timedelta, limit: int
    ) -> int:
        sweep = self._statements.sweep((over, older_than))
        parameters = {
            "older_than": older_than,
            "back": sweep.back + older_than,
        }
        statement = self._statements.text(
            sql.DELETE_OVER,
            returns=("completed_at", "now"),
            over=f"{{{over}}}",
            which=which,
            limit=limit,
        )
        rows = self._statements.scan(
            sweep,
            lambda: self._statements.run(Lane.SCANS, statement, parameters),
            limit=limit,
        )
        if len(rows) == limit:
            last = max(row.completed_at for row in rows)
            sweep.go_on(rows[0].now - last - older_than)
        return len(rows)

    def _delete_definitions(self, since: str, older_than: timedelta, limit: int) -> int:
        statement = self._statements.text(
            sql.DELETE_DEFINITIONS,
            returns=("key",),
            since=since,
            over=f"{{over_{since}}}",
            limit=limit,
        )
        return len(
            self._statements.run(Lane.SCANS, statement, {"older_than": older_than})
        )


class _Made(NamedTuple):
    """An instance that a firing makes."""

    definition_id: UUID
    fire_time: datetime
    last: datetime | None = None
    skipped: int | None = None
    reason: str | None = None


def _made_by(firing: Firing) -> Iterator[_Made]:
    id, skipped = firing.definition.id, firing.skipped
    if skipped is not None:
        yield _Made(id, skipped.first, skipped.last, skipped.count, skipped.reason)
    for fire_time in firing.fire_times:
        if skipped is None or fire_time != skipped.first:
            yield _Made(id, fire_time)


_number = attrgetter("claim.instance_id.int")
_claimed_number = attrgetter("instance_id.int")


def _renewal_parameters(renewals: Sequence[Renewal]) -> Mapping[str, object]:
    leases = (to_microseconds(each.lease) for each in renewals)
    return {
        **_keys([each.claim for each in renewals]),
        "leases": arrays.numbers(leases),
    }


def _release_parameters(releases: Sequence[Release]) -> Mapping[str, object]:
    delays = (to_microseconds(each.delay) for each in releases)
    return {
        **_keys([each.claim for each in releases]),
        "delays": arrays.numbers(delays),
    }


def _outcome_parameters(outcomes: Sequence[RunOutcome]) -> Mapping[str, object]:
    retries = (to_microseconds(each.retry_in) for each in outcomes)
    return {
        **_keys([each.claim for each in outcomes]),
        "outcomes": arrays.words(each.outcome for each in outcomes),
        "ended": arrays.ids(
            each.claim.instance_id for each in outcomes if each.outcome is not None
        ),
        "started": arrays.times(each.started_at for each in outcomes),
        "retries": arrays.numbers(retries),
        "hung": arrays.truths(each.hung for each in outcomes),
        "errors": arrays.texts(each.error for each in outcomes),
        "next_times": arrays.times(each.next_fire_time for each in outcomes),
        "late": LATE,
    }


def _keys(claims: Sequence[Claim]) -> dict[str, object]:
    return {
        "ids": arrays.ids(each.instance_id for each in claims),
        "attempts": arrays.numbers(each.attempt for each in claims),
    }
