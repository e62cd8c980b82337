DELETE FROM task_nodes WHERE seen_at < :since;
