UPDATE task_instances AS t
   SET expires_at = CASE WHEN x.handed_on OR t.handed_on = t.attempt
           THEN greatest(t.expires_at, now() + x.lease * interval '1 microsecond')
           ELSE now() + x.lease * interval '1 microsecond' END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on THEN coalesce(x.worker, t.worker)
                ELSE t.worker END
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[]), CAST(:handed_on AS boolean[]),
              CAST(:workers AS text[]))
         AS x (id, attempt, lease, handed_on, worker)
 WHERE t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
RETURNING t.id, t.cancel_requested;
