DELETE FROM task_nodes WHERE seen_at < now() - CAST(:kept AS interval) RETURNING node;
