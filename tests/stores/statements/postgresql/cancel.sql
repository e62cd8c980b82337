WITH ended AS (
  UPDATE task_instances AS t
     SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
         outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
         completed_at = CASE WHEN t.started_at IS NULL THEN now() END,
         parked = false, claimable_at = NULL
    FROM unnest(CAST(:ids AS uuid[]), CAST(:next_times AS timestamptz[]))
         AS x (id, next_at)
   WHERE t.id = x.id AND t.completed_at IS NULL
  RETURNING t.id, t.definition_key, (t.waits AND t.started_at IS NULL) AS goes_on,
            x.next_at, (t.started_at IS NOT NULL) AS runs_on, t.slot,
            (t.started_at IS NULL) AS lets_go),
freed AS (
  DELETE FROM task_slots AS s USING ended AS e
   WHERE e.lets_go AND s.name = e.slot AND s.instance_id = e.id
  RETURNING s.name),
gone_on AS (
  UPDATE task_definitions AS d
     SET next_fire_time = coalesce(d.next_fire_time, e.next_at),
         late = coalesce(coalesce(d.next_fire_time, e.next_at)
                         <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN d.next_fire_time IS NULL AND e.next_at IS NULL
                        THEN now() END
    FROM ended AS e
   WHERE e.goes_on AND d.key = e.definition_key AND d.waits
     AND d.completed_at IS NULL AND d.deleted_at IS NULL
  RETURNING d.key)
SELECT id, runs_on FROM ended;
