"""Statements that make instances by hand, or start what is made at once."""

from __future__ import annotations

from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, ContentsRow
from go_scheduler.stores.sql.tables import contents, definitions
from go_scheduler.stores.sqlite.statements.parts import batch
from go_scheduler.stores.sqlite.statements.statement import Statement

_COLUMNS = ", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)
_CONTENTS = ", ".join(f"c.{name}" for name in ContentsRow._fields)
LIVE = Statement(
    f"""
SELECT {_COLUMNS},
       {_CONTENTS}
  FROM task_definitions AS d LEFT JOIN task_contents AS c ON c.key = d.key
 WHERE d.id = :id AND d.deleted_at IS NULL
""",
    (
        *(definitions.c[name] for name in DEFINITION_COLUMNS),
        *(contents.c[name] for name in ContentsRow._fields),
    ),
)

# What is claimed is started. Its first word has to be INSERT: by that Python's sqlite3
# knows that a transaction of the user's begins.
ADD = f"""
INSERT INTO task_instances
       (id, definition_key, queue, priority, expire_after, slot, overlap, frozen, key,
        payload, created_at, execute_at, due_at, claimable_at, claimed_by, attempt,
        runs, started_at, expires_at, trace_context)
{
    batch(
        *("id", "key", "payload", "execute_at", "claimed_by", "expires_at"),
        "trace_context",
    )
}
SELECT x.id, d.key, d.queue, d.priority, d.expire_after, d.slot, d.overlap, d.paused,
       x.key, x.payload, :now, x.execute_at, x.execute_at,
       CASE WHEN NOT d.paused AND x.claimed_by IS NULL
       THEN max(x.execute_at, :now) END,
       x.claimed_by, x.claimed_by IS NOT NULL, x.claimed_by IS NOT NULL,
       CASE WHEN x.claimed_by IS NOT NULL THEN :now END, x.expires_at, x.trace_context
  FROM x CROSS JOIN task_definitions AS d
 WHERE d.key = :definition_key
ON CONFLICT DO NOTHING
RETURNING id
"""
ADD_STARTED = """
INSERT INTO task_instances
       (id, definition_key, queue, priority, expire_after, waits, fire_time, execute_at,
        due_at, created_at, claimed_by, attempt, runs, started_at, expires_at)
SELECT :id, key, queue, priority, expire_after, waits, :fire_time, :fire_time,
       :fire_time, :created_at, :node, 1, 1, :started_at, :expires_at
  FROM task_definitions
 WHERE key = :definition_key
"""
