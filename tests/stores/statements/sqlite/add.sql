INSERT INTO task_instances
       (id, definition_key, queue, priority, expire_after, slot, overlap, frozen, key,
        payload, created_at, execute_at, due_at, claimable_at, claimed_by, attempt,
        runs, started_at, expires_at, trace_context)
WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS key,
         json_extract(value, '$[2]') AS payload,
         json_extract(value, '$[3]') AS execute_at,
         json_extract(value, '$[4]') AS claimed_by,
         json_extract(value, '$[5]') AS expires_at,
         json_extract(value, '$[6]') AS trace_context
    FROM json_each(:batch))
SELECT x.id, d.key, d.queue, d.priority, d.expire_after, d.slot, d.overlap, d.paused,
       x.key, x.payload, :now, x.execute_at, x.execute_at,
       CASE WHEN NOT d.paused AND x.claimed_by IS NULL
       THEN max(x.execute_at, :now) END,
       x.claimed_by, x.claimed_by IS NOT NULL, x.claimed_by IS NOT NULL,
       CASE WHEN x.claimed_by IS NOT NULL THEN :now END, x.expires_at, x.trace_context
  FROM x CROSS JOIN task_definitions AS d
 WHERE d.key = :definition_key
ON CONFLICT DO NOTHING
RETURNING id;
