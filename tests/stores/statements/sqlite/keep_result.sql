UPDATE task_instances
   SET result = coalesce(?, result), progress = coalesce(?, progress)
 WHERE id = ?;
