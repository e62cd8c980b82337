SELECT node, contact_since, seen_at, queues FROM task_nodes
 WHERE seen_at >= now() - CAST(:within AS interval);
