"""Definitions that are due: how they are read and fired."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from go_scheduler.clock import ZERO
from go_scheduler.models.values import new_ids
from go_scheduler.stores.messages import Claimant, Fired, Firing, Own
from go_scheduler.stores.rules import LOCK, fired
from go_scheduler.stores.sql.database import LATE_AFTER, Lane
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    EARLIEST,
    DefinitionRow,
    read_time,
)
from go_scheduler.stores.sql.runs import lease_of, start_terms, started_at_once
from go_scheduler.stores.sql.statement import SQLPart, Statement, Write, of_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance

# A definition that is due and not fired for longer than this is left to deeper looks:
# every look would walk over all that has been fired since.
_STILL_DUE = timedelta(minutes=5)

_COLUMNS = ", ".join(DEFINITION_COLUMNS)
_NAMED = ", ".join(f"{name} AS d_{name}" for name in DEFINITION_COLUMNS)
_AFTER = """
     AND (next_fire_time, id)
         > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid))"""


@lru_cache(maxsize=8)
def due(shards: int, *, goes_on: bool) -> Statement:
    """A page of what is due, in time or late, of every shard.

    Where there are several, each is read so far ahead as is said of it. The index of
    what is late has no shards, as it is short.

    On SQLite a time that is no whole number is never due. One that is no time comes
    first, for its definition to be reported.
    """
    after = _AFTER if goes_on else ""
    of_late = ""
    if shards > 1:
        of_late = """
     AND (next_fire_time <= now() + CAST(:others AS interval)
          OR shard = ANY(CAST(:own AS bigint[])))"""
    in_time = [
        f"""
in_time{shard} AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_due_idx
   WHERE {of_shard(shard, shards)}next_fire_time IS NOT NULL
     AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead{shard if shards > 1 else ""} AS interval)
     AND on_sqlite(typeof(next_fire_time) = 'integer'){after}
   ORDER BY next_fire_time, id LIMIT :limit),"""
        for shard in range(shards)
    ]
    parts = [*(f"in_time{shard}" for shard in range(shards)), "late"]
    every = "\n        UNION ALL ".join(f"SELECT * FROM {part}" for part in parts)
    return Statement(f"""
WITH{"".join(in_time)}
late AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_late_idx
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= now() + CAST(:ahead AS interval){of_late}
     AND on_sqlite(typeof(next_fire_time) = 'integer'){after}
   ORDER BY next_fire_time, id LIMIT :limit)
SELECT {_NAMED}, now() AS now
  FROM ({every}) AS due
 ORDER BY next_fire_time, id LIMIT :limit
""")


# For a batch in which some wait for the end of a run. In any other a server would be
# free to look at more instances than it has to, and to wait for those that are locked.
# By OFFSET 0 it is a look-up: PostgreSQL could read all that is open to join it.
_NOTHING_OPEN = """
     AND NOT EXISTS (
           SELECT 1 FROM task_instances@task_instances_open_idx AS o
            WHERE o.definition_key = d.key AND d.waits AND o.waits
              AND o.completed_at IS NULL AND o.outcome IS NULL OFFSET 0)"""
# What ``slot_of`` and ``overlap_of`` in ``stores.rules`` say of the definition.
_SLOT = f"CASE WHEN NOT d.waits OR d.slot LIKE '{LOCK}%' THEN d.slot END"
_OVERLAP = "CASE WHEN NOT d.waits THEN d.overlap END"
_AT = "f.fire_time + f.later * interval '1 microsecond'"
# On CockroachDB it is the row that is locked, and not an index's copy of it: the
# revision makes it read the row.
_FIRE_FREE = Statement("""
SELECT id, revision FROM task_definitions@task_definitions_id_key
 WHERE id IN (SELECT x.id FROM batch AS x (id uuid)) AND deleted_at IS NULL
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_FIRE_CURRENT = Statement("""
SELECT d.id
  FROM batch AS x (id uuid, expected timestamptz, revision bigint)
  JOIN task_definitions@task_definitions_id_key AS d
    ON d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
""")


def _fire(*, waits: bool = False, starts: bool = False) -> Write:
    """Moves definitions on that are as they were read, and makes their instances.

    Args:
        waits: Whether any of them waits for the end of a run.
        starts: Whether what is made is claimed and started.
    """
    claimable, columns, values = (
        f"CASE WHEN f.reason IS NULL THEN greatest({_AT}, now()) END",
        "",
        "",
    )
    if starts:
        claimable = "NULL"
        columns = """,
          claimed_by, attempt, runs, started_at, expires_at"""
        values = f""",
         CAST(:node AS uuid), 1, 1, greatest(now(), {_AT}),
         greatest(now(), {_AT})
             + {lease_of("d")}"""
    sql = f"""
WITH moved AS (
  UPDATE task_definitions@task_definitions_id_key AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN now()
                        END
    FROM batch AS x (id uuid, expected timestamptz, revision bigint,
                     next_at timestamptz)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected
     AND d.revision = x.revision{_NOTHING_OPEN if waits else ""}
  RETURNING d.key, d.id, d.queue, d.priority, d.expire_after, d.waits, d.slot,
            d.overlap, d.fired_until),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, slot,
          overlap, fire_time, execute_at, due_at, claimable_at, outcome, completed_at,
          skipped_first, skipped_last, skipped_count, skipped_reason, created_at{
        columns
    })
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits,
         {_SLOT},
         {_OVERLAP},
         CASE WHEN f.reason IS NULL THEN f.fire_time END, {_AT},
         {_AT},
         {claimable},
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN now() END,
         CASE WHEN f.reason IS NOT NULL THEN f.fire_time END, f.last, f.count, f.reason,
         now(){values}
    FROM batch AS f (id uuid, definition_id uuid, shard bigint, fire_time timestamptz,
                     later duration, last timestamptz, count bigint, reason text)
    JOIN moved AS d ON d.id = f.definition_id
   WHERE (f.reason IS NOT NULL OR f.fire_time IS DISTINCT FROM d.fired_until)
  ON CONFLICT (definition_key, fire_time) DO NOTHING
  RETURNING id, definition_key, started_at, expires_at)
{
        '''SELECT moved.id, made.id AS made_id, made.started_at, made.expires_at,
       now() AS now
  FROM moved LEFT JOIN made ON made.definition_key = moved.key'''
        if starts
        else "SELECT id FROM moved"
    }
"""
    return Write(Statement(sql), free=_FIRE_FREE, current=_FIRE_CURRENT)


_FIRE = _fire()
_FIRE_WAITING = _fire(waits=True)
_FIRE_AND_START = _fire(starts=True)


class SQLFiring(SQLPart):
    """Reads what is due, and fires it."""

    def due_definitions(
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        sweep = self._statements.sweep("due")
        terms: dict[str, Any] = {
            **_how_far(ahead, own, self._dialect.shards),
            "ahead": ahead,
            # A fire time may have been so much late without being marked as late.
            "back": sweep.back + LATE_AFTER,
            "limit": limit,
        }
        if after is not None:
            terms["after_time"] = after.next_fire_time or EARLIEST
            terms["after_id"] = after.id
        statement = due(self._dialect.shards, goes_on=after is not None)
        with self._statements.scanning(sweep):
            rows = self._statements.read(Lane.BY_TIME, statement, terms)
        if not rows:
            # Definitions that were read are still due: only an empty page is the end.
            sweep.finish()
        times = filter(None, (read_time(row.d_next_fire_time) for row in rows))
        if (earliest := min(times, default=None)) is not None:
            sweep.go_on(min(rows[0].now - earliest, _STILL_DUE))
        page = self._reader.definitions(
            Lane.BY_TIME, [DefinitionRow(*row[:-1]) for row in rows]
        )
        return self._classes.seen(page)

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        if not firings:
            return Fired(done=frozenset())
        terms: dict[str, Any] = {"late": LATE_AFTER}
        if claimant is not None:
            write = _FIRE_AND_START
            terms |= start_terms(claimant)
        elif any(each.definition.trigger.waits for each in firings):
            write = _FIRE_WAITING
        else:
            write = _FIRE
        batch = [
            (
                each.definition.id,
                each.definition.next_fire_time,
                each.definition.revision,
                each.next_fire_time,
            )
            for each in firings
        ]
        count = sum(
            len(each.fire_times) + (each.skipped is not None) for each in firings
        )
        ids = iter(new_ids(count))
        made = [row for each in firings for row in self._made_by(each, ids)]
        rows, busy = self._statements.write(
            Lane.BY_TIME,
            write,
            batch,
            terms,
            {"f": made},
            # A fire that was done, and is repeated, answers that another node won.
            repeatable=False,
        )
        done = {row.id for row in rows}
        if claimant is None:
            return Fired(done=done, busy=busy)
        by_id = {each.definition.id: each for each in firings}
        started = [
            _started(by_id[row.id], row, claimant)
            for row in rows
            if row.made_id is not None
        ]
        return Fired(done=done, busy=busy, started=started)

    def _made_by(
        self, firing: Firing, ids: Iterator[UUID]
    ) -> Iterator[tuple[object, ...]]:
        """The rows of the instances that a firing makes."""
        of, skipped = firing.definition.id, firing.skipped
        if skipped is not None:
            id = next(ids)
            shard = self._dialect.shard_of(id)
            yield (
                *(id, of, shard, skipped.first, ZERO),
                *(skipped.last, skipped.count, skipped.reason),
            )
        for fire_time, execute_at in firing.instances():
            id = next(ids)
            shard = self._dialect.shard_of(id)
            later = execute_at - fire_time
            yield id, of, shard, fire_time, later, None, None, None


def _how_far(ahead: timedelta, own: Own | None, shards: int) -> dict[str, Any]:
    """How far ahead to look in each shard, where there are several."""
    if shards == 1:
        return {}
    mine, others = (range(shards), ahead) if own is None else (own.shards, own.others)
    each = {
        f"ahead{shard}": ahead if shard in mine else others for shard in range(shards)
    }
    return {**each, "own": [*mine], "others": others}


def _started(firing: Firing, row: Any, claimant: Claimant) -> TaskInstance:
    """The instance of a firing, as it was started."""
    [times] = firing.instances()
    definition = fired(firing.definition, firing.next_fire_time, row.now)
    return started_at_once(row.made_id, definition, times, claimant, row)
