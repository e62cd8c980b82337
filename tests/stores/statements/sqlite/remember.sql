INSERT OR REPLACE INTO task_tombstones
       (id, trigger_kind, trigger_state, revision, completed_at)
VALUES (:id, :trigger_kind, :trigger_state, :revision, :completed_at);
