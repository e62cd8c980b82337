"""The statements of SQLite: what the loops do, each over a whole batch.

They run within a transaction that has the write lock, so that nothing changes between
two of them. All times and durations are whole microseconds; a batch is one parameter,
the JSON text of an array with an array for each row.

RETURNING names columns only: in it, older versions take IS NULL for false.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from textwrap import fill
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from go_scheduler.checks import LONGEST, PRIORITIES
from go_scheduler.models import RUNS_KEPT
from go_scheduler.stores.sql import tables
from go_scheduler.stores.sql.locks import exclusion
from go_scheduler.stores.sql.rows import (
    CLAIMED_COLUMNS,
    CONTACT_COLUMNS,
    DEFINITION_COLUMNS,
    Columns,
    ContentsRow,
    to_microseconds,
    to_sqlite_time,
)
from go_scheduler.stores.sql.tables import contents, definitions, instances, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sqlalchemy import ColumnElement, Connection, Row, TextClause

_DIALECT = sqlite.dialect()


class Statement:
    """A statement that the driver executes as it is written.

    Args:
        sql: With named parameters.
        columns: The tables' columns that come back, in their order.
    """

    def __init__(self, sql: str, columns: Iterable[ColumnElement[Any]]) -> None:
        self._sql = sql
        self._columns = Columns(columns, _DIALECT)

    def execute(
        self, connection: Connection, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """The rows that it returns, as they are stored."""
        return connection.exec_driver_sql(self._sql, dict(parameters)).all()

    def read(self, rows: Sequence[Row[Any]]) -> Sequence[Any]:
        """Named tuples of the values of rows, each as its column's are read."""
        return self._columns.read(rows)

    def fetch(
        self, connection: Connection, parameters: Mapping[str, object]
    ) -> Sequence[Any]:
        """Named tuples of the values of the rows that it returns."""
        return self.read(self.execute(connection, parameters))


INSTANCE = fill(", ".join(CLAIMED_COLUMNS), width=80, subsequent_indent=" " * 10)
DEFINITION = fill(", ".join(DEFINITION_COLUMNS), width=80, subsequent_indent=" " * 9)


def of_instances(sql: str) -> Statement:
    """A statement that returns instances which are claimed, or were just now."""
    return Statement(sql, (instances.c[name] for name in CLAIMED_COLUMNS))


def of_lapsed(sql: str) -> Statement:
    """A statement that returns what is known of runs that are to be taken over."""
    column = instances.c
    columns = {
        "began": column.started_at,
        "taken_at": column.accepted_at,
        "due_by": column.start_by,
        "ran_by": column.worker,
    }
    named = (each.label(name) for name, each in columns.items())
    return Statement(sql, (column.id, *named))


def of_definitions(sql: str) -> Statement:
    """A statement that returns definitions."""
    return Statement(sql, (definitions.c[name] for name in DEFINITION_COLUMNS))


def batch(*names: str) -> str:
    """The rows of a batch; materialized, for each row to be taken apart only once."""
    columns = [
        f"json_extract(value, '$[{number}]') AS {name}"
        for number, name in enumerate(names)
    ]
    joined = ",\n         ".join(columns)
    return f"WITH x AS MATERIALIZED (\n  SELECT {joined}\n    FROM json_each(:batch))"


_HIGHEST = 9_000_000_000_000_000_000
_LONGEST = to_microseconds(LONGEST)
_FIRST = to_sqlite_time(datetime.min.replace(tzinfo=UTC))
# A row that was written by other means than this package may be out of all bounds. No
# claim takes it: that could not be judged, or the instance not be named.
_SOUND = f"""
     AND typeof(due_at) = 'integer'
     AND due_at >= {_FIRST} AND due_at < :now + {_LONGEST}
     AND typeof(attempt) = 'integer' AND attempt < {_HIGHEST}
     AND typeof(runs) = 'integer' AND runs < {_HIGHEST}
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'"""
EXPIRE_AFTER = f"""coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND {_LONGEST}
                 THEN expire_after END, :expire_after)"""
# What has to have a slot is left to the start.
_STARTS = "due_at <= :lead AND slot IS NULL"
_MARKED = f"""
   SET claimed_by = :node, attempt = attempt + 1, claimable_at = NULL,
       given_back = NULL,
       runs = runs + ({_STARTS}),
       started_at = CASE WHEN {_STARTS} THEN max(:now, due_at) END,
       expires_at = max(:now, due_at) + CASE WHEN {_STARTS}
           THEN min(:lease, {EXPIRE_AFTER}) ELSE :lease END"""


@lru_cache(maxsize=64)
def claim(queues: int, classes: tuple[int, ...]) -> Statement:
    """Claims in so many queues what nobody has claimed, ``:queue0`` the first.

    Args:
        queues: So many.
        classes: Those of priority to be asked, in this order.
    """
    heads = [
        f"""
    SELECT * FROM (
      SELECT id, {turn} AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue{number} AND priority = {priority}
     AND claimable_at IS NOT NULL AND claimable_at <= :until{_SOUND}
       ORDER BY claimable_at, due_at LIMIT :limit)"""
        for number in range(queues)
        for turn, priority in enumerate(classes)
    ]
    return of_instances(f"""
UPDATE task_instances{_MARKED}
 WHERE id IN (
   SELECT id FROM ({" UNION ALL".join(heads)})
    ORDER BY turn, claimable_at, due_at LIMIT :limit)
RETURNING {INSTANCE}
""")


# Whoever finds nothing by it keeps nobody from writing. None has lapsed by NULL.
LOOK = f"""
SELECT EXISTS (
         SELECT 1 FROM task_instances
          WHERE queue IN (SELECT value FROM json_each(:queues))
            AND priority IN ({", ".join(map(str, PRIORITIES))})
            AND claimable_at IS NOT NULL AND claimable_at <= :until)
    OR EXISTS (
         SELECT 1 FROM task_instances
          WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
            AND expires_at <= :lapsed)
"""
FIND_LAPSED = of_lapsed(f"""
SELECT id, started_at, accepted_at, start_by, worker FROM task_instances
 WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
   AND expires_at <= :lapsed
   AND queue IN (SELECT value FROM json_each(:queues)){_SOUND}
 ORDER BY expires_at LIMIT :limit
""")
CLAIM_NAMED = of_instances(f"""
UPDATE task_instances{_MARKED}, worker = NULL, accepted_at = NULL, start_by = NULL,
       progress = NULL
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING {INSTANCE}
""")

LIST_CLAIMED = of_instances(f"""
SELECT {INSTANCE}
  FROM task_instances
 WHERE claimed_by = :node AND completed_at IS NULL AND NOT frozen
   AND handed_on IS NOT attempt AND id > :after
 ORDER BY id LIMIT :limit
""")


_OWNED = """t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL"""
START = of_instances(f"""
{batch("id", "attempt")}
UPDATE task_instances AS t
   SET runs = t.runs + (t.started_at IS NULL AND t.slot IS NULL),
       started_at = CASE WHEN t.started_at IS NULL AND t.slot IS NULL
           THEN max(:now, t.due_at) ELSE t.started_at END,
       expires_at = CASE WHEN t.started_at IS NOT NULL OR t.slot IS NOT NULL
           THEN t.expires_at
           ELSE max(:now, t.due_at)
                + min(:lease, {EXPIRE_AFTER}) END
  FROM x
 WHERE {_OWNED}
RETURNING {INSTANCE}
""")
# Of those that have not started: whose turn it is comes first.
WANTED_SLOTS = """
SELECT slot, id FROM task_instances
 WHERE id IN (SELECT value FROM json_each(:ids))
 ORDER BY priority, due_at, execute_at, id
"""
TAKE_SLOT = """
INSERT INTO task_slots (name, instance_id) VALUES (?, ?) ON CONFLICT DO NOTHING
"""
START_IN_SLOTS = of_instances(f"""
WITH x AS MATERIALIZED (
  SELECT i.id, s.instance_id = i.id AS starts, s.instance_id AS holder
    FROM json_each(:ids) CROSS JOIN task_instances AS i ON i.id = value
    JOIN task_slots AS s ON s.name = i.slot)
UPDATE task_instances AS t
   SET runs = t.runs + x.starts,
       started_at = CASE WHEN x.starts THEN max(:now, t.due_at) END,
       expires_at = CASE WHEN x.starts
           THEN max(:now, t.due_at) + min(:lease, {EXPIRE_AFTER}) END,
       claimed_by = CASE WHEN x.starts THEN t.claimed_by END,
       worker = CASE WHEN x.starts THEN t.worker END,
       accepted_at = CASE WHEN x.starts THEN t.accepted_at END,
       start_by = CASE WHEN x.starts THEN t.start_by END,
       progress = CASE WHEN x.starts THEN t.progress END,
       parked = NOT x.starts,
       behind = CASE WHEN NOT x.starts THEN x.holder END
  FROM x
 WHERE t.id = x.id
RETURNING {INSTANCE}
""")
FREE_SLOT = "DELETE FROM task_slots WHERE name = ? AND instance_id = ?"
# How far it has come, as a number. A stage never goes back.
_STEP = """CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END"""
# Only the first acceptance counts.
_ACCEPTED_BEFORE = f"x.step = 2 AND {_STEP} = 2"
RENEW = f"""
{batch("id", "attempt", "lease", "handed_on", "worker", "step", "progress")}
UPDATE task_instances AS t
   SET expires_at = CASE WHEN {_ACCEPTED_BEFORE} THEN t.expires_at
           WHEN x.step > 0 AND x.step >= {_STEP} THEN :now + x.lease
           WHEN x.handed_on OR t.handed_on = t.attempt
           THEN max(t.expires_at, :now + x.lease) ELSE :now + x.lease END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on AND (x.step = 0 OR x.step >= {_STEP})
           THEN coalesce(x.worker, t.worker) ELSE t.worker END,
       started_at = CASE WHEN x.step = 3 AND t.started_at IS NOT NULL AND {_STEP} < 3
           THEN :now ELSE t.started_at END,
       accepted_at = CASE WHEN x.step >= 2 THEN coalesce(t.accepted_at, :now)
           ELSE t.accepted_at END,
       start_by = CASE WHEN x.step = 0 OR x.step < {_STEP} OR {_ACCEPTED_BEFORE}
           THEN t.start_by
           WHEN x.step < 3 THEN :now + x.lease END,
       progress = coalesce(x.progress, t.progress)
  FROM x
 WHERE {_OWNED}
   AND (x.step < 2 OR t.accepted_at IS NULL OR coalesce(x.worker = t.worker, 1))
RETURNING id, cancel_requested
"""
# The first success wins, of whichever attempt.
FINISH_FOUND = f"""
{batch("id", "attempt", "outcome")}
SELECT t.id, t.definition_key, t.slot, t.claimed_by, t.worker,
       t.waits AND t.completed_at IS NULL AS waits,
       t.attempt = x.attempt AND t.completed_at IS NULL
       AND t.started_at IS NOT NULL AS runs_on
  FROM x CROSS JOIN task_instances AS t
    ON t.id = x.id
   AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
        OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
           AND (t.completed_at IS NULL OR t.outcome = 'failed'))
"""
# What nearly all runs come to.
FINISH_WELL = f"""
{batch("id", "attempt", "started_at")}
UPDATE task_instances AS t
   SET outcome = 'completed', ended_attempt = x.attempt, completed_at = :now,
       started_at = x.started_at, claimable_at = NULL
  FROM x
 WHERE {_OWNED}
   AND NOT t.waits AND t.slot IS NULL
RETURNING id
"""
FINISH_END = """
UPDATE task_instances
   SET outcome = ?, ended_attempt = ?, completed_at = ?, started_at = ?,
       claimable_at = NULL, runs = runs - ?, hangs = hangs + ?,
       error = coalesce(?, error), skipped_reason = ?
 WHERE id = ?
"""
KEEP_RESULT = """
UPDATE task_instances
   SET result = coalesce(?, result), client = coalesce(?, client)
 WHERE id = ?
"""
FINISH_RETRY = """
UPDATE task_instances
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
       accepted_at = NULL, start_by = NULL, progress = NULL,
       due_at = ?,
       claimable_at = CASE WHEN NOT frozen THEN ? END, runs = runs - ?,
       hangs = CASE WHEN ? THEN hangs + 1 ELSE 0 END,
       error = coalesce(?, error)
 WHERE id = ?
"""
RELEASE = f"""
{batch("id", "attempt", "free_at", "reason")}
UPDATE task_instances AS t
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
       accepted_at = NULL, start_by = NULL, progress = NULL, given_back = x.reason,
       runs = t.runs - (t.started_at IS NOT NULL),
       due_at = CASE WHEN x.free_at > :now THEN max(t.due_at, x.free_at)
                ELSE t.due_at END,
       claimable_at = CASE WHEN NOT t.frozen THEN max(t.due_at, x.free_at) END
  FROM x
 WHERE {_OWNED}
RETURNING id, slot, runs
"""
CANCEL = f"""
{batch("id")}
UPDATE task_instances AS t
   SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
       outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
       completed_at = CASE WHEN t.started_at IS NULL THEN :now END,
       parked = 0, claimable_at = NULL
  FROM x
 WHERE t.id = x.id AND t.completed_at IS NULL
RETURNING id, definition_key, slot, waits, outcome
"""


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
   WHERE next_fire_time IS NOT NULL AND NOT paused AND NOT late
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
       (key, id, queue, priority, expire_after, waits, slot, overlap,
        next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
        created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"""
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


KEEP_RUN = """
INSERT OR IGNORE INTO task_runs
       (instance_id, attempt, node, worker, started_at, ended_at, outcome, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
KEEP_LOST = """
INSERT OR IGNORE INTO task_runs
       (instance_id, attempt, node, worker, started_at, ended_at, outcome, lost_in)
SELECT id, attempt, claimed_by, worker, started_at, :now, 'lost',
       CASE WHEN start_by IS NULL
            THEN CASE WHEN accepted_at IS NOT NULL THEN 'started' END
            WHEN accepted_at IS NULL THEN 'published' ELSE 'accepted' END
  FROM task_instances
 WHERE id IN (SELECT value FROM json_each(:ids)) AND started_at IS NOT NULL
"""
TRIM_RUNS = f"""
DELETE FROM task_runs
 WHERE instance_id = ?
   AND attempt <= (SELECT attempt FROM task_runs WHERE instance_id = ?
                    ORDER BY attempt DESC LIMIT 1 OFFSET {RUNS_KEPT})
"""
DELETE_RUNS = """
DELETE FROM task_runs WHERE instance_id IN (SELECT value FROM json_each(:ids))
"""


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
DELETE FROM task_stats WHERE every = 60000000 AND begins_at < :since
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
