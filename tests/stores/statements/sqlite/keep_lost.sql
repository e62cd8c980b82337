INSERT OR IGNORE INTO task_runs
       (instance_id, attempt, node, worker, started_at, ended_at, outcome, lost_in)
SELECT id, attempt, claimed_by, worker, started_at, :now, 'lost',
       CASE WHEN start_by IS NULL
            THEN CASE WHEN accepted_at IS NOT NULL THEN 'started' END
            WHEN accepted_at IS NULL THEN 'published' ELSE 'accepted' END
  FROM task_instances
 WHERE id IN (SELECT value FROM json_each(:ids)) AND started_at IS NOT NULL;
