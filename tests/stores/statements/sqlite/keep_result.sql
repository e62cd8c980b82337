UPDATE task_instances
   SET result = coalesce(?, result), client = coalesce(?, client)
 WHERE id = ?;
