WITH due AS MATERIALIZED (
  SELECT id, claimable_at AS place FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue AS text) AND priority = CAST(:priority AS bigint)
     AND shard = CAST(:shard AS bigint) AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at, due_at LIMIT :limit FOR UPDATE SKIP LOCKED),
t AS (
  UPDATE task_instances@{FORCE_INDEX=task_instances_pkey,NO_FULL_SCAN} AS t
     SET claimed_by = CAST(:node AS uuid), attempt = t.attempt + 1, claimable_at = NULL,
         given_back = NULL,
         runs = t.runs + CASE WHEN t.due_at <= now() + CAST(:lead AS interval) AND t.slot IS NULL
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN t.due_at <= now() + CAST(:lead AS interval) AND t.slot IS NULL
                      THEN greatest(now(), t.due_at) END,
         expires_at = greatest(now(), t.due_at)
             + CASE WHEN t.due_at <= now() + CAST(:lead AS interval) AND t.slot IS NULL
               THEN least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
                            THEN t.expire_after END * interval '1 microsecond',
                            CAST(:expire_after AS interval)))
               ELSE CAST(:lease AS interval) END
    FROM due
   WHERE t.id = due.id
     AND attempt < 9000000000000000000 AND runs < 9000000000000000000
     AND due_at < now() + interval '36525 days'
     AND claimed_by IS NULL AND completed_at IS NULL AND NOT frozen
  RETURNING t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context, due.place)
SELECT t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context,
       d.id AS d_id, d.queue AS d_queue, d.priority AS d_priority, d.expire_after AS
         d_expire_after, d.next_fire_time AS d_next_fire_time, d.paused AS
         d_paused, d.note AS d_note, d.paused_at AS d_paused_at, d.completed_at
         AS d_completed_at, d.revision AS d_revision, d.named AS d_named,
         d.owner AS d_owner,
       c.name AS c_name, c.metadata AS c_metadata, c.trigger_kind AS c_trigger_kind,
         c.trigger_state AS c_trigger_state, c.policies AS c_policies,
       t.place, now() AS now
  FROM t LEFT JOIN task_definitions@{FORCE_INDEX=task_definitions_pkey,NO_FULL_SCAN} AS d
                   ON d.key = t.definition_key
         LEFT JOIN task_contents@{FORCE_INDEX=task_contents_pkey,NO_FULL_SCAN} AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND t.started_at IS NOT NULL THEN d.key END;
