"""Statements that delete rows when their time is over, and those on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.statements.statement import Statement
from go_scheduler.stores.sql.contacts import CONTACT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTE_CONTACT = """
INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (CAST(:node AS uuid), now() - CAST(:unbroken AS interval), now(),
        CAST(:queues AS text), CAST(:names AS text), CAST(:host AS text),
        CAST(:pid AS bigint), CAST(:version AS text), CAST(:lease AS bigint),
        CAST(:stopping AS boolean))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping
RETURNING node
"""
_LIST_CONTACTS = """
SELECT node, contact_since, seen_at, queues, names, host, pid, version, lease, stopping
  FROM task_nodes
 WHERE seen_at >= now() - CAST(:within AS interval)
"""
# What was counted goes with it: by itself it would be one way more to the server.
_DELETE_CONTACTS = """
WITH old AS MATERIALIZED (
  SELECT every, begins_at, queue, node FROM task_stats@task_stats_pkey
   WHERE (every = 60000000 AND begins_at < now() - CAST(:minutes_kept AS interval))
      OR (every = 3600000000 AND begins_at < now() - CAST(:hours_kept AS interval))
   ORDER BY every, begins_at, queue, node LIMIT 5000 FOR UPDATE SKIP LOCKED),
counted AS (
  DELETE FROM task_stats@task_stats_pkey AS s USING old
   WHERE s.every = old.every AND s.begins_at = old.begins_at AND s.queue = old.queue
     AND s.node = old.node
  RETURNING s.every)
DELETE FROM task_nodes WHERE seen_at < now() - CAST(:kept AS interval) RETURNING node
"""


# No index has ``attempt``: rows are read before they are chosen, and those that are
# locked are skipped then.
def _delete_instances(index: str, equal: str) -> Statement:
    """Deletes instances that ended long ago, those that failed or all others."""
    sql = f"""
WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt,
         error IS NOT NULL OR outcome <> 'completed' AS failed
    FROM task_instances@{index}
   WHERE completed_at IS NOT NULL AND outcome {equal} 'failed'
     AND completed_at >= now() - CAST(:back AS interval)
     AND completed_at <= now() - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT :limit FOR UPDATE SKIP LOCKED),
runs AS (
  DELETE FROM task_runs@task_runs_pkey AS r USING old
   WHERE r.instance_id = old.id AND (old.attempt > 1 OR old.failed)
  RETURNING r.attempt)
DELETE FROM task_instances@task_instances_pkey AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, now() AS now
"""
    return Statement(sql, ("completed_at", "now"))


def _delete_definitions(index: str, since: str) -> Statement:
    """Deletes definitions without instances, and remembers ids of those that ended."""
    sql = f"""
WITH old AS MATERIALIZED (
  SELECT d.key, d.revision FROM task_definitions@{index} AS d
   WHERE d.{since} IS NOT NULL AND d.{since} <= now() - CAST(:older_than AS interval)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_fire_key AS i
                      WHERE i.definition_key = d.key)
   ORDER BY d.{since} LIMIT :limit FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM task_definitions@task_definitions_pkey AS d USING old
   WHERE d.key = old.key AND d.{since} <= now() - CAST(:older_than AS interval)
  RETURNING d.key, d.id, d.revision, d.completed_at, d.named),
emptied AS (
  DELETE FROM task_contents@task_contents_pkey AS c USING gone WHERE c.key = gone.key
  RETURNING c.key, c.trigger_kind, c.trigger_state),
remembered AS (
  INSERT INTO task_tombstones (id, trigger_kind, trigger_state, revision, completed_at)
  SELECT gone.id, emptied.trigger_kind, emptied.trigger_state, gone.revision,
         gone.completed_at
    FROM gone JOIN emptied ON emptied.key = gone.key
   WHERE gone.named AND gone.completed_at IS NOT NULL
  ON CONFLICT (id) DO UPDATE
     SET trigger_kind = excluded.trigger_kind, trigger_state = excluded.trigger_state,
         revision = excluded.revision, completed_at = excluded.completed_at
  RETURNING id)
SELECT key FROM gone
"""
    return Statement(sql, ("key",))


CLEANUP_STATEMENTS: Mapping[str, Statement] = {
    "note_contact": Statement(_NOTE_CONTACT, ("node",)),
    "list_contacts": Statement(_LIST_CONTACTS, CONTACT_COLUMNS),
    "delete_contacts": Statement(_DELETE_CONTACTS, ("node",)),
    "delete_ended": _delete_instances("task_instances_ended_idx", "<>"),
    "delete_failed": _delete_instances("task_instances_failed_idx", "="),
    "delete_completed": _delete_definitions(
        "task_definitions_completed_idx", "completed_at"
    ),
    "delete_deleted": _delete_definitions("task_definitions_deleted_idx", "deleted_at"),
}
"""By name."""
