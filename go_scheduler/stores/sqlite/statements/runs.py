"""Statements on instances that are named by their ids, most of them by their claims."""

from __future__ import annotations

from go_scheduler.stores.sqlite.statements.claims import EXPIRE_AFTER
from go_scheduler.stores.sqlite.statements.parts import INSTANCE, batch, of_instances

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
INSERT INTO task_slots (name, instance_id) VALUES (?, ?) ON CONFLICT (name) DO NOTHING
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
