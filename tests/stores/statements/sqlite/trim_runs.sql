DELETE FROM task_runs
 WHERE instance_id = ?
   AND attempt <= (SELECT attempt FROM task_runs WHERE instance_id = ?
                    ORDER BY attempt DESC LIMIT 1 OFFSET 20);
