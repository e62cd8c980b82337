WITH
in_time0 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions
   WHERE shard = 0 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
late AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit)
SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner, now() AS now
  FROM (SELECT * FROM in_time0
        UNION ALL SELECT * FROM late) AS due
 ORDER BY next_fire_time, id LIMIT :limit;
