UPDATE task_instances SET result = ? WHERE id = ?;
