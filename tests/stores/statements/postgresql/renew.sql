UPDATE task_instances AS t
   SET expires_at = now() + x.lease * interval '1 microsecond'
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[])) AS x (id, attempt, lease)
 WHERE t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
RETURNING t.id, t.cancel_requested;
