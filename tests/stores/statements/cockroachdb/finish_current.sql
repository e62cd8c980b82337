SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:outcomes AS text[])) AS x (id, attempt, outcome)
  JOIN task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN} AS t ON t.id = x.id
     AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
          OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
             AND (t.completed_at IS NULL OR t.outcome = 'failed'));
