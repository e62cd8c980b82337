INSERT INTO task_nodes (node, contact_since, seen_at, queues)
VALUES (:node, :since, :now, :queues)
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues;
