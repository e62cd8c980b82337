"""How instances are made that no schedule makes: added ones, and backfilled ones."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models.values import changed, new_ids
from go_scheduler.stores import rules
from go_scheduler.stores.sql.database import Lane, Overtaken
from go_scheduler.stores.sql.edits import definition_of, live_among
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
    DefinitionRow,
    read_instance,
    write_overrides,
)
from go_scheduler.stores.sql.runs import NOT_ELSEWHERE, lease_of, start_terms
from go_scheduler.stores.sql.statement import SQLPart, Statement, own_or
from go_scheduler.stores.sql.tables import definitions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition, Claimant

_LEASE = lease_of("d")

_OF_DEFINITION = (*DEFINITION_COLUMNS, "slot", "overlap")
_NAMED = ", ".join(f"d.{name} AS d_{name}" for name in DEFINITION_COLUMNS)
_WIDTH = len(DEFINITION_COLUMNS)
_MOST_KNOWN = 10_000
# Those that add to a limited definition do it one after the other.
_WAITS_IN_TURN = 4


def _own(column: str) -> str:
    return own_or("x", column, f"d.{column}")


# Whoever edits, pauses or deletes the definition waits for the end of this, and then
# finds what was added; no fire and no other addition does. What is there already is a
# look-up, by OFFSET 0 as for fires. The ids are told if not all are made.
@lru_cache(maxsize=8)
def add(*, starts: bool, limited: bool = False, joined: bool = False) -> Statement:
    """Makes instances of one definition.

    Args:
        starts: Whether those that are due are started.
        limited: Whether few may wait: those with a reason are skipped.
        joined: Whether a conflict is to leave a transaction of the user's as it is.
    """
    mine, unless, columns, values, join, answer = "", "", "", "", "", ""
    reason = ""
    if starts:
        mine = """
mine AS MATERIALIZED (
  SELECT NOT d.paused AND d.slot IS NULL AND d.queue = ANY(CAST(:queues AS text[]))
         AND (CAST(:names AS text[]) IS NULL
              OR EXISTS (SELECT 1 FROM task_contents@task_contents_pkey AS c
                          WHERE c.key = d.key
                            AND c.name = ANY(CAST(:names AS text[])))) AS starts
    FROM d),"""
        is_started = "mine.starts AND x.at <= now()"
        unless = f" AND NOT ({is_started})"
        columns = """,
          claimed_by, attempt, runs, started_at, expires_at"""
        values = f""",
         CASE WHEN {is_started} THEN CAST(:node AS uuid) END,
         CASE WHEN {is_started} THEN 1 ELSE 0 END,
         CASE WHEN {is_started} THEN 1 ELSE 0 END,
         CASE WHEN {is_started} THEN now() END,
         CASE WHEN {is_started} THEN now()
             + {_LEASE} END"""
        join = " CROSS JOIN mine"
        answer = f""",
       mine.starts,
       now()
           + {_LEASE} AS expires_at"""
    if limited:
        reason = ", reason text"
        unless = " AND x.reason IS NULL"
        columns = """,
          outcome, completed_at, skipped_first, skipped_last, skipped_count,
          skipped_reason"""
        values = "".join(
            f""",
         CASE WHEN x.reason IS NOT NULL THEN {each} END"""
            for each in ("'skipped'", "now()", "x.at", "x.at", "1", "x.reason")
        )
    sql = f"""
WITH d AS MATERIALIZED (
  SELECT {", ".join(_OF_DEFINITION)} FROM task_definitions@task_definitions_id_key
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL
     FOR {"NO KEY UPDATE" if limited else "KEY SHARE"}),{mine}
x AS MATERIALIZED (
  SELECT b.id, b.shard, b.key, b.payload, b.trace_context, b.overrides,{
        " b.reason," * limited
    }
         coalesce(b.at, now() + b.delay * interval '1 microsecond') AS at
    FROM batch AS b (id uuid, shard bigint, key text, payload text, at timestamptz,
                     delay duration, trace_context text, overrides text{reason})),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload,
          trace_context, overrides, created_at{columns})
  SELECT x.id, d.key, x.shard,
         {_own("queue")},
         {_own("priority")},
         {_own("expire_after")},
         {_own("slot")}, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused{unless} THEN greatest(x.at, now()) END, x.payload,
         x.trace_context, x.overrides, now(){values}
    FROM d CROSS JOIN x{join}
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_key_key AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0){
        " ON CONFLICT DO NOTHING" * joined
    }
  RETURNING id, claimable_at)
SELECT {_NAMED}, now() AS now,
       ids_unless_all(made.id, :given) AS ids,
       notified(made, claimable_at, i) AS hinted{answer}
  FROM d{join}
"""
    return Statement(sql, races=True)


_COLUMNS = ", ".join(f"i.{name}" for name in INSTANCE_COLUMNS)
_EXISTING = Statement(f"""
SELECT {_COLUMNS}
  FROM task_instances@task_instances_pkey AS i
 WHERE i.id IN (SELECT x.id FROM batch AS x (id uuid, key text))
UNION ALL
SELECT {_COLUMNS}
  FROM task_instances@task_instances_key_key AS i
 WHERE i.definition_key = CAST(:key AS uuid) AND i.key IS NOT NULL
   AND i.key IN (SELECT x.key FROM batch AS x (id uuid, key text))
""")
_WAITING = Statement("""
SELECT count(*) AS waiting
  FROM (SELECT i.id FROM task_instances@task_instances_open_idx AS i
         WHERE i.definition_key = CAST(:key AS uuid)
           AND i.completed_at IS NULL AND i.outcome IS NULL
           AND (i.claimed_by IS NULL OR i.started_at IS NULL OR i.start_by IS NOT NULL)
         LIMIT :limit) AS few
""")
# One that was skipped is as if it were new.
_BACKFILL = Statement(f"""
WITH made AS (
  INSERT INTO task_instances AS t
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, backfilled, trace_context, created_at, fire_time, execute_at, due_at,
          claimable_at)
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after,
         CAST(:slot AS text), CAST(:overlap AS text), d.paused,
         CAST(:backfilled AS text), CAST(:trace_context AS text), now(), x.at, x.at,
         x.at, CASE WHEN NOT d.paused THEN greatest(x.at, now()) END
    FROM batch AS x (id uuid, shard bigint, at timestamptz)
    JOIN task_definitions@task_definitions_pkey AS d ON d.key = CAST(:key AS uuid)
   WHERE true
  ON CONFLICT (definition_key, fire_time) DO UPDATE
     SET queue = excluded.queue, priority = excluded.priority,
         expire_after = excluded.expire_after, slot = excluded.slot,
         overlap = excluded.overlap, frozen = excluded.frozen,
         backfilled = excluded.backfilled, trace_context = excluded.trace_context,
         due_at = t.execute_at,
         claimable_at = CASE WHEN NOT excluded.frozen
                        THEN greatest(t.execute_at, now()) END,
         parked = false, waits = false, runs = 0, hangs = 0, claimed_by = NULL,
         {NOT_ELSEWHERE},
         given_back = NULL, expires_at = NULL, started_at = NULL, completed_at = NULL,
         outcome = NULL, ended_attempt = NULL, cancel_requested = false,
         skipped_first = NULL, skipped_last = NULL, skipped_count = NULL,
         skipped_reason = NULL
   WHERE t.outcome = 'skipped' AND t.backfilled IS NULL
  RETURNING fire_time, claimable_at)
SELECT fire_time, notified(made, claimable_at, i) AS hinted FROM made
""")


class _Limited(Exception):
    """Few instances of a definition may wait, which was not known."""


class SQLInserts(SQLPart):
    """Makes instances by hand."""

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        if self._is_limited(definition_id):
            found = self._database.transact(
                lambda each: self._add_limited(each, definition_id, additions),
                waits=_WAITS_IN_TURN,
            )
        else:
            try:
                found = self._statements.within(
                    Lane.NEW,
                    lambda each: self._add(each, definition_id, additions, claimant),
                )
            except _Limited:
                return self.add_instances(definition_id, additions, claimant=claimant)
        self._classes.seen([each.definition for each in found])
        if len(self._limited) >= _MOST_KNOWN:
            self._limited.clear()
        for each in found[:1]:
            self._limited[definition_id] = each.definition.max_queue is not None
        return found

    def _is_limited(self, definition_id: UUID) -> bool:
        """Whether few may wait: read once, and as each answer says from then on."""
        found = self._limited.get(definition_id)
        if found is not None:
            return found
        query = live_among(self._dialect, [definition_id])
        lane = self._statements.reading(Lane.NEW)
        rows = self._look(lambda each: each.execute(query).all(), lane)
        return any(definition_of(row).max_queue is not None for row in rows)

    def _add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant | None,
        skipped: Mapping[UUID, str] | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances, and start those that are due for a claimant.

        Args:
            connection: Where.
            definition_id: The definition.
            additions: What to add.
            claimant: For whom.
            skipped: Why some are skipped, by their ids; None: not many may wait.
        """
        # Of those with one id or one key, only the first can be added.
        by_id = {each.id: each for each in reversed(additions)}
        firsts = {each.key or each.id: each for each in by_id.values()}
        # One order for all nodes, so that none waits for another in a circle.
        new = sorted(firsts.values(), key=lambda each: each.key or "")
        by_id |= {each.id: each for each in new}
        terms: dict[str, Any] = {"definition_id": definition_id, "given": len(new)}
        if claimant is not None:
            names = claimant.names
            terms |= start_terms(claimant)
            terms["queues"] = list(claimant.queues)
            terms["names"] = None if names is None else list(names)
        batch = [self._of_addition(each) for each in new]
        if skipped is not None:
            terms["hint_within"] = self._dialect.hint_within(connection, late=False)
            reasons = (skipped.get(each.id) for each in new)
            batch = [(*row, why) for row, why in zip(batch, reasons, strict=True)]
        joined, limited = self._dialect.joined, skipped is not None
        statement = add(starts=claimant is not None, limited=limited, joined=joined)
        rows = self._statements.execute(connection, statement, terms, {"b": batch})
        if not rows:
            raise TaskDefinitionNotFoundError(definition_id)
        [row] = rows
        there: Mapping[UUID, Any] = {}
        if row.ids is not None or skipped or len(new) < len(additions):
            made = {each.id for each in new} if row.ids is None else {*row.ids}
            made.difference_update(skipped or ())
            left = [each for each in additions if each.id not in made]
            there = self._there(connection, row.d_key, left)
            if any(each.id not in there for each in left):
                # Somebody else adds it at this moment, or deletes it.
                raise Overtaken
        [definition] = self._reader.definitions(
            Lane.BY_HAND, [DefinitionRow(*row[:_WIDTH])]
        )
        if definition.max_queue is not None and skipped is None:
            self._limited[definition_id] = True
            if joined:
                raise Overtaken
            if self._statements.rolls_back:
                raise _Limited
        started: Mapping[str, object] = {}
        if claimant is not None and row.starts:
            started = {
                "claimed_by": claimant.node,
                "attempt": 1,
                "runs": 1,
                "started_at": row.now,
                "expires_at": row.expires_at,
            }
        return [
            read_instance(tuple(there[each.id]), definition)
            if each.id in there
            else _made(by_id[each.id], definition, row.now, started)
            for each in additions
        ]

    def _add_limited(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition of which few may wait: one adds at a time."""
        key, definition = self._lock_live(connection, definition_id, shared=False)
        beyond: Collection[UUID] = ()
        if (most := definition.max_queue) is not None:
            there = self._there(connection, key, additions)
            terms = {"key": key, "limit": most}
            [row] = self._statements.execute(connection, _WAITING, terms)
            beyond = rules.dropped(
                definition, additions, known=there, waiting=row.waiting
            )
        skipped = dict.fromkeys(beyond, rules.FULL % most)
        return self._add(connection, definition_id, additions, None, skipped)

    def _lock_live(
        self, connection: Connection, id: UUID, *, shared: bool
    ) -> tuple[UUID, TaskDefinition]:
        """Lock a definition; the key of its row, and itself.

        Whoever edits, pauses or deletes it waits, and then finds what is added. Unless
        it is shared, so does whoever adds to it likewise.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        query = live_among(self._dialect, [id])
        query = query.with_for_update(read=shared, key_share=True, of=definitions)
        for row in connection.execute(query):
            return row.key, definition_of(row)
        raise TaskDefinitionNotFoundError(id)

    def _there(
        self, connection: Connection, key: UUID, additions: Sequence[Addition]
    ) -> Mapping[UUID, Any]:
        """The rows that are in the places of additions, by the ids of these.

        Args:
            connection: Of ours, or of the user's.
            key: Of the definition's row.
            additions: What is looked for, by its id or key.
        """
        batch = [(each.id, each.key) for each in additions]
        rows = self._statements.execute(
            connection, _EXISTING, {"key": key}, {"x": batch}
        )
        by_id = {row.id: row for row in rows}
        by_key = {row.key: row for row in rows if row.definition_key == key and row.key}
        found = (
            (each.id, by_id.get(each.id) or by_key.get(each.key)) for each in additions
        )
        return {id: row for id, row in found if row is not None}

    def _of_addition(self, addition: Addition) -> tuple[object, ...]:
        return (
            addition.id,
            self._dialect.shard_of(addition.id),
            addition.key,
            addition.payload_text,
            addition.at,
            addition.delay,
            addition.trace_context,
            write_overrides(addition.overrides),
        )

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        return self._database.transact(
            lambda each: self._backfill(each, definition, fire_times, overlap),
            # What was made, and is repeated, is there already.
            repeatable=False,
        )

    def _backfill(
        self,
        connection: Connection,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        overlap: Overlap,
    ) -> Sequence[datetime]:
        # As whoever fires it: no two make the same at one moment, and a loop finds a
        # definition that is busy, and not rows that a transaction of the user's has
        # made.
        key, of = self._lock_live(connection, definition.id, shared=True)
        rules.check_is_as_read(definition, of.revision)
        if not fire_times:
            return []
        judged_by = rules.overlap_of_backfilled(overlap)
        terms = {
            "key": key,
            "slot": rules.slot_of(of, fired=False, backfilled=overlap),
            "overlap": None if judged_by is None else judged_by.value,
            "backfilled": overlap.value,
            "trace_context": definition.trace_context,
            "hint_within": self._dialect.hint_within(connection, late=False),
        }
        ids = new_ids(len(fire_times))
        # One order for all nodes, so that none waits for another in a circle.
        batch = [
            (id, self._dialect.shard_of(id), at)
            for id, at in zip(ids, sorted(fire_times), strict=True)
        ]
        rows = self._statements.execute(connection, _BACKFILL, terms, {"x": batch})
        done = {row.fire_time for row in rows}
        return [each for each in fire_times if each in done]


def _made(
    addition: Addition,
    definition: TaskDefinition,
    now: datetime,
    started: Mapping[str, object],
) -> TaskInstance:
    made = addition.made(definition, now)
    return changed(made, **started) if started and made.due_at <= now else made
