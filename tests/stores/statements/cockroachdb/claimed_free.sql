SELECT id FROM task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN}
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;
