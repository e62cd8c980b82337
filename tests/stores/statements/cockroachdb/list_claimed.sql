WITH t AS MATERIALIZED (
  SELECT t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context FROM task_instances@{FORCE_INDEX=task_instances_lease_idx,NO_FULL_SCAN} AS t
   WHERE t.claimed_by = CAST(:node AS uuid) AND t.completed_at IS NULL AND NOT t.frozen
     AND t.handed_on IS DISTINCT FROM t.attempt
     AND t.expires_at IS NOT NULL AND t.id > CAST(:after AS uuid))
SELECT t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context,
       d.id AS d_id, d.queue AS d_queue, d.priority AS d_priority, d.expire_after AS
         d_expire_after, d.next_fire_time AS d_next_fire_time, d.paused AS
         d_paused, d.note AS d_note, d.paused_at AS d_paused_at, d.completed_at
         AS d_completed_at, d.revision AS d_revision, d.named AS d_named,
         d.owner AS d_owner
  FROM t LEFT JOIN task_definitions@{FORCE_INDEX=task_definitions_pkey,NO_FULL_SCAN} AS d
                   ON d.key = t.definition_key
 ORDER BY t.id LIMIT :limit;
