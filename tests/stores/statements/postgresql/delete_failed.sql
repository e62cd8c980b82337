WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt,
         error IS NOT NULL OR outcome <> 'completed' AS failed
    FROM task_instances
   WHERE completed_at IS NOT NULL AND outcome = 'failed'
     AND completed_at >= now() - CAST(:back AS interval)
     AND completed_at <= now() - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT :limit FOR UPDATE SKIP LOCKED),
runs AS (
  DELETE FROM task_runs AS r USING old
   WHERE r.instance_id = old.id AND (old.attempt > 1 OR old.failed)
  RETURNING r.attempt)
DELETE FROM task_instances AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, now() AS now;
