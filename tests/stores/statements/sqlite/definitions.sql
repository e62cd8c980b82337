SELECT key, id, queue, priority, expire_after, next_fire_time, paused, note, paused_at,
         completed_at, revision, named, owner
  FROM task_definitions
 WHERE key IN (SELECT value FROM json_each(:keys));
