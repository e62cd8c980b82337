WITH t AS (
  UPDATE task_instances AS t
     SET runs = t.runs + CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                      THEN greatest(now(), t.due_at) ELSE t.started_at END,
         expires_at = CASE WHEN t.started_at IS NOT NULL OR t.slot IS NOT NULL
             THEN t.expires_at
             ELSE greatest(now(), t.due_at)
                  + least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
                            THEN t.expire_after END * interval '1 microsecond',
                            CAST(:expire_after AS interval))) END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
   WHERE t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
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
                   ON d.key = t.definition_key AND false;
