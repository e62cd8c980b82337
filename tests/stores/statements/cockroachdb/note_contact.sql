INSERT INTO task_nodes (node, contact_since, seen_at, queues)
VALUES (CAST(:node AS uuid), now() - CAST(:unbroken AS interval), now(),
        CAST(:queues AS text))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues
RETURNING node;
