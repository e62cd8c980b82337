WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt FROM task_instances@{FORCE_INDEX=task_instances_ended_idx,NO_FULL_SCAN}
   WHERE completed_at IS NOT NULL AND outcome <> 'failed'
     AND completed_at >= now() - CAST(:back AS interval)
     AND completed_at <= now() - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN} AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, now() AS now;
