"""Statements that claim instances: by queue, shard and time, or after a lapse."""

from __future__ import annotations

from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING

from go_scheduler.checks import PRIORITIES
from go_scheduler.stores.postgresql.statements.statement import (
    ALL,
    APART,
    BOTH,
    CONTENTS,
    DEFINITION,
    INSTANCE,
    Statement,
)
from go_scheduler.stores.priorities import NORMAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_UNION = "\n        UNION ALL "


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


def _claim_lapsed(only: str = "", apart: str = "") -> Statement:
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
     AND queue = ANY(CAST(:queues AS text[])){only}
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
            "claim_lapsed": _claim_lapsed(_SOUND),
        }
    return {
        **named,
        "claim": _claim(),
        "claim_past_locks": _claim(_SOUND + _FREE, APART),
        "claim_lapsed": _claim_lapsed(),
        "claim_lapsed_past_locks": _claim_lapsed(_SOUND, APART),
    }
