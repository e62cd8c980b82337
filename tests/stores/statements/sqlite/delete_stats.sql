DELETE FROM task_stats WHERE every = :every AND begins_at < :since;
