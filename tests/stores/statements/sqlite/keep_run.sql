INSERT OR IGNORE INTO task_runs
       (instance_id, attempt, node, worker, started_at, ended_at, outcome, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);
