SELECT x.value AS id
  FROM json_each(:ids) AS x
 WHERE EXISTS (SELECT 1 FROM task_definitions AS d
                WHERE d.id = x.value AND d.deleted_at IS NULL)
    OR EXISTS (SELECT 1 FROM task_definitions AS d
                WHERE d.id = x.value AND d.deleted_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM task_tombstones AS t WHERE t.id = x.value);
