SELECT slot, id FROM task_instances
 WHERE id IN (SELECT value FROM json_each(:ids))
 ORDER BY priority, due_at, execute_at, id;
