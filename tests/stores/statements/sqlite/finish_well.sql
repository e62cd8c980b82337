WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt,
         json_extract(value, '$[2]') AS started_at
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET outcome = 'completed', ended_attempt = x.attempt, completed_at = :now,
       started_at = x.started_at, claimable_at = NULL
  FROM x
 WHERE t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
   AND NOT t.waits AND t.slot IS NULL
RETURNING id;
