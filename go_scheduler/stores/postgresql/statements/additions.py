"""Statements that add instances which are no fire times'."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.stores.hints import News
from go_scheduler.stores.postgresql.notices import hinted
from go_scheduler.stores.postgresql.statements.statement import LONGEST_LEASE, Statement
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = ", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)
_STARTED = ("claimed_by", "attempt", "runs", "started_at", "expires_at")


class _Start(NamedTuple):
    """What makes the statement start what it adds, each part where it belongs."""

    definition: str = ""
    columns: str = ""
    unless: str = ""
    values: str = ""
    join: str = ""
    answer: str = ""
    answers: tuple[str, ...] = ()


_IS_STARTED = "mine.starts AND x.at <= now()"
_START = _Start(
    definition="""
mine AS MATERIALIZED (
  SELECT NOT d.paused AND d.slot IS NULL AND d.queue = ANY(CAST(:queues AS text[]))
         AND (CAST(:names AS text[]) IS NULL
              OR EXISTS (SELECT 1 FROM task_contents@task_contents_pkey AS c
                          WHERE c.key = d.key
                            AND c.name = ANY(CAST(:names AS text[])))) AS starts
    FROM d),""",
    columns=f""",
          {", ".join(_STARTED)}""",
    unless=f" AND NOT ({_IS_STARTED})",
    values=f""",
         CASE WHEN {_IS_STARTED} THEN CAST(:node AS uuid) END,
         CASE WHEN {_IS_STARTED} THEN 1 ELSE 0 END,
         CASE WHEN {_IS_STARTED} THEN 1 ELSE 0 END,
         CASE WHEN {_IS_STARTED} THEN now() END,
         CASE WHEN {_IS_STARTED} THEN now()
             + {LONGEST_LEASE} END""",
    join=" CROSS JOIN mine",
    answer=f""",
       mine.starts,
       now()
           + {LONGEST_LEASE} AS expires_at""",
    answers=("starts", "expires_at"),
)


# Whoever edits, pauses or deletes the definition waits for the end of this, and then
# finds what was added; no fire and no other addition does. What is there already is a
# look-up, by OFFSET 0 as in _NOTHING_OPEN. Nothing is told of each, if all are made.
def _add(start: _Start, *, notifies: bool) -> Statement:
    sql = f"""
WITH d AS MATERIALIZED (
  SELECT * FROM task_definitions@task_definitions_id_key
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL FOR KEY SHARE),{
        start.definition
    }
x AS MATERIALIZED (
  SELECT id, shard, key, payload, trace_context,
         coalesce(at, now() + delay * interval '1 microsecond') AS at
    FROM unnest(
         CAST(:ids AS uuid[]), CAST(:shards AS bigint[]), CAST(:keys AS text[]),
         CAST(:payloads AS text[]), CAST(:times AS timestamptz[]),
         CAST(:delays AS bigint[]), CAST(:trace_contexts AS text[]))
         AS x (id, shard, key, payload, at, delay, trace_context)),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload,
          trace_context, created_at{start.columns})
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after, d.slot, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused{start.unless} THEN greatest(x.at, now()) END, x.payload,
         x.trace_context, now(){start.values}
    FROM d CROSS JOIN x{start.join}
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_key_key AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0)
  RETURNING id, claimable_at)
SELECT {_COLUMNS}, now() AS now,
       CASE WHEN (SELECT count(*) FROM made) < (SELECT count(*) FROM x)
       THEN ARRAY(SELECT id FROM made) END AS ids,
       {hinted(notifies, News.INSTANCES, made="made", at="claimable_at")}{start.answer}
  FROM d{start.join}
"""
    columns = (*DEFINITION_COLUMNS, "now", "ids", "hinted", *start.answers)
    return Statement(sql, columns)


def addition_statements(*, notifies: bool) -> Mapping[str, Statement]:
    """By name."""
    return {
        "add": _add(_Start(), notifies=notifies),
        "add_and_start": _add(_START, notifies=notifies),
    }
