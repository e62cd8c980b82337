WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS id,
         json_extract(value, '$[1]') AS attempt,
         json_extract(value, '$[2]') AS lease,
         json_extract(value, '$[3]') AS handed_on,
         json_extract(value, '$[4]') AS worker,
         json_extract(value, '$[5]') AS step,
         json_extract(value, '$[6]') AS progress
    FROM json_each(:batch))
UPDATE task_instances AS t
   SET expires_at = CASE WHEN x.step = 2 AND CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END = 2 THEN t.expires_at
           WHEN x.step > 0 AND x.step >= CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END THEN :now + x.lease
           WHEN x.handed_on OR t.handed_on = t.attempt
           THEN max(t.expires_at, :now + x.lease) ELSE :now + x.lease END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on AND (x.step = 0 OR x.step >= CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END)
           THEN coalesce(x.worker, t.worker) ELSE t.worker END,
       started_at = CASE WHEN x.step = 3 AND t.started_at IS NOT NULL AND CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END < 3
           THEN :now ELSE t.started_at END,
       accepted_at = CASE WHEN x.step >= 2 THEN coalesce(t.accepted_at, :now)
           ELSE t.accepted_at END,
       start_by = CASE WHEN x.step = 0 OR x.step < CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END OR x.step = 2 AND CASE WHEN t.start_by IS NULL THEN 3 * (t.accepted_at IS NOT NULL)
           ELSE 1 + (t.accepted_at IS NOT NULL) END = 2
           THEN t.start_by
           WHEN x.step < 3 THEN :now + x.lease END,
       progress = coalesce(x.progress, t.progress)
  FROM x
 WHERE t.id = x.id AND t.attempt = x.attempt
   AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
   AND (x.step < 2 OR t.accepted_at IS NULL OR coalesce(x.worker = t.worker, 1))
RETURNING id, cancel_requested;
