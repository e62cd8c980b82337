WITH
head0 AS MATERIALIZED (
  SELECT 0 AS head, claimable_at
    FROM task_instances
   WHERE queue = CAST(:queue0 AS text) AND shard = 0
     AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back0 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head1 AS MATERIALIZED (
  SELECT 1 AS head, claimable_at
    FROM task_instances
   WHERE queue = CAST(:queue1 AS text) AND shard = 0
     AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back1 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit)
SELECT DISTINCT head FROM (SELECT * FROM head0
        UNION ALL SELECT * FROM head1) AS heads;
