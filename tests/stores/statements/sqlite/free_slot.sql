DELETE FROM task_slots WHERE name = ? AND instance_id = ?;
