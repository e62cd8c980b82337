SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
  JOIN task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN} AS t ON t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL;
