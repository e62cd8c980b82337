WITH
in_time0 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 0 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time1 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 1 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time2 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 2 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time3 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 3 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time4 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 4 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time5 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 5 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time6 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 6 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
in_time7 AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_due_idx,NO_FULL_SCAN}
   WHERE shard = 7 AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit),
late AS MATERIALIZED (
  SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner
    FROM task_definitions@{FORCE_INDEX=task_definitions_late_idx,NO_FULL_SCAN}
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= now() + CAST(:ahead AS interval)
   ORDER BY next_fire_time, id LIMIT :limit)
SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at, completed_at, revision, named, owner, now() AS now
  FROM (SELECT * FROM in_time0
        UNION ALL SELECT * FROM in_time1
        UNION ALL SELECT * FROM in_time2
        UNION ALL SELECT * FROM in_time3
        UNION ALL SELECT * FROM in_time4
        UNION ALL SELECT * FROM in_time5
        UNION ALL SELECT * FROM in_time6
        UNION ALL SELECT * FROM in_time7
        UNION ALL SELECT * FROM late) AS due
 ORDER BY next_fire_time, id LIMIT :limit;
