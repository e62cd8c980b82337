UPDATE task_instances
   SET claimed_by = :node, attempt = attempt + 1, claimable_at = NULL,
       given_back = NULL,
       runs = runs + (due_at <= :lead AND slot IS NULL),
       started_at = CASE WHEN due_at <= :lead AND slot IS NULL THEN max(:now, due_at) END,
       expires_at = max(:now, due_at) + CASE WHEN due_at <= :lead AND slot IS NULL
           THEN min(:lease, coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND 3155760000000000
                 THEN expire_after END, :expire_after)) ELSE :lease END
 WHERE id IN (
   SELECT id FROM (
    SELECT * FROM (
      SELECT id, 0 AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue0 AND priority = 0 AND shard = 0
     AND claimable_at IS NOT NULL AND claimable_at <= :until
     AND typeof(due_at) = 'integer'
     AND due_at >= -62135596800000000 AND due_at < :now + 3155760000000000
     AND typeof(attempt) = 'integer' AND attempt < 9000000000000000000
     AND typeof(runs) = 'integer' AND runs < 9000000000000000000
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
       ORDER BY claimable_at, due_at LIMIT :limit) UNION ALL
    SELECT * FROM (
      SELECT id, 1 AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue0 AND priority = 1 AND shard = 0
     AND claimable_at IS NOT NULL AND claimable_at <= :until
     AND typeof(due_at) = 'integer'
     AND due_at >= -62135596800000000 AND due_at < :now + 3155760000000000
     AND typeof(attempt) = 'integer' AND attempt < 9000000000000000000
     AND typeof(runs) = 'integer' AND runs < 9000000000000000000
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
       ORDER BY claimable_at, due_at LIMIT :limit) UNION ALL
    SELECT * FROM (
      SELECT id, 0 AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue1 AND priority = 0 AND shard = 0
     AND claimable_at IS NOT NULL AND claimable_at <= :until
     AND typeof(due_at) = 'integer'
     AND due_at >= -62135596800000000 AND due_at < :now + 3155760000000000
     AND typeof(attempt) = 'integer' AND attempt < 9000000000000000000
     AND typeof(runs) = 'integer' AND runs < 9000000000000000000
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
       ORDER BY claimable_at, due_at LIMIT :limit) UNION ALL
    SELECT * FROM (
      SELECT id, 1 AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue1 AND priority = 1 AND shard = 0
     AND claimable_at IS NOT NULL AND claimable_at <= :until
     AND typeof(due_at) = 'integer'
     AND due_at >= -62135596800000000 AND due_at < :now + 3155760000000000
     AND typeof(attempt) = 'integer' AND attempt < 9000000000000000000
     AND typeof(runs) = 'integer' AND runs < 9000000000000000000
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'
       ORDER BY claimable_at, due_at LIMIT :limit))
    ORDER BY turn, claimable_at, due_at LIMIT :limit)
RETURNING id, definition_key, fire_time, execute_at, due_at, attempt, runs, hangs,
          claimed_by, expires_at, started_at, outcome, error, cancel_requested,
          payload, key, backfilled, reopened_at, created_at, trace_context;
