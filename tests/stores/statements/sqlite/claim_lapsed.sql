UPDATE task_instances
   SET claimed_by = :node, attempt = attempt + 1, claimable_at = NULL,
       given_back = NULL,
       runs = runs + (due_at <= :lead AND slot IS NULL),
       started_at = CASE WHEN due_at <= :lead AND slot IS NULL THEN max(:now, due_at) END,
       expires_at = max(:now, due_at) + CASE WHEN due_at <= :lead AND slot IS NULL
           THEN min(:lease, coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND 3155760000000000
                 THEN expire_after END, :expire_after)) ELSE :lease END, worker = NULL, accepted_at = NULL, start_by = NULL,
       progress = NULL
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, definition_key, fire_time, execute_at, due_at, attempt, runs, hangs,
          claimed_by, expires_at, started_at, outcome, error, cancel_requested,
          payload, key, backfilled, reopened_at, created_at, trace_context;
