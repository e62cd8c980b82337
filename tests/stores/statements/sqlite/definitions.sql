WITH x AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS key,
         json_extract(value, '$[1]') AS started
    FROM json_each(:batch))
SELECT d.key, d.id, d.queue, d.priority, d.expire_after, d.next_fire_time, d.paused,
       d.note, d.paused_at, d.completed_at, d.revision, d.named, d.owner,
       c.name, c.metadata, c.trigger_kind, c.trigger_state, c.policies
  FROM x JOIN task_definitions AS d ON d.key = x.key
         LEFT JOIN task_contents AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND x.started THEN d.key END;
