WITH old AS MATERIALIZED (
  SELECT every, begins_at, queue, node FROM task_stats
   WHERE (every = 60000000 AND begins_at < now() - CAST(:minutes_kept AS interval))
      OR (every = 3600000000 AND begins_at < now() - CAST(:hours_kept AS interval))
   ORDER BY every, begins_at, queue, node LIMIT 5000 FOR UPDATE SKIP LOCKED),
counted AS (
  DELETE FROM task_stats AS s USING old
   WHERE s.every = old.every AND s.begins_at = old.begins_at AND s.queue = old.queue
     AND s.node = old.node
  RETURNING s.every)
DELETE FROM task_nodes WHERE seen_at < now() - CAST(:kept AS interval) RETURNING node;
