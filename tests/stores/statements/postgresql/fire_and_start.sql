WITH moved AS (
  UPDATE task_definitions AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN now()
                        END
    FROM unnest((SELECT CAST(:ids AS uuid[])),
                (SELECT CAST(:expected AS timestamptz[])),
                (SELECT CAST(:revisions AS bigint[])),
                (SELECT CAST(:next_times AS timestamptz[])))
         AS x (id, expected, revision, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected
     AND d.revision = x.revision
  RETURNING d.key, d.id, d.queue, d.priority, d.expire_after, d.waits, d.slot,
            d.overlap),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, slot,
          overlap, fire_time, execute_at, due_at, claimable_at, outcome, completed_at,
          skipped_first, skipped_last, skipped_count, skipped_reason, created_at,
          claimed_by, attempt, runs, started_at, expires_at)
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits,
         CASE WHEN NOT d.waits OR d.slot LIKE 'lock %' THEN d.slot END,
         CASE WHEN NOT d.waits THEN d.overlap END,
         CASE WHEN f.reason IS NULL THEN f.fire_time END, f.fire_time + f.later,
         f.fire_time + f.later,
         NULL,
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN now() END,
         CASE WHEN f.reason IS NOT NULL THEN f.fire_time END, f.last, f.count, f.reason,
         now(),
         CAST(:node AS uuid), 1, 1, greatest(now(), f.fire_time + f.later),
         greatest(now(), f.fire_time + f.later)
             + least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval)))
    FROM unnest(CAST(:instance_ids AS uuid[]), CAST(:definition_ids AS uuid[]),
                CAST(:shards AS bigint[]), CAST(:fire_times AS timestamptz[]),
                CAST(:later AS interval[]), CAST(:lasts AS timestamptz[]),
                CAST(:counts AS bigint[]), CAST(:reasons AS text[]))
         AS f (id, definition_id, shard, fire_time, later, last, count, reason)
    JOIN moved AS d ON d.id = f.definition_id
  ON CONFLICT (definition_key, fire_time) DO NOTHING
  RETURNING id, definition_key, started_at, expires_at)
SELECT moved.id, made.id AS made_id, made.started_at, made.expires_at,
       now() AS now
  FROM moved LEFT JOIN made ON made.definition_key = moved.key;
