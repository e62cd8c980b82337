"""Statements that delete rows when their time is over, and those on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.stores.sql.contacts import CONTACT_COLUMNS
from go_scheduler.stores.sql.tables import nodes

if TYPE_CHECKING:
    from sqlalchemy import TextClause

NOTE_CONTACT = """
INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (:node, :since, :now, :queues, :names, :host, :pid, :version, :lease, :stopping)
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping
"""
LIST_CONTACTS = text("""
SELECT node, contact_since, seen_at, queues, names, host, pid, version, lease, stopping
  FROM task_nodes WHERE seen_at >= :since
""").columns(*(nodes.c[name] for name in CONTACT_COLUMNS))
DELETE_STATS = text("""
DELETE FROM task_stats WHERE every = :every AND begins_at < :since
""")
DELETE_CONTACTS = text("DELETE FROM task_nodes WHERE seen_at < :since")


def _delete_instances(equal: str) -> TextClause:
    """Deletes instances that ended long ago, those that failed or all others."""
    return text(f"""
DELETE FROM task_instances
 WHERE id IN (SELECT id FROM task_instances
               WHERE completed_at IS NOT NULL AND outcome {equal} 'failed'
                 AND completed_at <= :until
               ORDER BY completed_at LIMIT :limit)
RETURNING id, attempt > 1 OR error IS NOT NULL OR outcome <> 'completed' AS failed
""")


def _delete_definitions(since: str) -> TextClause:
    """Deletes definitions without instances."""
    return text(f"""
DELETE FROM task_definitions
 WHERE key IN (SELECT d.key FROM task_definitions AS d
                WHERE d.{since} IS NOT NULL AND d.{since} <= :until
                  AND NOT EXISTS (SELECT 1 FROM task_instances AS i
                                   WHERE i.definition_key = d.key)
                ORDER BY d.{since} LIMIT :limit)
RETURNING key, id, revision, completed_at, named
""")


DELETE_ENDED = _delete_instances("<>")
DELETE_FAILED = _delete_instances("=")
DELETE_COMPLETED = _delete_definitions("completed_at")
DELETE_DELETED = _delete_definitions("deleted_at")
DELETE_CONTENTS = text("""
DELETE FROM task_contents WHERE key IN (SELECT value FROM json_each(:keys))
RETURNING key, trigger_kind, trigger_state
""")
REMEMBER = text("""
INSERT OR REPLACE INTO task_tombstones
       (id, trigger_kind, trigger_state, revision, completed_at)
VALUES (:id, :trigger_kind, :trigger_state, :revision, :completed_at)
""")
