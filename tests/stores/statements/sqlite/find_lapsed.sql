SELECT id, started_at, accepted_at, start_by, worker FROM task_instances
 WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
   AND expires_at <= :lapsed
   AND queue IN (SELECT value FROM json_each(:queues))
     AND typeof(due_at) = 'integer'
     AND due_at >= -62135596800000000 AND due_at < :now + 3155760000000000
     AND typeof(attempt) = 'integer' AND attempt < 9000000000000000000
     AND typeof(runs) = 'integer' AND runs < 9000000000000000000
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
 ORDER BY expires_at LIMIT :limit;
