INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (:node, :since, :now, :queues, :names, :host, :pid, :version, :lease, :stopping)
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping;
