"""Statements on definitions: they are read when due, fired and moved on."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from go_scheduler.stores.sql import tables
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, ContentsRow
from go_scheduler.stores.sql.slots import exclusion
from go_scheduler.stores.sqlite.statements.parts import (
    DEFINITION,
    batch,
    of_definitions,
)
from go_scheduler.stores.sqlite.statements.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable

# A next_fire_time that is no whole number, as only other means than this
# package write it, is never due; one that is no time comes first, for its definition to
# be reported.


def _listed(columns: Iterable[str]) -> str:
    return fill(", ".join(columns), width=80, subsequent_indent=" " * 7)


def _due(after: str = "") -> Statement:
    """A page of what is due, in time or late."""
    return of_definitions(f"""
SELECT * FROM (
  SELECT {DEFINITION}
    FROM task_definitions
   WHERE shard = 0 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer'{after}
   ORDER BY next_fire_time, id LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT {DEFINITION}
    FROM task_definitions
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer'{after}
   ORDER BY next_fire_time, id LIMIT :limit)
ORDER BY next_fire_time, id LIMIT :limit
""")


DUE = _due()
DUE_AFTER = _due("""
     AND (next_fire_time, id) > (:after_time, :after_id)""")
_OF_DEFINITION = _listed(f"d.{name}" for name in DEFINITION_COLUMNS)
_OF_CONTENTS = _listed(f"c.{name}" for name in ContentsRow._fields)
# Of what has started and never fires again, nobody is likely to need them once more.
DEFINITIONS = Statement(
    f"""
{batch("key", "started")}
SELECT {_OF_DEFINITION},
       {_OF_CONTENTS}
  FROM x JOIN task_definitions AS d ON d.key = x.key
         LEFT JOIN task_contents AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND x.started THEN d.key END
""",
    (
        *(tables.definitions.c[name] for name in DEFINITION_COLUMNS),
        *(tables.contents.c[name] for name in ContentsRow._fields),
    ),
)

KNOWN = """
SELECT x.value AS id
  FROM json_each(:ids) AS x
 WHERE EXISTS (SELECT 1 FROM task_definitions AS d
                WHERE d.id = x.value AND d.deleted_at IS NULL)
    OR EXISTS (SELECT 1 FROM task_definitions AS d
                WHERE d.id = x.value AND d.deleted_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM task_tombstones AS t WHERE t.id = x.value)
"""
INSERT_NEW = """
INSERT INTO task_definitions
       (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
        next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
        created_at)
VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"""
INSERT_CONTENTS = """
INSERT INTO task_contents (key, name, metadata, trigger_kind, trigger_state, policies)
VALUES (?, ?, ?, ?, ?, ?)"""

_FIRED = exclusion("task_definitions")
FIRE = f"""
{batch("id", "expected", "revision", "next_at")}
UPDATE task_definitions AS d
   SET next_fire_time = x.next_at,
       late = coalesce(x.next_at <= :late, 0),
       completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN :now END
  FROM x
 WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS x.expected AND d.revision = x.revision
   AND (NOT d.waits OR NOT EXISTS (
         SELECT 1 FROM task_instances AS o
          WHERE o.definition_key = d.key AND o.waits
            AND o.completed_at IS NULL AND o.outcome IS NULL))
RETURNING id, key, queue, priority, expire_after, waits,
          {_FIRED.slot} AS slot,
          {_FIRED.overlap} AS overlap
"""

MADE_COLUMNS = (
    "id",
    "definition_key",
    "queue",
    "priority",
    "expire_after",
    "waits",
    "slot",
    "overlap",
    "fire_time",
    "execute_at",
    "due_at",
    "claimable_at",
    "outcome",
    "completed_at",
    "created_at",
    "skipped_first",
    "skipped_last",
    "skipped_count",
    "skipped_reason",
)
MAKE = f"""
INSERT INTO task_instances ({", ".join(MADE_COLUMNS)})
VALUES ({", ".join("?" * len(MADE_COLUMNS))})
ON CONFLICT (definition_key, fire_time) DO NOTHING
"""

GO_ON = """
UPDATE task_definitions
   SET next_fire_time = :next_at,
       late = coalesce(:next_at <= :late, 0),
       completed_at = CASE WHEN :next_at IS NULL THEN :now END
 WHERE key = :key AND waits
   AND next_fire_time IS NULL AND completed_at IS NULL AND deleted_at IS NULL
"""
