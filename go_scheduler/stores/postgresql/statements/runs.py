"""Statements on instances that are named by their ids, most of them by their claims.

``attempt`` names one claim, so that the owner need not be compared: comparing it would
let a planner walk an index of all that is claimed instead of the primary key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.statements.renewals import (
    OWNED,
    RENEW,
    RENEW_ELSEWHERE,
)
from go_scheduler.stores.postgresql.statements.statement import (
    APART,
    BOTH,
    DEFINITION,
    INSTANCE,
    Statement,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEASE = """greatest(now(), t.due_at)
                  + least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
                            THEN t.expire_after END * interval '1 microsecond',
                            CAST(:expire_after AS interval)))"""


def _start(apart: str = "") -> str:
    """Records that handlers are about to be called, and reads their definitions.

    What has to have a slot, and has not started, comes back as it is.
    """
    return f"""
WITH t AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET runs = t.runs + CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                      THEN greatest(now(), t.due_at) ELSE t.started_at END,
         expires_at = CASE WHEN t.started_at IS NOT NULL OR t.slot IS NOT NULL
             THEN t.expires_at
             ELSE {_LEASE} END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
   WHERE {OWNED}
  RETURNING {INSTANCE})
SELECT {INSTANCE},
       {DEFINITION}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{apart}
"""


def _kept_if(condition: str) -> str:
    """Keeps who has it outside of nodes, and how far that has come, only then."""
    names = "worker", "accepted_at", "start_by", "progress"
    return ",\n         ".join(
        f"{name} = CASE WHEN {condition} THEN t.{name} END" for name in names
    )


# The rows that are locked stay as they are, and the slots that somebody has are not so
# much as tried: a wait for a slot is one for another statement of this kind, and as all
# take them in one order, none is for another in a circle. Who loses that has to know of
# the other one, which its snapshot need not show: an update reads the row as it is.
def _start_in_slots(apart: str = "") -> str:
    """Gives those their slots that come first, and parks the others."""
    return f"""
WITH mine AS MATERIALIZED (
  SELECT t.id, t.slot, t.priority, t.due_at, t.execute_at
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
    JOIN task_instances@task_instances_pkey AS t
      ON {OWNED}
     AND t.started_at IS NULL AND t.slot IS NOT NULL
   ORDER BY t.id FOR NO KEY UPDATE OF t),
taken AS MATERIALIZED (
  SELECT s.name, s.instance_id FROM task_slots@task_slots_pkey AS s
   WHERE s.name IN (SELECT slot FROM mine)),
first AS MATERIALIZED (
  SELECT DISTINCT ON (slot) slot, id FROM mine
   WHERE slot NOT IN (SELECT name FROM taken)
   ORDER BY slot, priority, due_at, execute_at, id),
made AS (
  INSERT INTO task_slots (name, instance_id) SELECT slot, id FROM first ORDER BY slot
  ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING name, instance_id),
has AS MATERIALIZED (
  SELECT name, instance_id FROM made
  UNION ALL SELECT name, instance_id FROM taken),
t AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET runs = t.runs + CASE WHEN mine.starts THEN 1 ELSE 0 END,
         started_at = CASE WHEN mine.starts THEN greatest(now(), t.due_at) END,
         expires_at = CASE WHEN mine.starts
             THEN {_LEASE} END,
         claimed_by = CASE WHEN mine.starts THEN t.claimed_by END,
         {_kept_if("mine.starts")},
         parked = NOT mine.starts,
         behind = CASE WHEN NOT mine.starts THEN mine.holder END
    FROM (SELECT m.id, has.instance_id AS holder, has.instance_id = m.id AS starts
            FROM mine AS m JOIN has ON has.name = m.slot) AS mine
   WHERE t.id = mine.id
  RETURNING {INSTANCE})
SELECT {INSTANCE},
       {DEFINITION}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{apart}
"""


# The first success wins, of whichever attempt.
_MAY_FINISH = """t.id = x.id
     AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
          OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
             AND (t.completed_at IS NULL OR t.outcome = 'failed'))"""
_GONE_ON = """
gone_on AS (
  UPDATE task_definitions@task_definitions_pkey AS d
     SET next_fire_time = coalesce(d.next_fire_time, e.next_at),
         late = coalesce(coalesce(d.next_fire_time, e.next_at)
                         <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN d.next_fire_time IS NULL AND e.next_at IS NULL
                        THEN now() END
    FROM ended AS e
   WHERE e.goes_on AND d.key = e.definition_key AND d.waits
     AND d.completed_at IS NULL AND d.deleted_at IS NULL
  RETURNING d.key)"""
_OF_SLOT = ", t.slot, x.outcome IS NOT NULL AS lets_go"


def _freed(rows: str = "ended") -> str:
    """Lets those go of their slots of which a former part says so."""
    return f"""
freed AS (
  DELETE FROM task_slots@task_slots_pkey AS s USING {rows} AS e
   WHERE e.lets_go AND s.name = e.slot AND s.instance_id = e.id
  RETURNING s.name)"""


_RELEASE = f"""
WITH released AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET claimed_by = NULL, expires_at = NULL, started_at = NULL, worker = NULL,
         accepted_at = NULL, start_by = NULL, progress = NULL, given_back = x.reason,
         runs = t.runs - CASE WHEN t.started_at IS NOT NULL THEN 1 ELSE 0 END,
         due_at = CASE WHEN x.delay > 0
                  THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond')
                  ELSE t.due_at END,
         claimable_at = CASE WHEN NOT t.frozen
             THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond') END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:delays AS bigint[]), CAST(:reasons AS text[]))
         AS x (id, attempt, delay, reason)
   WHERE {OWNED}
  RETURNING t.id, t.slot, t.runs = 0 AS lets_go),{_freed("released")}
SELECT id FROM released
"""


# An instance that had failed has moved its definition on, and waits for nothing any
# more: RETURNING has the new values only.
# Whose claim it was is gone from the row when it is pending again.
_PRIOR = """prior AS MATERIALIZED (
  SELECT id, claimed_by, worker FROM task_instances@task_instances_pkey
   WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))),
"""
_OF_RUN = """,
            x.attempt AS ran_as, x.started_at AS began, x.outcome AS ended_by, x.hung,
            x.error AS raised"""
_KEPT = """,
kept AS (
  INSERT INTO task_runs
         (instance_id, attempt, node, worker, started_at, ended_at, outcome, error)
  SELECT e.id, e.ran_as, prior.claimed_by, prior.worker, e.began, now(),
         CASE WHEN e.hung THEN 'hung' WHEN e.ended_by IS NULL THEN 'failed'
         ELSE e.ended_by END, e.raised
    FROM ended AS e JOIN prior ON prior.id = e.id
   WHERE e.began IS NOT NULL AND e.ended_by IS DISTINCT FROM 'completed'
  ON CONFLICT DO NOTHING
  RETURNING instance_id)"""
_TRIM_RUNS = """
DELETE FROM task_runs@task_runs_pkey AS r
 USING (SELECT instance_id, attempt,
               row_number() OVER (PARTITION BY instance_id ORDER BY attempt DESC) AS n
          FROM task_runs@task_runs_pkey
         WHERE instance_id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))) AS old
 WHERE old.n > :kept AND r.instance_id = old.instance_id AND r.attempt = old.attempt
RETURNING r.instance_id
"""
_WORKER = f""",
         {_kept_if("x.outcome IS NOT NULL")}"""
_RESULT = """,
         result = coalesce(x.result, t.result),
         client = coalesce(x.client, t.client)"""
_RESULTS = """,
                CAST(:results AS text[]), CAST(:clients AS text[])"""
_RETURNS = """
  RETURNING t.id, t.definition_key, (t.waits AND x.outcome IS NOT NULL) AS goes_on,
            x.next_at"""


def _finish(*, in_full: bool = False, results: bool = False) -> Statement:
    """Records what became of runs.

    Args:
        in_full: Whether slots are let go of, and the ends are kept of those that did
            not succeed. What all have succeeded without a slot pays nothing for that.
        results: Whether any has a result, or what its client says.
    """
    sql = f"""
WITH {_PRIOR if in_full else ""}ended AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET outcome = x.outcome,
         ended_attempt = CASE WHEN x.outcome IS NOT NULL THEN x.attempt END,
         waits = t.waits AND t.completed_at IS NULL,
         hangs = CASE WHEN x.hung THEN t.hangs + 1
                      WHEN x.outcome IS NOT NULL THEN t.hangs ELSE 0 END,
         completed_at = CASE WHEN x.outcome IS NOT NULL THEN now() END,
         started_at = CASE WHEN x.outcome IS NOT NULL THEN x.started_at END,
         runs = t.runs - CASE WHEN x.started_at IS NULL AND t.started_at IS NOT NULL
                              AND t.attempt = x.attempt AND t.completed_at IS NULL
                         THEN 1 ELSE 0 END,
         error = CASE WHEN x.outcome = 'skipped' THEN t.error
                      ELSE coalesce(x.error, t.error) END,
         skipped_reason = CASE WHEN x.outcome = 'skipped' THEN x.error END,
         claimed_by = CASE WHEN x.outcome IS NOT NULL THEN t.claimed_by END,
         expires_at = CASE WHEN x.outcome IS NOT NULL THEN t.expires_at END,
         due_at = CASE WHEN x.outcome IS NOT NULL THEN t.due_at
                  ELSE now() + x.retry_in * interval '1 microsecond' END,
         claimable_at = CASE WHEN x.outcome IS NULL AND NOT t.frozen
                        THEN now() + x.retry_in * interval '1 microsecond' END{
        (_WORKER if in_full else "") + (_RESULT if results else "")
    }
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:outcomes AS text[]), CAST(:started AS timestamptz[]),
                CAST(:retries AS bigint[]), CAST(:hung AS boolean[]),
                CAST(:errors AS text[]), CAST(:next_times AS timestamptz[]){
        _RESULTS if results else ""
    })
         AS x (id, attempt, outcome, started_at, retry_in, hung, error, next_at{
        ", result, client" if results else ""
    })
   WHERE {_MAY_FINISH}{_RETURNS}{_OF_SLOT + _OF_RUN if in_full else ""}),{
        _freed() + "," if in_full else ""
    }{_GONE_ON}{_KEPT if in_full else ""}
SELECT id FROM ended
"""
    return Statement(sql, ("id",))


_CANCEL = f"""
WITH ended AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
         outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
         completed_at = CASE WHEN t.started_at IS NULL THEN now() END,
         parked = false, claimable_at = NULL
    FROM unnest(CAST(:ids AS uuid[]), CAST(:next_times AS timestamptz[]))
         AS x (id, next_at)
   WHERE t.id = x.id AND t.completed_at IS NULL
  RETURNING t.id, t.definition_key, (t.waits AND t.started_at IS NULL) AS goes_on,
            x.next_at, (t.started_at IS NOT NULL) AS runs_on, t.slot,
            (t.started_at IS NULL) AS lets_go),{_freed()},{_GONE_ON}
SELECT id, runs_on FROM ended
"""

# Rows of a batch that can be written though somebody else has locked the others, and
# those that are still as they were.
_FREE = """
SELECT id FROM task_instances@task_instances_pkey
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
_CURRENT = f"""
SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
  JOIN task_instances@task_instances_pkey AS t ON {OWNED}
"""
# A definition that waits for the end of an instance is written with it.
_FINISH_FREE = """
WITH t AS MATERIALIZED (
  SELECT id, definition_key, waits AND id = ANY(CAST(:ended AS uuid[])) AS goes_on
    FROM task_instances@task_instances_pkey
   WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
   ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
d AS MATERIALIZED (
  SELECT key FROM task_definitions@task_definitions_pkey
   WHERE key IN (SELECT definition_key FROM t WHERE goes_on)
   ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
SELECT id FROM t WHERE NOT goes_on OR definition_key IN (SELECT key FROM d)
"""
_FINISH_CURRENT = f"""
SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:outcomes AS text[])) AS x (id, attempt, outcome)
  JOIN task_instances@task_instances_pkey AS t ON {_MAY_FINISH}
"""

RUN_STATEMENTS: Mapping[str, Statement] = {
    "start": Statement(_start(), BOTH),
    "start_past_locks": Statement(_start(APART), BOTH),
    "start_in_slots": Statement(_start_in_slots(), BOTH),
    "start_in_slots_past_locks": Statement(_start_in_slots(APART), BOTH),
    "renew": Statement(RENEW, ("id", "cancel_requested")),
    "renew_elsewhere": Statement(RENEW_ELSEWHERE, ("id", "cancel_requested")),
    "release": Statement(_RELEASE, ("id",)),
    "claimed_free": Statement(_FREE, ("id",)),
    "claimed_current": Statement(_CURRENT, ("id",)),
    "finish": _finish(),
    "finish_in_full": _finish(in_full=True),
    "finish_with_results": _finish(results=True),
    "finish_in_full_with_results": _finish(in_full=True, results=True),
    "trim_runs": Statement(_TRIM_RUNS, ("instance_id",)),
    "finish_free": Statement(_FINISH_FREE, ("id",)),
    "finish_current": Statement(_FINISH_CURRENT, ("id",)),
    "cancel": Statement(_CANCEL, ("id", "runs_on")),
}
"""By name; ``_free`` and ``_current`` are for the rows of a batch past locks."""
