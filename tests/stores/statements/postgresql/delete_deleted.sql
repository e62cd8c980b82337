WITH old AS MATERIALIZED (
  SELECT d.key, d.revision FROM task_definitions AS d
   WHERE d.deleted_at IS NOT NULL AND d.deleted_at <= now() - CAST(:older_than AS interval)
     AND NOT EXISTS (SELECT 1 FROM task_instances AS i
                      WHERE i.definition_key = d.key)
   ORDER BY d.deleted_at LIMIT :limit FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM task_definitions AS d USING old
   WHERE d.key = old.key AND d.deleted_at <= now() - CAST(:older_than AS interval)
  RETURNING d.key, d.id, d.revision, d.completed_at, d.named),
emptied AS (
  DELETE FROM task_contents AS c USING gone WHERE c.key = gone.key
  RETURNING c.key, c.trigger_kind, c.trigger_state),
remembered AS (
  INSERT INTO task_tombstones (id, trigger_kind, trigger_state, revision, completed_at)
  SELECT gone.id, emptied.trigger_kind, emptied.trigger_state, gone.revision,
         gone.completed_at
    FROM gone JOIN emptied ON emptied.key = gone.key
   WHERE gone.named AND gone.completed_at IS NOT NULL
  ON CONFLICT (id) DO UPDATE
     SET trigger_kind = excluded.trigger_kind, trigger_state = excluded.trigger_state,
         revision = excluded.revision, completed_at = excluded.completed_at
  RETURNING id)
SELECT key FROM gone;
