SELECT d.id
  FROM unnest((SELECT CAST(:ids AS uuid[])),
              (SELECT CAST(:expected AS timestamptz[])),
              (SELECT CAST(:revisions AS bigint[]))) AS x (id, expected, revision)
  JOIN task_definitions@{FORCE_INDEX=task_definitions_id_key,NO_FULL_SCAN} AS d
    ON d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision;
