DELETE FROM task_contents WHERE key IN (SELECT value FROM json_each(:keys))
RETURNING key, trigger_kind, trigger_state;
