"""Statements that let claims hold longer, and note how far runs elsewhere have come."""

from __future__ import annotations

OWNED = """t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL"""
RENEW = f"""
UPDATE task_instances@task_instances_pkey AS t
   SET expires_at = CASE WHEN x.handed_on OR t.handed_on = t.attempt
           THEN greatest(t.expires_at, now() + x.lease * interval '1 microsecond')
           ELSE now() + x.lease * interval '1 microsecond' END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[]), CAST(:handed_on AS boolean[]))
         AS x (id, attempt, lease, handed_on)
 WHERE {OWNED}
RETURNING t.id, t.cancel_requested
"""
# How far it has come, as a number. A stage never goes back.
_STEP = """CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END"""
# Only the first acceptance counts.
_ACCEPTED_BEFORE = f"x.step = 2 AND {_STEP} = 2"
RENEW_ELSEWHERE = f"""
UPDATE task_instances@task_instances_pkey AS t
   SET expires_at = CASE WHEN {_ACCEPTED_BEFORE} THEN t.expires_at
           WHEN x.step > 0 AND x.step >= {_STEP}
           THEN now() + x.lease * interval '1 microsecond'
           WHEN x.handed_on OR t.handed_on = t.attempt
           THEN greatest(t.expires_at, now() + x.lease * interval '1 microsecond')
           ELSE now() + x.lease * interval '1 microsecond' END,
       handed_on = CASE WHEN x.handed_on THEN t.attempt ELSE t.handed_on END,
       worker = CASE WHEN x.handed_on AND (x.step = 0 OR x.step >= {_STEP})
                THEN coalesce(x.worker, t.worker) ELSE t.worker END,
       started_at = CASE WHEN x.step = 3 AND t.started_at IS NOT NULL AND {_STEP} < 3
                    THEN now() ELSE t.started_at END,
       accepted_at = CASE WHEN x.step >= 2 THEN coalesce(t.accepted_at, now())
                     ELSE t.accepted_at END,
       start_by = CASE WHEN x.step = 0 OR x.step < {_STEP} OR {_ACCEPTED_BEFORE}
                  THEN t.start_by
                  WHEN x.step < 3 THEN now() + x.lease * interval '1 microsecond' END,
       progress = coalesce(x.progress, t.progress)
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[]), CAST(:handed_on AS boolean[]),
              CAST(:workers AS text[]), CAST(:steps AS bigint[]),
              CAST(:progresses AS text[]))
         AS x (id, attempt, lease, handed_on, worker, step, progress)
 WHERE {OWNED}
   AND (x.step < 2 OR t.accepted_at IS NULL OR coalesce(x.worker = t.worker, true))
RETURNING t.id, t.cancel_requested
"""
