INSERT INTO task_instances
       (id, definition_key, queue, priority, expire_after, waits, fire_time, execute_at,
        due_at, created_at, claimed_by, attempt, runs, started_at, expires_at)
SELECT :id, key, queue, priority, expire_after, waits, :fire_time, :fire_time,
       :fire_time, :created_at, :node, 1, 1, :started_at, :expires_at
  FROM task_definitions
 WHERE key = :definition_key;
