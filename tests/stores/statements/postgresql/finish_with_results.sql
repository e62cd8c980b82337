WITH ended AS (
  UPDATE task_instances AS t
     SET outcome = x.outcome,
         ended_attempt = CASE WHEN x.outcome IS NOT NULL THEN x.attempt END,
         waits = t.waits AND t.completed_at IS NULL,
         hangs = CASE WHEN x.hung THEN t.hangs + 1
                      WHEN x.outcome IS NOT NULL THEN t.hangs ELSE 0 END,
         completed_at = CASE WHEN x.outcome IS NOT NULL THEN now() END,
         started_at = CASE WHEN x.outcome IS NOT NULL THEN x.started_at END,
         runs = t.runs - CASE WHEN x.started_at IS NULL AND t.started_at IS NOT NULL
                              AND t.attempt = x.attempt AND t.completed_at IS NULL
                         THEN 1 ELSE 0 END,
         error = CASE WHEN x.outcome = 'skipped' THEN t.error
                      ELSE coalesce(x.error, t.error) END,
         skipped_reason = CASE WHEN x.outcome = 'skipped' THEN x.error END,
         claimed_by = CASE WHEN x.outcome IS NOT NULL THEN t.claimed_by END,
         expires_at = CASE WHEN x.outcome IS NOT NULL THEN t.expires_at END,
         due_at = CASE WHEN x.outcome IS NOT NULL THEN t.due_at
                  ELSE now() + x.retry_in * interval '1 microsecond' END,
         claimable_at = CASE WHEN x.outcome IS NULL AND NOT t.frozen
                        THEN now() + x.retry_in * interval '1 microsecond' END,
         result = coalesce(x.result, t.result),
         client = coalesce(x.client, t.client)
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:outcomes AS text[]), CAST(:started AS timestamptz[]),
                CAST(:retries AS bigint[]), CAST(:hung AS boolean[]),
                CAST(:errors AS text[]), CAST(:next_times AS timestamptz[]),
                CAST(:results AS text[]), CAST(:clients AS text[]))
         AS x (id, attempt, outcome, started_at, retry_in, hung, error, next_at, result, client)
   WHERE t.id = x.id
     AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
          OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
             AND (t.completed_at IS NULL OR t.outcome = 'failed'))
  RETURNING t.id, t.definition_key, (t.waits AND x.outcome IS NOT NULL) AS goes_on,
            x.next_at),
gone_on AS (
  UPDATE task_definitions AS d
     SET next_fire_time = coalesce(d.next_fire_time, e.next_at),
         late = coalesce(coalesce(d.next_fire_time, e.next_at)
                         <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN d.next_fire_time IS NULL AND e.next_at IS NULL
                        THEN now() END
    FROM ended AS e
   WHERE e.goes_on AND d.key = e.definition_key AND d.waits
     AND d.completed_at IS NULL AND d.deleted_at IS NULL
  RETURNING d.key)
SELECT id FROM ended;
