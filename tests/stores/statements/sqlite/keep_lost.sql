INSERT OR IGNORE INTO task_runs
       (instance_id, attempt, node, worker, started_at, ended_at, outcome)
SELECT id, attempt, claimed_by, worker, started_at, :now, 'lost' FROM task_instances
 WHERE id IN (SELECT value FROM json_each(:ids)) AND started_at IS NOT NULL;
