WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt,
         json_extract(value, '$[2]') AS free_at,
         json_extract(value, '$[3]') AS reason
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
       accepted_at = NULL, start_by = NULL, progress = NULL, given_back = x.reason,
       runs = t.runs - (t.started_at IS NOT NULL),
       due_at = CASE WHEN x.free_at > :now THEN max(t.due_at, x.free_at)
                ELSE t.due_at END,
       claimable_at = CASE WHEN NOT t.frozen THEN max(t.due_at, x.free_at) END
  FROM x
 WHERE t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
RETURNING id, slot, runs;
