WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt,
         json_extract(value, '$[2]') AS outcome
    FROM json_each(:batch))
SELECT t.id, t.definition_key, t.slot, t.claimed_by, t.worker,
       t.waits AND t.completed_at IS NULL AS waits,
       t.attempt = x.attempt AND t.completed_at IS NULL
       AND t.started_at IS NOT NULL AS runs_on
  FROM x CROSS JOIN task_instances AS t
    ON t.id = x.id
   AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
        OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
           AND (t.completed_at IS NULL OR t.outcome = 'failed'));
