WITH mine AS MATERIALIZED (
  SELECT t.id, t.slot, t.priority, t.due_at, t.execute_at
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
    JOIN task_instances AS t
      ON t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
     AND t.started_at IS NULL AND t.slot IS NOT NULL
   ORDER BY t.id FOR NO KEY UPDATE OF t),
taken AS MATERIALIZED (
  SELECT s.name, s.instance_id FROM task_slots AS s
   WHERE s.name IN (SELECT slot FROM mine)),
first AS MATERIALIZED (
  SELECT DISTINCT ON (slot) slot, id FROM mine
   WHERE slot NOT IN (SELECT name FROM taken)
   ORDER BY slot, priority, due_at, execute_at, id),
made AS (
  INSERT INTO task_slots (name, instance_id) SELECT slot, id FROM first ORDER BY slot
  ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING name, instance_id),
has AS MATERIALIZED (
  SELECT name, instance_id FROM made
  UNION ALL SELECT name, instance_id FROM taken),
t AS (
  UPDATE task_instances AS t
     SET runs = t.runs + CASE WHEN mine.starts THEN 1 ELSE 0 END,
         started_at = CASE WHEN mine.starts THEN greatest(now(), t.due_at) END,
         expires_at = CASE WHEN mine.starts
             THEN greatest(now(), t.due_at)
                  + least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
                            THEN t.expire_after END * interval '1 microsecond',
                            CAST(:expire_after AS interval))) END,
         claimed_by = CASE WHEN mine.starts THEN t.claimed_by END,
         worker = CASE WHEN mine.starts THEN t.worker END,
         accepted_at = CASE WHEN mine.starts THEN t.accepted_at END,
         start_by = CASE WHEN mine.starts THEN t.start_by END,
         progress = CASE WHEN mine.starts THEN t.progress END,
         parked = NOT mine.starts,
         behind = CASE WHEN NOT mine.starts THEN mine.holder END
    FROM (SELECT m.id, has.instance_id AS holder, has.instance_id = m.id AS starts
            FROM mine AS m JOIN has ON has.name = m.slot) AS mine
   WHERE t.id = mine.id
  RETURNING t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context)
SELECT t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context,
       d.id AS d_id, d.queue AS d_queue, d.priority AS d_priority, d.expire_after AS
         d_expire_after, d.next_fire_time AS d_next_fire_time, d.paused AS
         d_paused, d.note AS d_note, d.paused_at AS d_paused_at, d.completed_at
         AS d_completed_at, d.revision AS d_revision, d.named AS d_named,
         d.owner AS d_owner
  FROM t LEFT JOIN task_definitions AS d
                   ON d.key = t.definition_key;
