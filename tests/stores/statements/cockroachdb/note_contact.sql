INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (CAST(:node AS uuid), now() - CAST(:unbroken AS interval), now(),
        CAST(:queues AS text), CAST(:names AS text), CAST(:host AS text),
        CAST(:pid AS bigint), CAST(:version AS text), CAST(:lease AS bigint),
        CAST(:stopping AS boolean))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping
RETURNING node;
