"""Statements on what is kept of runs that did not end their instance well."""

from __future__ import annotations

from go_scheduler.models import RUNS_KEPT

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
