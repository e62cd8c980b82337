INSERT INTO task_instances (id, definition_key, queue, priority, expire_after, waits, slot, overlap, fire_time, execute_at, due_at, claimable_at, outcome, completed_at, created_at, skipped_first, skipped_last, skipped_count, skipped_reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (definition_key, fire_time) DO NOTHING;
