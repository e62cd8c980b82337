UPDATE task_instances
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
       accepted_at = NULL, start_by = NULL, progress = NULL,
       due_at = ?,
       claimable_at = CASE WHEN NOT frozen THEN ? END, runs = runs - ?,
       hangs = CASE WHEN ? THEN hangs + 1 ELSE 0 END,
       error = coalesce(?, error)
 WHERE id = ?;
