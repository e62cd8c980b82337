UPDATE task_definitions
   SET next_fire_time = :next_at,
       late = coalesce(:next_at <= :late, 0),
       completed_at = CASE WHEN :next_at IS NULL THEN :now END
 WHERE key = :key AND waits
   AND next_fire_time IS NULL AND completed_at IS NULL AND deleted_at IS NULL;
