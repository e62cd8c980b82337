WITH d AS MATERIALIZED (
  SELECT * FROM task_definitions
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL FOR KEY SHARE),
mine AS MATERIALIZED (
  SELECT NOT d.paused AND d.slot IS NULL AND d.queue = ANY(CAST(:queues AS text[]))
         AND (CAST(:names AS text[]) IS NULL
              OR EXISTS (SELECT 1 FROM task_contents AS c
                          WHERE c.key = d.key
                            AND c.name = ANY(CAST(:names AS text[])))) AS starts
    FROM d),
x AS MATERIALIZED (
  SELECT id, shard, key, payload, trace_context,
         coalesce(at, now() + delay * interval '1 microsecond') AS at
    FROM unnest(
         CAST(:ids AS uuid[]), CAST(:shards AS bigint[]), CAST(:keys AS text[]),
         CAST(:payloads AS text[]), CAST(:times AS timestamptz[]),
         CAST(:delays AS bigint[]), CAST(:trace_contexts AS text[]))
         AS x (id, shard, key, payload, at, delay, trace_context)),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload,
          trace_context, created_at,
          claimed_by, attempt, runs, started_at, expires_at)
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after, d.slot, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused AND NOT (mine.starts AND x.at <= now()) THEN greatest(x.at, now()) END, x.payload,
         x.trace_context, now(),
         CASE WHEN mine.starts AND x.at <= now() THEN CAST(:node AS uuid) END,
         CASE WHEN mine.starts AND x.at <= now() THEN 1 ELSE 0 END,
         CASE WHEN mine.starts AND x.at <= now() THEN 1 ELSE 0 END,
         CASE WHEN mine.starts AND x.at <= now() THEN now() END,
         CASE WHEN mine.starts AND x.at <= now() THEN now()
             + least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval))) END
    FROM d CROSS JOIN x CROSS JOIN mine
   WHERE NOT EXISTS (SELECT 1 FROM task_instances AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0)
  RETURNING id, claimable_at)
SELECT d.key, d.id, d.queue, d.priority, d.expire_after, d.next_fire_time, d.paused, d.note, d.paused_at, d.completed_at, d.revision, d.named, d.owner, now() AS now,
       CASE WHEN (SELECT count(*) FROM made) < (SELECT count(*) FROM x)
       THEN ARRAY(SELECT id FROM made) END AS ids,
       (SELECT pg_notify(
                 concat('go_scheduler ', CAST(CAST('task_definitions' AS regclass) AS oid)),
                 'i') IS NOT NULL
          FROM made AS m
         WHERE m.claimable_at <= now() + CAST(:hint_within AS interval)
         LIMIT 1) AS hinted,
       mine.starts,
       now()
           + least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval))) AS expires_at
  FROM d CROSS JOIN mine;
