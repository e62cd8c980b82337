WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt,
         json_extract(value, '$[2]') AS lease,
         json_extract(value, '$[3]') AS handed_on,
         json_extract(value, '$[4]') AS worker
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET expires_at = CASE WHEN x.handed_on OR t.handed_on = t.attempt
           THEN max(t.expires_at, :now + x.lease) ELSE :now + x.lease END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on THEN coalesce(x.worker, t.worker)
           ELSE t.worker END
  FROM x
 WHERE t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
RETURNING id, cancel_requested;
