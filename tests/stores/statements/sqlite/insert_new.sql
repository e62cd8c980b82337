INSERT INTO task_definitions
       (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
        next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
        created_at)
VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?);
