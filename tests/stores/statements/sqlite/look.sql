SELECT EXISTS (
         SELECT 1 FROM task_instances
          WHERE queue IN (SELECT value FROM json_each(:queues))
            AND priority IN (0, 1, 2, 3) AND shard = 0
            AND claimable_at IS NOT NULL AND claimable_at <= :until)
    OR EXISTS (
         SELECT 1 FROM task_instances
          WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
            AND expires_at <= :lapsed);
