"""What the loops do on SQLite: the statements, each over a whole batch.

They run within a transaction that has the write lock, so that nothing changes between
two of them. All times and durations are whole microseconds; a batch is one parameter,
the JSON text of an array with an array for each row.

RETURNING names columns only: in it, older versions take IS NULL for false.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.checks import LONGEST
from go_scheduler.stores.sql.rows import (
    CONTACT_COLUMNS,
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
)
from go_scheduler.stores.sql.tables import definitions, instances, nodes
from go_scheduler.stores.sql.types import to_microseconds, to_sqlite_time

if TYPE_CHECKING:
    from sqlalchemy import TextClause
    from sqlalchemy.sql.expression import TextualSelect

_INSTANCE = ", ".join(INSTANCE_COLUMNS)
_DEFINITION = ", ".join(DEFINITION_COLUMNS)


def _of_instances(statement: str) -> TextualSelect:
    return text(statement).columns(*(instances.c[name] for name in INSTANCE_COLUMNS))


def _of_definitions(statement: str) -> TextualSelect:
    return text(statement).columns(
        *(definitions.c[name] for name in DEFINITION_COLUMNS)
    )


def _batch(*names: str) -> str:
    """The rows of a batch; materialized, for each row to be taken apart only once."""
    columns = ", ".join(
        f"json_extract(value, '$[{number}]') AS {name}"
        for number, name in enumerate(names)
    )
    return f"WITH x AS MATERIALIZED (SELECT {columns} FROM json_each(:batch))"


# Definitions. What was written by hand and is no whole number is never due; what is one
# and no time comes first, for its definition to be reported.

_DUE = f"""
SELECT * FROM (
  SELECT {_DEFINITION} FROM task_definitions
   WHERE shard = 0 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer' {{after}}
   ORDER BY next_fire_time, id LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT {_DEFINITION} FROM task_definitions
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer' {{after}}
   ORDER BY next_fire_time, id LIMIT :limit)
ORDER BY next_fire_time, id LIMIT :limit
"""
DUE = _of_definitions(_DUE.format(after=""))
DUE_AFTER = _of_definitions(
    _DUE.format(after="AND (next_fire_time, id) > (:after_time, :after_id)")
)
DEFINITIONS = _of_definitions(f"""
SELECT {_DEFINITION} FROM task_definitions
 WHERE key IN (SELECT value FROM json_each(:keys))
""")

FIRE = text(f"""
{_batch("id", "expected", "revision", "next_at")}
UPDATE task_definitions AS d
   SET next_fire_time = x.next_at,
       late = coalesce(x.next_at <= :late, 0),
       completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN :now END
  FROM x
 WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS x.expected AND d.revision = x.revision
   AND (NOT d.waits OR NOT EXISTS (
         SELECT 1 FROM task_instances AS o
          WHERE o.definition_key = d.key
            AND o.completed_at IS NULL AND o.outcome IS NULL))
RETURNING id, key, queue, expire_after, waits
""")

MADE_COLUMNS = (
    "id",
    "definition_key",
    "queue",
    "expire_after",
    "waits",
    "fire_time",
    "execute_at",
    "due_at",
    "claimable_at",
    "outcome",
    "completed_at",
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

# Claims. What was written by hand and is no time, number or id is never claimed: the
# claim could not be judged, or the instance not be named.

_MOST = 9_000_000_000_000_000_000
_LONGEST = to_microseconds(LONGEST)
_FIRST = to_sqlite_time(datetime.min.replace(tzinfo=UTC))
_EXPIRE_AFTER = f"""
coalesce(CASE WHEN typeof({{of}}expire_after) = 'integer'
              AND {{of}}expire_after BETWEEN 0 AND {_LONGEST}
         THEN {{of}}expire_after END, :expire_after)
"""
_CLAIM = f"""
UPDATE task_instances
   SET claimed_by = :node, attempt = attempt + 1, claimable_at = NULL,
       runs = runs + (due_at <= :lead),
       started_at = CASE WHEN due_at <= :lead THEN max(:now, due_at) END,
       expires_at = max(:now, due_at) + CASE WHEN due_at <= :lead
           THEN min(:lease, {_EXPIRE_AFTER.format(of="")}) ELSE :lease END
 WHERE id IN ({{due}})
RETURNING {_INSTANCE}
"""
_READABLE = f"""
typeof(due_at) = 'integer' AND due_at >= {_FIRST} AND due_at < :now + {_LONGEST}
AND typeof(attempt) = 'integer' AND attempt < {_MOST}
AND typeof(runs) = 'integer' AND runs < {_MOST}
AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
"""
_FREE = f"""
SELECT * FROM (
  SELECT id, claimable_at, due_at FROM task_instances
   WHERE queue = :queue{{number}} AND shard = 0 AND claimable_at IS NOT NULL
     AND claimable_at <= :until AND {_READABLE}
   ORDER BY claimable_at, due_at LIMIT :limit)
"""


@lru_cache(maxsize=64)
def claim_free(queues: int) -> TextualSelect:
    """Claims in so many queues what nobody has claimed, ``:queue0`` the first."""
    heads = " UNION ALL ".join(_FREE.format(number=each) for each in range(queues))
    due = f"SELECT id FROM ({heads}) ORDER BY claimable_at, due_at LIMIT :limit"
    return _of_instances(_CLAIM.format(due=due))


CLAIM_LAPSED = _of_instances(
    _CLAIM.format(
        due=f"""
  SELECT id FROM task_instances
   WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT held
     AND expires_at <= :lapsed AND queue IN (SELECT value FROM json_each(:queues))
     AND {_READABLE}
   ORDER BY expires_at LIMIT :limit
"""
    )
)

CLAIMED = _of_instances(f"""
SELECT {_INSTANCE} FROM task_instances
 WHERE claimed_by = :node AND completed_at IS NULL AND NOT held AND id > :after
 ORDER BY id LIMIT :limit
""")

# From here on instances are named by their claims.

_OWNED = """
t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
"""
START = _of_instances(f"""
{_batch("id", "attempt")}
UPDATE task_instances AS t
   SET runs = t.runs + (t.started_at IS NULL),
       started_at = coalesce(t.started_at, max(:now, t.due_at)),
       expires_at = CASE WHEN t.started_at IS NOT NULL THEN t.expires_at
           ELSE max(:now, t.due_at)
                + min(:lease, {_EXPIRE_AFTER.format(of="t.")}) END
  FROM x
 WHERE {_OWNED}
RETURNING {_INSTANCE}
""")
RENEW = text(f"""
{_batch("id", "attempt", "lease")}
UPDATE task_instances AS t SET expires_at = :now + x.lease
  FROM x
 WHERE {_OWNED}
RETURNING id, cancel_requested
""")
# The first success wins, of whichever attempt.
MAY_END = text(f"""
{_batch("id", "attempt", "outcome")}
SELECT t.id, t.definition_key, t.waits AND t.completed_at IS NULL AS waits,
       t.attempt = x.attempt AND t.completed_at IS NULL
       AND t.started_at IS NOT NULL AS runs_on
  FROM x CROSS JOIN task_instances AS t
    ON t.id = x.id
   AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
        OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
           AND (t.completed_at IS NULL OR t.outcome = 'failed'))
""")
END = """
UPDATE task_instances
   SET outcome = ?, ended_attempt = ?, completed_at = ?, started_at = ?,
       claimable_at = NULL, runs = runs - ?, hangs = hangs + ?,
       error = coalesce(?, error)
 WHERE id = ?
"""
RETRY = """
UPDATE task_instances
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL, due_at = ?,
       claimable_at = CASE WHEN NOT held THEN ? END, runs = runs - ?,
       hangs = CASE WHEN ? THEN hangs + 1 ELSE 0 END,
       error = coalesce(?, error)
 WHERE id = ?
"""
RELEASE = text(f"""
{_batch("id", "attempt", "free_at")}
UPDATE task_instances AS t
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL,
       runs = t.runs - (t.started_at IS NOT NULL),
       due_at = CASE WHEN x.free_at > :now THEN max(t.due_at, x.free_at)
                ELSE t.due_at END,
       claimable_at = CASE WHEN NOT t.held THEN max(t.due_at, x.free_at) END
  FROM x
 WHERE {_OWNED}
RETURNING id
""")
CANCEL = text(f"""
{_batch("id")}
UPDATE task_instances AS t
   SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
       outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
       completed_at = CASE WHEN t.started_at IS NULL THEN :now END,
       claimable_at = NULL
  FROM x
 WHERE t.id = x.id AND t.completed_at IS NULL
RETURNING id, definition_key, waits, outcome
""")

# Nodes.

NOTE_CONTACT = text("""
INSERT INTO task_nodes (node, contact_since, seen_at, queues)
VALUES (:node, :since, :now, :queues)
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues
""")
CONTACTS = text("""
SELECT node, contact_since, seen_at, queues FROM task_nodes WHERE seen_at >= :since
""").columns(*(nodes.c[name] for name in CONTACT_COLUMNS))
DELETE_CONTACTS = text("DELETE FROM task_nodes WHERE seen_at < :since")

# Cleanup.

_DELETE_OVER = """
DELETE FROM task_instances
 WHERE id IN (SELECT id FROM task_instances
               WHERE completed_at IS NOT NULL AND outcome {which} 'failed'
                 AND completed_at <= :until
               ORDER BY completed_at LIMIT :limit)
"""
DELETE_ENDED: TextClause = text(_DELETE_OVER.format(which="<>"))
DELETE_FAILED: TextClause = text(_DELETE_OVER.format(which="="))
_DELETE_DEFINITIONS = """
DELETE FROM task_definitions
 WHERE key IN (SELECT d.key FROM task_definitions AS d
                WHERE d.{which} IS NOT NULL AND d.{which} <= :until
                  AND NOT EXISTS (SELECT 1 FROM task_instances AS i
                                   WHERE i.definition_key = d.key)
                ORDER BY d.{which} LIMIT :limit)
RETURNING key, id, revision, completed_at, named
"""
DELETE_COMPLETED: TextClause = text(_DELETE_DEFINITIONS.format(which="completed_at"))
DELETE_DELETED: TextClause = text(_DELETE_DEFINITIONS.format(which="deleted_at"))
DELETE_CONTENTS = text("""
DELETE FROM task_contents WHERE key IN (SELECT value FROM json_each(:keys))
RETURNING key, trigger_kind, trigger_state
""")
REMEMBER = text("""
INSERT OR REPLACE INTO task_tombstones
       (id, trigger_kind, trigger_state, revision, completed_at)
VALUES (:id, :trigger_kind, :trigger_state, :revision, :completed_at)
""")
