UPDATE task_instances AS t
   SET expires_at = CASE WHEN x.step = 2 AND CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END = 2 THEN t.expires_at
           WHEN x.step > 0 AND x.step >= CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END
           THEN now() + x.lease * interval '1 microsecond'
           WHEN x.handed_on OR t.handed_on = t.attempt
           THEN greatest(t.expires_at, now() + x.lease * interval '1 microsecond')
           ELSE now() + x.lease * interval '1 microsecond' END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on AND (x.step = 0 OR x.step >= CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END)
                THEN coalesce(x.worker, t.worker) ELSE t.worker END,
       started_at = CASE WHEN x.step = 3 AND t.started_at IS NOT NULL AND CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END < 3
                    THEN now() ELSE t.started_at END,
       accepted_at = CASE WHEN x.step >= 2 THEN coalesce(t.accepted_at, now())
                     ELSE t.accepted_at END,
       start_by = CASE WHEN x.step = 0 OR x.step < CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END OR x.step = 2 AND CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END = 2
                  THEN t.start_by
                  WHEN x.step < 3 THEN now() + x.lease * interval '1 microsecond' END,
       progress = coalesce(x.progress, t.progress)
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[]), CAST(:handed_on AS boolean[]),
              CAST(:workers AS text[]), CAST(:steps AS bigint[]),
              CAST(:progresses AS text[]))
         AS x (id, attempt, lease, handed_on, worker, step, progress)
 WHERE t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
   AND (x.step < 2 OR t.accepted_at IS NULL OR coalesce(x.worker = t.worker, true))
RETURNING t.id, t.cancel_requested;
