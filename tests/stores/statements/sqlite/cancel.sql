WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
       outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
       completed_at = CASE WHEN t.started_at IS NULL THEN :now END,
       parked = 0, claimable_at = NULL
  FROM x
 WHERE t.id = x.id AND t.completed_at IS NULL
RETURNING id, definition_key, slot, waits, outcome;
