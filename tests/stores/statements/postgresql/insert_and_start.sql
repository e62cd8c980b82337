WITH x AS MATERIALIZED (
  SELECT * FROM unnest(
         CAST(:keys AS uuid[]), CAST(:ids AS uuid[]), CAST(:shards AS bigint[]),
         CAST(:queues AS text[]), CAST(:priorities AS bigint[]),
         CAST(:expiries AS bigint[]), CAST(:waits AS boolean[]),
         CAST(:fire_times AS timestamptz[]),
         CAST(:over AS boolean[]), CAST(:paused AS boolean[]), CAST(:notes AS text[]),
         CAST(:slots AS text[]), CAST(:overlaps AS text[]),
         CAST(:named AS boolean[]), CAST(:names AS text[]), CAST(:metadata AS text[]),
         CAST(:kinds AS text[]), CAST(:states AS text[]), CAST(:policies AS text[]))
         AS x (key, id, shard, queue, priority, expire_after, waits, next_fire_time,
               over, paused, note, slot, overlap, named, name, metadata, trigger_kind,
               trigger_state, policies)),
made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
          next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
          created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.priority, x.expire_after, x.waits, x.slot,
         x.overlap,
         x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= now() - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.paused THEN now() END,
         CASE WHEN x.over THEN now() END, 1, x.named,
         now()
    FROM x
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_definitions AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones AS t
                      WHERE t.id = x.id OFFSET 0)
  RETURNING key, id, next_fire_time),
kept AS (
  INSERT INTO task_contents
         (key, name, metadata, metadata_search, trigger_kind, trigger_state, policies)
  SELECT x.key, x.name, x.metadata, CAST(x.metadata AS jsonb), x.trigger_kind,
         x.trigger_state, x.policies
    FROM x JOIN made ON made.key = x.key
  RETURNING key),
started AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, fire_time,
          execute_at, due_at, created_at, claimed_by, attempt, runs, started_at,
          expires_at)
  SELECT CAST(:instance_id AS uuid), d.key, CAST(:instance_shard AS bigint), d.queue,
         d.priority, d.expire_after, d.waits, f.at, f.at, f.at, now(),
         CAST(:node AS uuid), 1, 1, greatest(now(), f.at),
         greatest(now(), f.at)
             + least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval)))
    FROM x AS d JOIN made ON made.key = d.key
         CROSS JOIN (SELECT CAST(:fire_time AS timestamptz) AS at) AS f
  RETURNING definition_key, started_at, expires_at)
SELECT now() AS now, started.started_at, started.expires_at
  FROM made JOIN started ON started.definition_key = made.key;
