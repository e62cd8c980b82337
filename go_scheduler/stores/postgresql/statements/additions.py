"""Statements that add instances which are no fire times'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.statements.statement import Statement
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = ", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)

# Whoever edits, pauses or deletes the definition waits for the end of this, and then
# finds what was added; no fire and no other addition does. What is there already is a
# look-up, by OFFSET 0 as in _NOTHING_OPEN.
_ADD = f"""
WITH d AS MATERIALIZED (
  SELECT * FROM task_definitions@task_definitions_id_key
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL FOR KEY SHARE),
x AS MATERIALIZED (
  SELECT id, shard, key, payload,
         coalesce(at, now() + delay * interval '1 microsecond') AS at
    FROM unnest(
         CAST(:ids AS uuid[]), CAST(:shards AS bigint[]), CAST(:keys AS text[]),
         CAST(:payloads AS text[]), CAST(:times AS timestamptz[]),
         CAST(:delays AS bigint[]))
         AS x (id, shard, key, payload, at, delay)),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload)
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after, d.slot, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused THEN greatest(x.at, now()) END, x.payload
    FROM d CROSS JOIN x
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_key_key AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0)
  RETURNING id, execute_at)
SELECT {_COLUMNS},
       made.id AS made_id, made.execute_at
  FROM d LEFT JOIN made ON true
"""

ADDITION_STATEMENTS: Mapping[str, Statement] = {
    "add": Statement(_ADD, (*DEFINITION_COLUMNS, "made_id", "execute_at")),
}
"""By name."""
