WITH t AS MATERIALIZED (
  SELECT id, definition_key, waits AND id = ANY(CAST(:ended AS uuid[])) AS goes_on
    FROM task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN}
   WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
   ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
d AS MATERIALIZED (
  SELECT key FROM task_definitions@{FORCE_INDEX=task_definitions_pkey,NO_FULL_SCAN}
   WHERE key IN (SELECT definition_key FROM t WHERE goes_on)
   ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
SELECT id FROM t WHERE NOT goes_on OR definition_key IN (SELECT key FROM d);
