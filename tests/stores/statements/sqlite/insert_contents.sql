INSERT INTO task_contents (key, name, metadata, trigger_kind, trigger_state, policies)
VALUES (?, ?, ?, ?, ?, ?);
