WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET runs = t.runs + (t.started_at IS NULL AND t.slot IS NULL),
       started_at = CASE WHEN t.started_at IS NULL AND t.slot IS NULL
           THEN max(:now, t.due_at) ELSE t.started_at END,
       expires_at = CASE WHEN t.started_at IS NOT NULL OR t.slot IS NOT NULL
           THEN t.expires_at
           ELSE max(:now, t.due_at)
                + min(:lease, coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND 3155760000000000
                 THEN expire_after END, :expire_after)) END
  FROM x
 WHERE t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
RETURNING id, definition_key, fire_time, execute_at, due_at, attempt, runs, hangs,
          claimed_by, expires_at, started_at, outcome, error, cancel_requested,
          payload, key, backfilled, reopened_at, created_at, trace_context;
