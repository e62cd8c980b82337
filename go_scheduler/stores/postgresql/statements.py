"""The statements of the PostgreSQL family: what the loops do, each over a batch.

Each is one statement that commits by itself. Who owns what rests on the conditions of
the UPDATEs alone; SKIP LOCKED only keeps nodes out of each other's way. Every parameter
is cast, for CockroachDB infers other types than PostgreSQL.

``attempt`` names one claim, so that the owner need not be compared: comparing it would
let a planner walk an index of all that is claimed instead of the primary key.
"""

from __future__ import annotations

import re
from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.checks import PRIORITIES
from go_scheduler.stores.hints import News
from go_scheduler.stores.postgresql.dialect import hinted
from go_scheduler.stores.rules import NORMAL
from go_scheduler.stores.sql.locks import exclusion
from go_scheduler.stores.sql.rows import (
    CLAIMED_COLUMNS,
    CONTACT_COLUMNS,
    DEFINITION_COLUMNS,
    ContentsRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect


class Statement(NamedTuple):
    """A statement as it is written down.

    Attributes:
        sql: With named parameters. ``table@index`` names the index by which rows are
            looked up; it becomes CockroachDB's hint, and nothing on PostgreSQL, where
            the connections' settings see to it: by statistics that are missing, or
            stale, the whole table may seem to be cheaper to read.
        returns: The names of the columns that come back.
    """

    sql: str
    returns: tuple[str, ...]


# The key of its definition is among an instance's own columns.
_OTHERS = DEFINITION_COLUMNS[1:]
OF_DEFINITION = "d_"
OF_CONTENTS = "c_"


def _listed(columns: Iterable[str]) -> str:
    return fill(", ".join(columns), width=80, subsequent_indent=" " * 9)


INSTANCE = _listed(f"t.{name}" for name in CLAIMED_COLUMNS)
DEFINITION = _listed(f"d.{name} AS {OF_DEFINITION}{name}" for name in _OTHERS)
CONTENTS = _listed(f"c.{name} AS {OF_CONTENTS}{name}" for name in ContentsRow._fields)
BOTH = (*CLAIMED_COLUMNS, *(OF_DEFINITION + name for name in _OTHERS))
ALL = (*BOTH, *(OF_CONTENTS + name for name in ContentsRow._fields))

LONGEST_LEASE = """least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval)))"""
"""How long a claim holds of what is started, by the columns of ``d``."""

APART = " AND false"
"""Leaves definitions out of a join, to be read after it.

On CockroachDB a statement that reads a definition waits for whoever is writing it.
"""


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
_CLAIMED_FREE = """
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
    "claimed_free": Statement(_CLAIMED_FREE, ("id",)),
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


# Ids that are new in every respect, so that nothing has to be read first. Each of the
# conditions is a look-up, by OFFSET 0 as in _NOTHING_OPEN: for ON CONFLICT, CockroachDB
# would read the whole index where statistics say that it is short.
_INSERT_NEW = """
WITH x AS MATERIALIZED (
  SELECT * FROM unnest(
         CAST(:keys AS uuid[]), CAST(:ids AS uuid[]), CAST(:shards AS bigint[]),
         CAST(:queues AS text[]), CAST(:priorities AS bigint[]),
         CAST(:expiries AS bigint[]), CAST(:waits AS boolean[]),
         CAST(:fire_times AS timestamptz[]),
         CAST(:over AS boolean[]), CAST(:paused AS boolean[]), CAST(:notes AS text[]),
         CAST(:slots AS text[]), CAST(:overlaps AS text[]),
         CAST(:named AS boolean[]), CAST(:names AS text[]), CAST(:metadata AS text[]),
         CAST(:kinds AS text[]), CAST(:states AS text[]), CAST(:policies AS text[]))
         AS x (key, id, shard, queue, priority, expire_after, waits, next_fire_time,
               over, paused, note, slot, overlap, named, name, metadata, trigger_kind,
               trigger_state, policies)),
made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, priority, expire_after, waits, slot, overlap,
          next_fire_time, late, paused, note, paused_at, completed_at, revision, named,
          created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.priority, x.expire_after, x.waits, x.slot,
         x.overlap,
         x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= now() - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.paused THEN now() END,
         CASE WHEN x.over THEN now() END, 1, x.named,
         now()
    FROM x
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_id_key AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_definitions@task_definitions_former_idx AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones@task_tombstones_pkey AS t
                      WHERE t.id = x.id OFFSET 0)
  RETURNING key, id, next_fire_time),
kept AS (
  INSERT INTO task_contents
         (key, name, metadata, metadata_search, trigger_kind, trigger_state, policies)
  SELECT x.key, x.name, x.metadata, CAST(x.metadata AS jsonb), x.trigger_kind,
         x.trigger_state, x.policies
    FROM x JOIN made ON made.key = x.key
  RETURNING key)"""


# Nothing is told of each, if all are new.
def _inserted(*, notifies: bool) -> str:
    """What the statement answers, and whether other processes hear of it."""
    return f"""
SELECT now() AS now,
       CASE WHEN (SELECT count(*) FROM made) < (SELECT count(*) FROM x)
       THEN ARRAY(SELECT id FROM made) END AS ids,
       {hinted(notifies, News.DEFINITIONS, made="made", at="next_fire_time")}
"""


_STARTED = f""",
started AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, fire_time,
          execute_at, due_at, created_at, claimed_by, attempt, runs, started_at,
          expires_at)
  SELECT CAST(:instance_id AS uuid), d.key, CAST(:instance_shard AS bigint), d.queue,
         d.priority, d.expire_after, d.waits, f.at, f.at, f.at, now(),
         CAST(:node AS uuid), 1, 1, greatest(now(), f.at),
         greatest(now(), f.at)
             + {LONGEST_LEASE}
    FROM x AS d JOIN made ON made.key = d.key
         CROSS JOIN (SELECT CAST(:fire_time AS timestamptz) AS at) AS f
  RETURNING definition_key, started_at, expires_at)
SELECT now() AS now, started.started_at, started.expires_at
  FROM made JOIN started ON started.definition_key = made.key
"""

_COLUMNS = ", ".join(DEFINITION_COLUMNS)
_UNION = "\n        UNION ALL "
_AFTER = """
     AND (next_fire_time, id)
         > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid))"""


def _due(shards: int, after: str = "") -> str:
    """A page of what is due, in time or late, of every shard."""
    in_time = [
        f"""
in_time{shard} AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_due_idx
   WHERE shard = {shard} AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= now() - CAST(:back AS interval)
     AND next_fire_time <= now() + CAST(:ahead AS interval){after}
   ORDER BY next_fire_time, id LIMIT :limit),"""
        for shard in range(shards)
    ]
    every = [f"SELECT * FROM in_time{shard}" for shard in range(shards)]
    return f"""
WITH{"".join(in_time)}
late AS MATERIALIZED (
  SELECT {_COLUMNS}
    FROM task_definitions@task_definitions_late_idx
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= now() + CAST(:ahead AS interval){after}
   ORDER BY next_fire_time, id LIMIT :limit)
SELECT {_COLUMNS}, now() AS now
  FROM ({_UNION.join([*every, "SELECT * FROM late"])}) AS due
 ORDER BY next_fire_time, id LIMIT :limit
"""


# For a batch in which some wait for the end of a run. In any other a server would be
# free to look at more instances than it has to, and to wait for those that are locked.
# By OFFSET 0 it is a look-up: PostgreSQL could read all that is open to join it.
_NOTHING_OPEN = """
     AND NOT EXISTS (
           SELECT 1 FROM task_instances@task_instances_open_idx AS o
            WHERE o.definition_key = d.key AND d.waits AND o.waits
              AND o.completed_at IS NULL AND o.outcome IS NULL OFFSET 0)"""


_FIRED = exclusion("d")
_AT = "f.fire_time + f.later"


class _Start(NamedTuple):
    """What makes a fire start what it makes, each part where it belongs."""

    columns: str = ""
    claimable: str = f"CASE WHEN f.reason IS NULL THEN greatest({_AT}, now()) END"
    values: str = ""
    answer: str = "SELECT id FROM moved"
    answers: tuple[str, ...] = ("id",)


_NO_START = _Start()
_START = _Start(
    columns=""",
          claimed_by, attempt, runs, started_at, expires_at""",
    claimable="NULL",
    values=f""",
         CAST(:node AS uuid), 1, 1, greatest(now(), {_AT}),
         greatest(now(), {_AT})
             + {LONGEST_LEASE}""",
    answer="""SELECT moved.id, made.id AS made_id, made.started_at, made.expires_at,
       now() AS now
  FROM moved LEFT JOIN made ON made.definition_key = moved.key""",
    answers=("id", "made_id", "started_at", "expires_at", "now"),
)


# The number of ids is hidden from PostgreSQL by a subquery: for many it would read the
# whole index, if no statistics say how large that is.
def _moved(nothing_open: str) -> str:
    """Moves definitions on that are as they were read."""
    return f"""
WITH moved AS (
  UPDATE task_definitions@task_definitions_id_key AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= now() - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN now()
                        END
    FROM unnest((SELECT CAST(:ids AS uuid[])),
                (SELECT CAST(:expected AS timestamptz[])),
                (SELECT CAST(:revisions AS bigint[])),
                (SELECT CAST(:next_times AS timestamptz[])))
         AS x (id, expected, revision, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected
     AND d.revision = x.revision{nothing_open}
  RETURNING d.key, d.id, d.queue, d.priority, d.expire_after, d.waits, d.slot,
            d.overlap),"""


def _fire(nothing_open: str = "", start: _Start = _NO_START) -> Statement:
    """Moves definitions on, and makes their instances."""
    sql = f"""{_moved(nothing_open)}
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, waits, slot,
          overlap, fire_time, execute_at, due_at, claimable_at, outcome, completed_at,
          skipped_first, skipped_last, skipped_count, skipped_reason, created_at{
        start.columns
    })
  SELECT f.id, d.key, f.shard, d.queue, d.priority, d.expire_after, d.waits,
         {_FIRED.slot},
         {_FIRED.overlap},
         CASE WHEN f.reason IS NULL THEN f.fire_time END, {_AT},
         {_AT},
         {start.claimable},
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN now() END,
         CASE WHEN f.reason IS NOT NULL THEN f.fire_time END, f.last, f.count, f.reason,
         now(){start.values}
    FROM unnest(CAST(:instance_ids AS uuid[]), CAST(:definition_ids AS uuid[]),
                CAST(:shards AS bigint[]), CAST(:fire_times AS timestamptz[]),
                CAST(:later AS interval[]), CAST(:lasts AS timestamptz[]),
                CAST(:counts AS bigint[]), CAST(:reasons AS text[]))
         AS f (id, definition_id, shard, fire_time, later, last, count, reason)
    JOIN moved AS d ON d.id = f.definition_id
  ON CONFLICT (definition_key, fire_time) DO NOTHING
  RETURNING id, definition_key, started_at, expires_at)
{start.answer}
"""
    return Statement(sql, start.answers)


# On CockroachDB it is the row that is locked, and not an index's copy of it: the
# revision makes it read the row.
_FIRE_FREE = """
SELECT id, revision FROM task_definitions@task_definitions_id_key
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[])))) AND deleted_at IS NULL
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
_FIRE_CURRENT = """
SELECT d.id
  FROM unnest((SELECT CAST(:ids AS uuid[])),
              (SELECT CAST(:expected AS timestamptz[])),
              (SELECT CAST(:revisions AS bigint[]))) AS x (id, expected, revision)
  JOIN task_definitions@task_definitions_id_key AS d
    ON d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
"""


def definition_statements(shards: int, *, notifies: bool) -> Mapping[str, Statement]:
    """By name; ``_free`` and ``_current`` are for the rows of a batch past locks."""
    columns = (*DEFINITION_COLUMNS, "now")
    return {
        "insert_new": Statement(
            _INSERT_NEW + _inserted(notifies=notifies), ("now", "ids", "hinted")
        ),
        "insert_and_start": Statement(
            _INSERT_NEW + _STARTED, ("now", "started_at", "expires_at")
        ),
        "due": Statement(_due(shards), columns),
        "due_after": Statement(_due(shards, _AFTER), columns),
        "fire": _fire(),
        "fire_waiting": _fire(_NOTHING_OPEN),
        "fire_and_start": _fire(start=_START),
        "fire_free": Statement(_FIRE_FREE, ("id", "revision")),
        "fire_current": Statement(_FIRE_CURRENT, ("id",)),
    }


_ADDED_COLUMNS = ", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)
_ADDED_AND_STARTED = ("claimed_by", "attempt", "runs", "started_at", "expires_at")


class _AddStart(NamedTuple):
    """What makes the statement start what it adds, each part where it belongs."""

    definition: str = ""
    columns: str = ""
    unless: str = ""
    values: str = ""
    join: str = ""
    answer: str = ""
    answers: tuple[str, ...] = ()


_IS_STARTED = "mine.starts AND x.at <= now()"
_ADD_START = _AddStart(
    definition="""
mine AS MATERIALIZED (
  SELECT NOT d.paused AND d.slot IS NULL AND d.queue = ANY(CAST(:queues AS text[]))
         AND (CAST(:names AS text[]) IS NULL
              OR EXISTS (SELECT 1 FROM task_contents@task_contents_pkey AS c
                          WHERE c.key = d.key
                            AND c.name = ANY(CAST(:names AS text[])))) AS starts
    FROM d),""",
    columns=f""",
          {", ".join(_ADDED_AND_STARTED)}""",
    unless=f" AND NOT ({_IS_STARTED})",
    values=f""",
         CASE WHEN {_IS_STARTED} THEN CAST(:node AS uuid) END,
         CASE WHEN {_IS_STARTED} THEN 1 ELSE 0 END,
         CASE WHEN {_IS_STARTED} THEN 1 ELSE 0 END,
         CASE WHEN {_IS_STARTED} THEN now() END,
         CASE WHEN {_IS_STARTED} THEN now()
             + {LONGEST_LEASE} END""",
    join=" CROSS JOIN mine",
    answer=f""",
       mine.starts,
       now()
           + {LONGEST_LEASE} AS expires_at""",
    answers=("starts", "expires_at"),
)


# Whoever edits, pauses or deletes the definition waits for the end of this, and then
# finds what was added; no fire and no other addition does. What is there already is a
# look-up, by OFFSET 0 as in _NOTHING_OPEN. Nothing is told of each, if all are made.
def _add(start: _AddStart, *, notifies: bool) -> Statement:
    sql = f"""
WITH d AS MATERIALIZED (
  SELECT * FROM task_definitions@task_definitions_id_key
   WHERE id = CAST(:definition_id AS uuid) AND deleted_at IS NULL FOR KEY SHARE),{
        start.definition
    }
x AS MATERIALIZED (
  SELECT id, shard, key, payload, trace_context,
         coalesce(at, now() + delay * interval '1 microsecond') AS at
    FROM unnest(
         CAST(:ids AS uuid[]), CAST(:shards AS bigint[]), CAST(:keys AS text[]),
         CAST(:payloads AS text[]), CAST(:times AS timestamptz[]),
         CAST(:delays AS bigint[]), CAST(:trace_contexts AS text[]))
         AS x (id, shard, key, payload, at, delay, trace_context)),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, key, execute_at, due_at, claimable_at, payload,
          trace_context, created_at{start.columns})
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after, d.slot, d.overlap,
         d.paused, x.key, x.at, x.at,
         CASE WHEN NOT d.paused{start.unless} THEN greatest(x.at, now()) END, x.payload,
         x.trace_context, now(){start.values}
    FROM d CROSS JOIN x{start.join}
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = x.id OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_key_key AS i
                      WHERE i.definition_key = d.key AND i.key = x.key
                        AND i.key IS NOT NULL OFFSET 0)
  RETURNING id, claimable_at)
SELECT {_ADDED_COLUMNS}, now() AS now,
       CASE WHEN (SELECT count(*) FROM made) < (SELECT count(*) FROM x)
       THEN ARRAY(SELECT id FROM made) END AS ids,
       {hinted(notifies, News.INSTANCES, made="made", at="claimable_at")}{start.answer}
  FROM d{start.join}
"""
    columns = (*DEFINITION_COLUMNS, "now", "ids", "hinted", *start.answers)
    return Statement(sql, columns)


def addition_statements(*, notifies: bool) -> Mapping[str, Statement]:
    """By name."""
    return {
        "add": _add(_AddStart(), notifies=notifies),
        "add_and_start": _add(_ADD_START, notifies=notifies),
    }


def heads(queues: int, shards: int, known: Sequence[int], *, looks: bool) -> Statement:
    """A guess at where there is anything to claim, when there is more than one place.

    On CockroachDB a plain read of what a claim would take settles it: the claim finds
    it. Places are numbered: by queue, then by class, then by shard.

    Args:
        queues: In so many queues, ``:queue0`` the first.
        shards: Over how many parts of the index instances are spread.
        known: The classes.
        looks: Whether to look for other classes as well; of one in which anything
            waits the number is below zero.
    """
    places = list(product(range(queues), known, range(shards)))
    found = [
        f"""
head{place} AS MATERIALIZED (
  SELECT {place} AS head, claimable_at
    FROM task_instances@task_instances_claimable_idx
   WHERE queue = CAST(:queue{queue} AS text) AND priority = {priority}
     AND shard = {shard} AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back{place} AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT :limit)"""
        for place, (queue, priority, shard) in enumerate(places)
    ]
    every = [f"SELECT head FROM head{place}" for place in range(len(places))]
    if looks:
        every += [
            _unknown(f"{-1 - priority} AS head", f":queue{queue}", priority)
            for queue in range(queues)
            for priority in PRIORITIES
            if priority not in known
        ]
    sql = f"""
WITH{",".join(found)}
SELECT DISTINCT head FROM ({_UNION.join(every)}) AS heads
"""
    return Statement(sql, ("head",))


def _unknown(columns: str, queue: str, priority: int) -> str:
    """A row if anything waits in a class of a queue."""
    return f"""(
          SELECT {columns} FROM task_instances@task_instances_claimable_idx
           WHERE queue = CAST({queue} AS text) AND priority = {priority}
             AND claimable_at IS NOT NULL
             AND claimable_at >= now() - CAST(:look_back AS interval) LIMIT 1)"""


# A row that was written by other means than this package may be out of all bounds: no
# claim could take it, and it is to fill no batch.
_SOUND = """
     AND attempt < 9000000000000000000 AND runs < 9000000000000000000
     AND due_at < now() + interval '36525 days'"""
_FREE = """
     AND claimed_by IS NULL AND completed_at IS NULL AND NOT frozen"""
# What has to have a slot is left to the start.
_STARTS = "t.due_at <= now() + CAST(:lead AS interval) AND t.slot IS NULL"
_MARKED = f"""
     SET claimed_by = CAST(:node AS uuid), attempt = t.attempt + 1, claimable_at = NULL,
         given_back = NULL,
         runs = t.runs + CASE WHEN {_STARTS}
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN {_STARTS}
                      THEN greatest(now(), t.due_at) END,
         expires_at = greatest(now(), t.due_at)
             + CASE WHEN {_STARTS}
               THEN least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
                            THEN t.expire_after END * interval '1 microsecond',
                            CAST(:expire_after AS interval)))
               ELSE CAST(:lease AS interval) END"""

LOST = ("ran_by", "began", "taken_at", "due_by")
"""What is known of a run that is lost to whoever takes it over."""

# Of what has started and never fires again, nobody is likely to need them once more.
_WITH_CONTENTS = """
         LEFT JOIN task_contents@task_contents_pkey AS c
                   ON c.key = CASE WHEN d.completed_at IS NOT NULL
                                    AND t.started_at IS NOT NULL THEN d.key END"""


def _claim(only: str = "", apart: str = "", looked: str = "") -> Statement:
    """Claims what nobody has claimed in one place, the earliest first."""
    sql = f"""
WITH due AS MATERIALIZED (
  SELECT id, claimable_at AS place FROM task_instances@task_instances_claimable_idx
   WHERE queue = CAST(:queue AS text) AND priority = CAST(:priority AS bigint)
     AND shard = CAST(:shard AS bigint) AND claimable_at IS NOT NULL
     AND claimable_at >= now() - CAST(:back AS interval)
     AND claimable_at <= now() + CAST(:ahead AS interval){only}
   ORDER BY claimable_at, due_at LIMIT :limit FOR UPDATE SKIP LOCKED),
t AS (
  UPDATE task_instances@task_instances_pkey AS t{_MARKED}
    FROM due
   WHERE t.id = due.id{_SOUND}{_FREE}
  RETURNING {INSTANCE}, due.place)
SELECT {INSTANCE},
       {DEFINITION},
       {CONTENTS},
       t.place, now() AS now
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{apart}{_WITH_CONTENTS}{looked}
"""
    return Statement(sql, (*ALL, "place", "now"))


def _looked() -> str:
    """For each class but the normal one: a row without an id, if anything waits there.

    The class stands where rows have their attempt, to add no column to every claim.
    """
    return "".join(
        f"\n        UNION ALL {_unknown(_as_attempt(each), ':queue', each)}"
        for each in PRIORITIES
        if each != NORMAL
    )


def _as_attempt(priority: int) -> str:
    columns = (
        f"CAST({priority} AS bigint)" if name == "attempt" else "NULL"
        for name in (*ALL, "place", "now")
    )
    return fill(", ".join(columns), width=70, subsequent_indent=" " * 17)


def _claim_lapsed(apart: str = "") -> Statement:
    """Claims anew what others had claimed, the longest lapsed first."""
    sql = f"""
WITH due AS MATERIALIZED (
  SELECT id, expires_at AS place, attempt AS lost_as, claimed_by AS lost_by,
         worker AS ran_by, started_at AS began,
         accepted_at AS taken_at, start_by AS due_by,
         CASE WHEN start_by IS NULL
              THEN CASE WHEN accepted_at IS NOT NULL THEN 'started' END
              WHEN accepted_at IS NULL THEN 'published' ELSE 'accepted' END AS lost_in
    FROM task_instances@task_instances_lease_idx
   WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
     AND expires_at >= now() - CAST(:back AS interval)
     AND expires_at <= now() - CAST(:lapsed AS interval)
     AND now() <= CAST(:deadline AS timestamptz)
     AND queue = ANY(CAST(:queues AS text[])){_SOUND}
   ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED),
t AS (
  UPDATE task_instances@task_instances_pkey AS t{_MARKED},
         worker = NULL, accepted_at = NULL, start_by = NULL, progress = NULL
    FROM due
   WHERE t.id = due.id{_SOUND}
     AND t.completed_at IS NULL AND t.expires_at <= now() - CAST(:lapsed AS interval)
  RETURNING {INSTANCE}, due.place, due.ran_by, due.began, due.taken_at, due.due_by),
kept AS (
  INSERT INTO task_runs
         (instance_id, attempt, node, worker, started_at, ended_at, outcome, lost_in)
  SELECT t.id, due.lost_as, due.lost_by, due.ran_by, due.began, now(), 'lost',
         due.lost_in
    FROM t JOIN due ON due.id = t.id
   WHERE due.began IS NOT NULL
  ON CONFLICT DO NOTHING
  RETURNING instance_id)
SELECT {INSTANCE},
       {DEFINITION},
       {CONTENTS},
       t.place, now() AS now, {", ".join(f"t.{name}" for name in LOST)}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key{apart}{_WITH_CONTENTS}
"""
    return Statement(sql, (*ALL, "place", "now", *LOST))


# No index has the node; that of the leases has all claimed instances, and is small.
_LIST_CLAIMED = f"""
WITH t AS MATERIALIZED (
  SELECT {INSTANCE} FROM task_instances@task_instances_lease_idx AS t
   WHERE t.claimed_by = CAST(:node AS uuid) AND t.completed_at IS NULL AND NOT t.frozen
     AND t.handed_on IS DISTINCT FROM t.attempt
     AND t.expires_at IS NOT NULL AND t.id > CAST(:after AS uuid))
SELECT {INSTANCE},
       {DEFINITION}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key
 ORDER BY t.id LIMIT :limit
"""


def claim_statements(shards: int, *, reads_rows: bool) -> Mapping[str, Statement]:
    """By name.

    Args:
        shards: Over how many parts of the index instances are spread.
        reads_rows: Whether a claim reads rows before it chooses, by a condition that no
            index has, so that those that are locked are skipped. Where it does not, it
            has a second form that does, and leaves the definitions apart.
    """
    some = heads(2, shards, [NORMAL], looks=True)
    named = {"heads": some, "list_claimed": Statement(_LIST_CLAIMED, BOTH)}
    if reads_rows:
        return {
            **named,
            "claim": _claim(_SOUND + _FREE),
            "claim_and_look": _claim(_SOUND + _FREE, looked=_looked()),
            "claim_lapsed": _claim_lapsed(),
        }
    return {
        **named,
        "claim": _claim(),
        "claim_past_locks": _claim(_SOUND + _FREE, APART),
        "claim_lapsed": _claim_lapsed(),
        "claim_lapsed_past_locks": _claim_lapsed(APART),
    }


_NOTE_CONTACT = """
INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (CAST(:node AS uuid), now() - CAST(:unbroken AS interval), now(),
        CAST(:queues AS text), CAST(:names AS text), CAST(:host AS text),
        CAST(:pid AS bigint), CAST(:version AS text), CAST(:lease AS bigint),
        CAST(:stopping AS boolean))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping
RETURNING node
"""
_LIST_CONTACTS = """
SELECT node, contact_since, seen_at, queues, names, host, pid, version, lease, stopping
  FROM task_nodes
 WHERE seen_at >= now() - CAST(:within AS interval)
"""
# What was counted goes with it: by itself it would be one way more to the server.
_DELETE_CONTACTS = """
WITH old AS MATERIALIZED (
  SELECT every, begins_at, queue, node FROM task_stats@task_stats_pkey
   WHERE every = 60000000 AND begins_at < now() - CAST(:stats_kept AS interval)
   ORDER BY every, begins_at, queue, node LIMIT 5000 FOR UPDATE SKIP LOCKED),
counted AS (
  DELETE FROM task_stats@task_stats_pkey AS s USING old
   WHERE s.every = old.every AND s.begins_at = old.begins_at AND s.queue = old.queue
     AND s.node = old.node
  RETURNING s.every)
DELETE FROM task_nodes WHERE seen_at < now() - CAST(:kept AS interval) RETURNING node
"""


# No index has ``attempt``: rows are read before they are chosen, and those that are
# locked are skipped then.
def _delete_instances(index: str, equal: str) -> Statement:
    """Deletes instances that ended long ago, those that failed or all others."""
    sql = f"""
WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt,
         error IS NOT NULL OR outcome <> 'completed' AS failed
    FROM task_instances@{index}
   WHERE completed_at IS NOT NULL AND outcome {equal} 'failed'
     AND completed_at >= now() - CAST(:back AS interval)
     AND completed_at <= now() - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT :limit FOR UPDATE SKIP LOCKED),
runs AS (
  DELETE FROM task_runs@task_runs_pkey AS r USING old
   WHERE r.instance_id = old.id AND (old.attempt > 1 OR old.failed)
  RETURNING r.attempt)
DELETE FROM task_instances@task_instances_pkey AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, now() AS now
"""
    return Statement(sql, ("completed_at", "now"))


def _delete_definitions(index: str, since: str) -> Statement:
    """Deletes definitions without instances, and remembers ids of those that ended."""
    sql = f"""
WITH old AS MATERIALIZED (
  SELECT d.key, d.revision FROM task_definitions@{index} AS d
   WHERE d.{since} IS NOT NULL AND d.{since} <= now() - CAST(:older_than AS interval)
     AND NOT EXISTS (SELECT 1 FROM task_instances@task_instances_fire_key AS i
                      WHERE i.definition_key = d.key)
   ORDER BY d.{since} LIMIT :limit FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM task_definitions@task_definitions_pkey AS d USING old
   WHERE d.key = old.key AND d.{since} <= now() - CAST(:older_than AS interval)
  RETURNING d.key, d.id, d.revision, d.completed_at, d.named),
emptied AS (
  DELETE FROM task_contents@task_contents_pkey AS c USING gone WHERE c.key = gone.key
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
SELECT key FROM gone
"""
    return Statement(sql, ("key",))


CLEANUP_STATEMENTS: Mapping[str, Statement] = {
    "note_contact": Statement(_NOTE_CONTACT, ("node",)),
    "list_contacts": Statement(_LIST_CONTACTS, CONTACT_COLUMNS),
    "delete_contacts": Statement(_DELETE_CONTACTS, ("node",)),
    "delete_ended": _delete_instances("task_instances_ended_idx", "<>"),
    "delete_failed": _delete_instances("task_instances_failed_idx", "="),
    "delete_completed": _delete_definitions(
        "task_definitions_completed_idx", "completed_at"
    ),
    "delete_deleted": _delete_definitions("task_definitions_deleted_idx", "deleted_at"),
}
"""By name."""


_INDEX = re.compile(r"@(\w+)")


def statements_by_name(dialect: PostgreSQLDialect) -> Mapping[str, Statement]:
    """Every statement of the loops on a kind of server."""
    named = {
        **definition_statements(dialect.shards, notifies=dialect.notifies),
        **claim_statements(dialect.shards, reads_rows=dialect.reads_rows),
        **addition_statements(notifies=dialect.notifies),
        **RUN_STATEMENTS,
        **CLEANUP_STATEMENTS,
    }
    return {name: in_words_of(dialect, each) for name, each in named.items()}


def in_words_of(dialect: PostgreSQLDialect, statement: Statement) -> Statement:
    """A statement with the hints that a kind of server takes."""
    sql = _INDEX.sub(lambda found: dialect.by_index(found[1]), statement.sql)
    return statement._replace(sql=sql.strip())
