WITH
head0 AS MATERIALIZED (
  SELECT 0 AS head, claimable_at
    FROM task_instances
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 0 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back0 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head1 AS MATERIALIZED (
  SELECT 1 AS head, claimable_at
    FROM task_instances
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 0 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back1 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit)
SELECT DISTINCT head FROM (SELECT head FROM head0
        UNION ALL SELECT head FROM head1
        UNION ALL (
          SELECT -1 AS head FROM task_instances
           WHERE queue = CAST(:queue0 AS text) AND priority = 0
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -3 AS head FROM task_instances
           WHERE queue = CAST(:queue0 AS text) AND priority = 2
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -4 AS head FROM task_instances
           WHERE queue = CAST(:queue0 AS text) AND priority = 3
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -1 AS head FROM task_instances
           WHERE queue = CAST(:queue1 AS text) AND priority = 0
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -3 AS head FROM task_instances
           WHERE queue = CAST(:queue1 AS text) AND priority = 2
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -4 AS head FROM task_instances
           WHERE queue = CAST(:queue1 AS text) AND priority = 3
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)) AS heads;
