WITH
head0 AS MATERIALIZED (
  SELECT 0 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 0 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back0 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head1 AS MATERIALIZED (
  SELECT 1 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 1 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back1 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head2 AS MATERIALIZED (
  SELECT 2 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 2 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back2 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head3 AS MATERIALIZED (
  SELECT 3 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 3 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back3 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head4 AS MATERIALIZED (
  SELECT 4 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 4 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back4 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head5 AS MATERIALIZED (
  SELECT 5 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 5 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back5 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head6 AS MATERIALIZED (
  SELECT 6 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 6 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back6 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head7 AS MATERIALIZED (
  SELECT 7 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue0 AS text) AND priority = 1
     AND shard = 7 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back7 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head8 AS MATERIALIZED (
  SELECT 8 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 0 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back8 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head9 AS MATERIALIZED (
  SELECT 9 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 1 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back9 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head10 AS MATERIALIZED (
  SELECT 10 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 2 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back10 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head11 AS MATERIALIZED (
  SELECT 11 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 3 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back11 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head12 AS MATERIALIZED (
  SELECT 12 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 4 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back12 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head13 AS MATERIALIZED (
  SELECT 13 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 5 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back13 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head14 AS MATERIALIZED (
  SELECT 14 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 6 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back14 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit),
head15 AS MATERIALIZED (
  SELECT 15 AS head, claimable_at
    FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
   WHERE queue = CAST(:queue1 AS text) AND priority = 1
     AND shard = 7 AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back15 AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit)
SELECT DISTINCT head FROM (SELECT head FROM head0
        UNION ALL SELECT head FROM head1
        UNION ALL SELECT head FROM head2
        UNION ALL SELECT head FROM head3
        UNION ALL SELECT head FROM head4
        UNION ALL SELECT head FROM head5
        UNION ALL SELECT head FROM head6
        UNION ALL SELECT head FROM head7
        UNION ALL SELECT head FROM head8
        UNION ALL SELECT head FROM head9
        UNION ALL SELECT head FROM head10
        UNION ALL SELECT head FROM head11
        UNION ALL SELECT head FROM head12
        UNION ALL SELECT head FROM head13
        UNION ALL SELECT head FROM head14
        UNION ALL SELECT head FROM head15
        UNION ALL (
          SELECT -1 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue0 AS text) AND priority = 0
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -3 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue0 AS text) AND priority = 2
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -4 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue0 AS text) AND priority = 3
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -1 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue1 AS text) AND priority = 0
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -3 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue1 AS text) AND priority = 2
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)
        UNION ALL (
          SELECT -4 AS head FROM task_instances@{FORCE_INDEX=task_instances_claimable_idx,NO_FULL_SCAN}
           WHERE queue = CAST(:queue1 AS text) AND priority = 3
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)) AS heads;
