DELETE FROM task_runs AS r
 USING (SELECT instance_id, attempt,
               row_number() OVER (PARTITION BY instance_id ORDER BY attempt DESC) AS n
          FROM task_runs
         WHERE instance_id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))) AS old
 WHERE old.n > :kept AND r.instance_id = old.instance_id AND r.attempt = old.attempt
RETURNING r.instance_id;
