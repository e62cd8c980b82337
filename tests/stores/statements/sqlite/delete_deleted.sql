DELETE FROM task_definitions
 WHERE key IN (SELECT d.key FROM task_definitions AS d
                WHERE d.deleted_at IS NOT NULL AND d.deleted_at <= :until
                  AND NOT EXISTS (SELECT 1 FROM task_instances AS i
                                   WHERE i.definition_key = d.key)
                ORDER BY d.deleted_at LIMIT :limit)
RETURNING key, id, revision, completed_at, named;
