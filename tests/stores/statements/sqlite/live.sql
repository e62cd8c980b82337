SELECT d.key, d.id, d.queue, d.priority, d.expire_after, d.next_fire_time, d.paused, d.note, d.paused_at, d.completed_at, d.revision, d.named, d.owner,
       c.name, c.metadata, c.trigger_kind, c.trigger_state, c.policies
  FROM task_definitions AS d LEFT JOIN task_contents AS c ON c.key = d.key
 WHERE d.id = :id AND d.deleted_at IS NULL;
