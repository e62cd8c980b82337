WITH released AS (
  UPDATE task_instances AS t
     SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
         accepted_at = NULL, start_by = NULL, progress = NULL, given_back = x.reason,
         runs = t.runs - CASE WHEN t.started_at IS NOT NULL THEN 1 ELSE 0 END,
         due_at = CASE WHEN x.delay > 0
                  THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond')
                  ELSE t.due_at END,
         claimable_at = CASE WHEN NOT t.frozen
             THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond') END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:delays AS bigint[]), CAST(:reasons AS text[]))
         AS x (id, attempt, delay, reason)
   WHERE t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
  RETURNING t.id, t.slot, t.runs = 0 AS lets_go),
freed AS (
  DELETE FROM task_slots AS s USING released AS e
   WHERE e.lets_go AND s.name = e.slot AND s.instance_id = e.id
  RETURNING s.name)
SELECT id FROM released;
