SELECT node, contact_since, seen_at, queues, names, host, pid, version, lease, stopping
  FROM task_nodes
 WHERE seen_at >= now() - CAST(:within AS interval);
