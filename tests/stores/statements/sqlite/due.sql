SELECT * FROM (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at,
         completed_at, revision, named, owner
    FROM task_definitions
   WHERE shard = 0 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer'
   ORDER BY next_fire_time, id LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at,
         completed_at, revision, named, owner
    FROM task_definitions
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= :until AND typeof(next_fire_time) = 'integer'
   ORDER BY next_fire_time, id LIMIT :limit)
ORDER BY next_fire_time, id LIMIT :limit;
