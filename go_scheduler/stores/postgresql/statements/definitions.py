"""Statements on definitions: new ones are inserted, due ones are read and fired."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.stores.hints import News
from go_scheduler.stores.postgresql.notices import hinted
from go_scheduler.stores.postgresql.statements.statement import LONGEST_LEASE, Statement
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS
from go_scheduler.stores.sql.slots import exclusion

if TYPE_CHECKING:
    from collections.abc import Mapping


# Ids that are new in every respect, so that nothing has to be read first. Each of the
# conditions is a look-up, by OFFSET 0 as in _NOTHING_OPEN: for ON CONFLICT, CockroachDB
# would read the whole index where statistics say that it is short.
_INSERT_NEW = """
WITH x AS MATERIALIZED (
  SELECT * FROM unnest(
         CAST(:keys AS uuid[]), CAST(:ids AS uuid[]), CAST(:shards AS bigint[]),
         CAST(:queues AS text[]), CAST(:priorities AS bigint[]),
         CAST(:expiries AS bigint[]), CAST(:waits AS boolean[]),
         CAST(:fire_times AS timestamptz[]),
         CAST(:over AS boolean[]), CAST(:paused AS boolean[]), CAST(:notes AS text[]),
         CAST(:slots AS text[]), CAST(:overlaps AS text[]),
         CAST(:named AS boolean[]), CAST(:names AS text[]), CAST(:metadata AS text[]),
         CAST(:kinds AS text[]), CAST(:states AS text[]), CAST(:policies AS text[]))
         AS x (key, id, shard, queue, priority, expire_after, waits, next_fire_time,
               over, paused, note, slot, overlap, named, name, metadata, trigger_kind,
               trigger_state, policies)),
made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
          next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
          created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.priority, x.expire_after, x.waits, x.slot,
         x.overlap,
         x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= now() - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.paused THEN now() END,
         CASE WHEN x.over THEN now() END, 1, x.named,
         now()
    FROM x
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_id_key AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_former_idx AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones@task_tombstones_pkey AS t
                      WHERE t.id = x.id OFFSET 0)
  RETURNING key, id, next_fire_time),
kept AS (
  INSERT INTO task_contents
         (key, name, metadata, metadata_search, trigger_kind, trigger_state, policies)
  SELECT x.key, x.name, x.metadata, CAST(x.metadata AS jsonb), x.trigger_kind,
         x.trigger_state, x.policies
    FROM x JOIN made ON made.key = x.key
  RETURNING key)"""


# Nothing is told of each, if all are new.
def _inserted(*, notifies: bool) -> str:
    """What the statement answers, and whether other processes hear of it."""
    return f"""
SELECT now() AS now,
       CASE WHEN (SELECT count(*) FROM made) < (SELECT count(*) FROM x)
       THEN ARRAY(SELECT id FROM made) END AS ids,
       {hinted(notifies, News.DEFINITIONS, made="made", at="next_fire_time")}
"""


_STARTED = f""",
started AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, fire_time,
          execute_at, due_at, created_at, claimed_by, attempt, runs, started_at,
          expires_at)
  SELECT CAST(:instance_id AS uuid), d.key, CAST(:instance_shard AS bigint), d.queue,
         d.priority, d.expire_after, d.waits, f.at, f.at, f.at, now(),
         CAST(:node AS uuid), 1, 1, greatest(now(), f.at),
         greatest(now(), f.at)
             + {LONGEST_LEASE}
    FROM x AS d JOIN made ON made.key = d.key
         CROSS JOIN (SELECT CAST(:fire_time AS timestamptz) AS at) AS f
  RETURNING definition_key, started_at, expires_at)
SELECT now() AS now, started.started_at, started.expires_at
  FROM made JOIN started ON started.definition_key = made.key
"""

_COLUMNS = ", ".join(DEFINITION_COLUMNS)
_UNION = "\n        UNION ALL "
_AFTER = """
     AND (next_fire_time, id)
         > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid))"""


def _due(shards: int, after: str = "") -> str:
    """A page of what is due, in time or late, of every shard."""
    in_time = [
        f"""
in_time{shard} AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_due_idx
   WHERE shard = {shard} AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval){after}
   ORDER BY next_fire_time, id LIMIT :limit),"""
        for shard in range(shards)
    ]
    every = [f"SELECT * FROM in_time{shard}" for shard in range(shards)]
    return f"""
WITH{"".join(in_time)}
late AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_late_idx
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= now() + CAST(:ahead AS interval){after}
   ORDER BY next_fire_time, id LIMIT :limit)
SELECT {_COLUMNS}, now() AS now
  FROM ({_UNION.join([*every, "SELECT * FROM late"])}) AS due
 ORDER BY next_fire_time, id LIMIT :limit
"""


# For a batch in which some wait for the end of a run. In any other a server would be
# free to look at more instances than it has to, and to wait for those that are locked.
# By OFFSET 0 it is a look-up: PostgreSQL could read all that is open to join it.
_NOTHING_OPEN = """
     AND NOT EXISTS (
           SELECT 1 FROM task_instances@task_instances_open_idx AS o
            WHERE o.definition_key = d.key AND d.waits AND o.waits
              AND o.completed_at IS NULL AND o.outcome IS NULL OFFSET 0)"""


_FIRED = exclusion("d")
_AT = "f.fire_time + f.later"


class _Start(NamedTuple):
    """What makes a fire start what it makes, each part where it belongs."""

    columns: str = ""
    claimable: str = f"CASE WHEN f.reason IS NULL THEN greatest({_AT}, now()) END"
    values: str = ""
    answer: str = "SELECT id FROM moved"
    answers: tuple[str, ...] = ("id",)


_NO_START = _Start()
_START = _Start(
    columns=""",
          claimed_by, attempt, runs, started_at, expires_at""",
    claimable="NULL",
    values=f""",
         CAST(:node AS uuid), 1, 1, greatest(now(), {_AT}),
         greatest(now(), {_AT})
             + {LONGEST_LEASE}""",
    answer="""SELECT moved.id, made.id AS made_id, made.started_at, made.expires_at,
       now() AS now
  FROM moved LEFT JOIN made ON made.definition_key = moved.key""",
    answers=("id", "made_id", "started_at", "expires_at", "now"),
)


# The number of ids is hidden from PostgreSQL by a subquery: for many it would read the
# whole index, if no statistics say how large that is.
def _moved(nothing_open: str) -> str:
    """Moves definitions on that are as they were read."""
    return f"""
WITH moved AS (
  UPDATE task_definitions@task_definitions_id_key AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN now()
                        END
    FROM unnest((SELECT CAST(:ids AS uuid[])),
                (SELECT CAST(:expected AS timestamptz[])),
                (SELECT CAST(:revisions AS bigint[])),
                (SELECT CAST(:next_times AS timestamptz[])))
         AS x (id, expected, revision, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected
     AND d.revision = x.revision{nothing_open}
  RETURNING d.key, d.id, d.queue, d.priority, d.expire_after, d.waits, d.slot,
            d.overlap),"""


def _fire(nothing_open: str = "", start: _Start = _NO_START) -> Statement:
    """Moves definitions on, and makes their instances."""
    sql = f"""{_moved(nothing_open)}
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, slot,
          overlap, fire_time, execute_at, due_at, claimable_at, outcome, completed_at,
          skipped_first, skipped_last, skipped_count, skipped_reason, created_at{
        start.columns
    })
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits,
         {_FIRED.slot},
         {_FIRED.overlap},
         CASE WHEN f.reason IS NULL THEN f.fire_time END, {_AT},
         {_AT},
         {start.claimable},
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN now() END,
         CASE WHEN f.reason IS NOT NULL THEN f.fire_time END, f.last, f.count, f.reason,
         now(){start.values}
    FROM unnest(CAST(:instance_ids AS uuid[]), CAST(:definition_ids AS uuid[]),
                CAST(:shards AS bigint[]), CAST(:fire_times AS timestamptz[]),
                CAST(:later AS interval[]), CAST(:lasts AS timestamptz[]),
                CAST(:counts AS bigint[]), CAST(:reasons AS text[]))
         AS f (id, definition_id, shard, fire_time, later, last, count, reason)
    JOIN moved AS d ON d.id = f.definition_id
  ON CONFLICT (definition_key, fire_time) DO NOTHING
  RETURNING id, definition_key, started_at, expires_at)
{start.answer}
"""
    return Statement(sql, start.answers)


# On CockroachDB it is the row that is locked, and not an index's copy of it: the
# revision makes it read the row.
_FIRE_FREE = """
SELECT id, revision FROM task_definitions@task_definitions_id_key
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[])))) AND deleted_at IS NULL
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
_FIRE_CURRENT = """
SELECT d.id
  FROM unnest((SELECT CAST(:ids AS uuid[])),
              (SELECT CAST(:expected AS timestamptz[])),
              (SELECT CAST(:revisions AS bigint[]))) AS x (id, expected, revision)
  JOIN task_definitions@task_definitions_id_key AS d
    ON d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
"""


def definition_statements(shards: int, *, notifies: bool) -> Mapping[str, Statement]:
    """By name; ``_free`` and ``_current`` are for the rows of a batch past locks."""
    columns = (*DEFINITION_COLUMNS, "now")
    return {
        "insert_new": Statement(
            _INSERT_NEW + _inserted(notifies=notifies), ("now", "ids", "hinted")
        ),
        "insert_and_start": Statement(
            _INSERT_NEW + _STARTED, ("now", "started_at", "expires_at")
        ),
        "due": Statement(_due(shards), columns),
        "due_after": Statement(_due(shards, _AFTER), columns),
        "fire": _fire(),
        "fire_waiting": _fire(_NOTHING_OPEN),
        "fire_and_start": _fire(start=_START),
        "fire_free": Statement(_FIRE_FREE, ("id", "revision")),
        "fire_current": Statement(_FIRE_CURRENT, ("id",)),
    }
