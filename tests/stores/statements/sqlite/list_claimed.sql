SELECT id, definition_key, fire_time, execute_at, due_at, attempt, runs, hangs,
          claimed_by, expires_at, started_at, outcome, error, cancel_requested,
          payload, key, backfilled, reopened_at, created_at, trace_context
  FROM task_instances
 WHERE claimed_by = :node AND completed_at IS NULL AND NOT frozen
   AND handed_on IS NOT attempt AND id > :after
 ORDER BY id LIMIT :limit;
