UPDATE task_instances
   SET outcome = ?, ended_attempt = ?, completed_at = ?, started_at = ?,
       claimable_at = NULL, runs = runs - ?, hangs = hangs + ?,
       error = coalesce(?, error), skipped_reason = ?
 WHERE id = ?;
