SELECT id FROM task_instances
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;
