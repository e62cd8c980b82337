WITH due AS MATERIALIZED (
  SELECT id, expires_at AS place, attempt AS lost_as, claimed_by AS lost_by,
         worker AS ran_by, started_at AS began,
         accepted_at AS taken_at, start_by AS due_by,
         CASE WHEN start_by IS NULL
              THEN CASE WHEN accepted_at IS NOT NULL THEN 'started' END
              WHEN accepted_at IS NULL THEN 'published' ELSE 'accepted' END AS lost_in
    FROM task_instances@{FORCE_INDEX=task_instances_lease_idx,NO_FULL_SCAN}
   WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
     AND expires_at >= now() - CAST(:back AS interval)
     AND expires_at <= now() - CAST(:lapsed AS interval)
     AND queue = ANY(CAST(:queues AS text[]))
     AND attempt < 9000000000000000000 AND runs < 9000000000000000000
     AND due_at < now() + interval '36525 days'
   ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED),
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
               ELSE CAST(:lease AS interval) END,
         worker = NULL, accepted_at = NULL, start_by = NULL, progress = NULL
    FROM due
   WHERE t.id = due.id
     AND attempt < 9000000000000000000 AND runs < 9000000000000000000
     AND due_at < now() + interval '36525 days'
     AND t.completed_at IS NULL AND t.expires_at <= now() - CAST(:lapsed AS interval)
  RETURNING t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt, t.runs,
         t.hangs, t.claimed_by, t.expires_at, t.started_at, t.outcome, t.error,
         t.cancel_requested, t.payload, t.key, t.backfilled, t.reopened_at,
         t.created_at, t.trace_context, due.place, due.ran_by, due.began, due.taken_at, due.due_by),
kept AS (
  INSERT INTO task_runs
         (instance_id, attempt, node, worker, started_at, ended_at, outcome, lost_in)
  SELECT t.id, due.lost_as, due.lost_by, due.ran_by, due.began, now(), 'lost',
         due.lost_in
    FROM t JOIN due ON due.id = t.id
   WHERE due.began IS NOT NULL
  ON CONFLICT DO NOTHING
  RETURNING instance_id)
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
       t.place, now() AS now, t.ran_by, t.began, t.taken_at, t.due_by
  FROM t LEFT JOIN task_definitions@{FORCE_INDEX=task_definitions_pkey,NO_FULL_SCAN} AS d
                   ON d.key = t.definition_key AND false
         LEFT JOIN task_contents@{FORCE_INDEX=task_contents_pkey,NO_FULL_SCAN} AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND t.started_at IS NOT NULL THEN d.key END;
