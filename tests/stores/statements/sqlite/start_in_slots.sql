WITH x AS MATERIALIZED (
  SELECT i.id, s.instance_id = i.id AS starts, s.instance_id AS holder
    FROM json_each(:ids) CROSS JOIN task_instances AS i ON i.id = value
    JOIN task_slots AS s ON s.name = i.slot)
UPDATE task_instances AS t
   SET runs = t.runs + x.starts,
       started_at = CASE WHEN x.starts THEN max(:now, t.due_at) END,
       expires_at = CASE WHEN x.starts
           THEN max(:now, t.due_at) + min(:lease, coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND 3155760000000000
                 THEN expire_after END, :expire_after)) END,
       claimed_by = CASE WHEN x.starts THEN t.claimed_by END,
       worker = CASE WHEN x.starts THEN t.worker END,
       accepted_at = CASE WHEN x.starts THEN t.accepted_at END,
       start_by = CASE WHEN x.starts THEN t.start_by END,
       progress = CASE WHEN x.starts THEN t.progress END,
       parked = NOT x.starts,
       behind = CASE WHEN NOT x.starts THEN x.holder END
  FROM x
 WHERE t.id = x.id
RETURNING id, definition_key, fire_time, execute_at, due_at, attempt, runs, hangs,
          claimed_by, expires_at, started_at, outcome, error, cancel_requested,
          payload, key, backfilled, reopened_at, created_at, trace_context;
