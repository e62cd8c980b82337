SELECT id, revision FROM task_definitions@{FORCE_INDEX=task_definitions_id_key,NO_FULL_SCAN}
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[])))) AND deleted_at IS NULL
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;
