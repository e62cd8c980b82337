DELETE FROM task_instances
 WHERE id IN (SELECT id FROM task_instances
               WHERE completed_at IS NOT NULL AND outcome = 'failed'
                 AND completed_at <= :until
               ORDER BY completed_at LIMIT :limit)
RETURNING id, attempt > 1 OR error IS NOT NULL OR outcome <> 'completed' AS failed;
