DELETE FROM task_runs WHERE instance_id IN (SELECT value FROM json_each(:ids));
