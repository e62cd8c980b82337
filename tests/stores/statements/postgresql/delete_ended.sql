WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt FROM task_instances
   WHERE completed_at IS NOT NULL AND outcome <> 'failed'
     AND completed_at >= now() - CAST(:back AS interval)
     AND completed_at <= now() - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM task_instances AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, now() AS now;
