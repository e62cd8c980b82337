WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS expected,
         json_extract(value, '$[2]') AS revision,
         json_extract(value, '$[3]') AS next_at
    FROM json_each(:batch))
UPDATE task_definitions AS d
   SET next_fire_time = x.next_at,
       late = coalesce(x.next_at <= :late, 0),
       completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN :now END
  FROM x
 WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS x.expected AND d.revision = x.revision
   AND (NOT d.waits OR NOT EXISTS (
         SELECT 1 FROM task_instances AS o
          WHERE o.definition_key = d.key AND o.waits
            AND o.completed_at IS NULL AND o.outcome IS NULL))
RETURNING id, key, queue, priority, expire_after, waits,
          CASE WHEN NOT task_definitions.waits OR task_definitions.slot LIKE 'lock %' THEN task_definitions.slot END AS slot,
          CASE WHEN NOT task_definitions.waits THEN task_definitions.overlap END AS overlap;
