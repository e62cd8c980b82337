"""What nodes write of the instances that they have claimed: starts, renewals, ends.

Who owns what rests on the conditions of the UPDATEs alone. ``attempt`` names one claim,
so that the owner need not be compared: comparing it would let a planner walk an index
of all that is claimed instead of the primary key.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import StoreError
from go_scheduler.models import RUNS_KEPT, Cancelled, Outcome, TaskInstance
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.sql.database import LATE_AFTER, LATE_WHEN_JOINED, Lane
from go_scheduler.stores.sql.reader import as_parked, readable_claims
from go_scheduler.stores.sql.rows import LATEST
from go_scheduler.stores.sql.statement import (
    DEFINITION,
    INSTANCE,
    SQLPart,
    Statement,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )
    from go_scheduler.stores.sql.statement import Terms

_OWNED = """t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL"""


def lease_of(row: str) -> str:
    """How long a claim holds of what is started, by the columns of a row."""
    return f"""least(CAST(:lease AS interval),
                          coalesce(
                            CASE WHEN {row}.expire_after BETWEEN 0 AND 3155760000000000
                            THEN CAST({row}.expire_after AS bigint)
                            END * interval '1 microsecond',
                            CAST(:expire_after AS interval)))"""


# Rows of a batch that can be written though somebody else has locked the others, and
# those that are still as they were.
_CLAIMED_FREE = Statement("""
SELECT id FROM task_instances@task_instances_pkey
 WHERE id IN (SELECT x.id FROM batch AS x (id uuid))
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_CLAIMED_CURRENT = Statement(f"""
SELECT t.id
  FROM batch AS x (id uuid, attempt bigint)
  JOIN task_instances@task_instances_pkey AS t ON {_OWNED}
""")


def _write(sql: str, *, apart: bool = False) -> Write:
    """Changes instances whose claims are current."""
    statement = Statement(sql)
    return Write(statement, free=_CLAIMED_FREE, current=_CLAIMED_CURRENT, apart=apart)


_OF_DEFINITION = f"""
SELECT {INSTANCE},
       {DEFINITION}
  FROM t LEFT JOIN task_definitions@task_definitions_pkey AS d
                   ON d.key = t.definition_key
"""
# What has to have a slot, and has not started, comes back as it is.
_START = _write(
    f"""
WITH t AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET runs = t.runs + CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                         THEN 1 ELSE 0 END,
         started_at = CASE WHEN t.started_at IS NULL AND t.slot IS NULL
                      THEN greatest(now(), t.due_at) ELSE t.started_at END,
         expires_at = CASE WHEN t.started_at IS NOT NULL OR t.slot IS NOT NULL
             THEN t.expires_at
             ELSE greatest(now(), t.due_at)
                  + {lease_of("t")} END
    FROM batch AS x (id uuid, attempt bigint)
   WHERE {_OWNED}
  RETURNING {INSTANCE}){_OF_DEFINITION}""",
    apart=True,
)


# A fire time that cannot be read is not to come.
COMING = "t.fire_time > now() AND t.fire_time <= CAST(:latest AS timestamptz)"

_ELSEWHERE = "worker", "accepted_at", "start_by", "progress"
NOT_ELSEWHERE = ", ".join(f"{name} = NULL" for name in _ELSEWHERE)
"""Nobody outside of nodes has it any more."""


def kept_if(condition: str) -> str:
    """Keeps who has it outside of nodes, and how far that has come, only then."""
    return ",\n         ".join(
        f"{name} = CASE WHEN {condition} THEN t.{name} END" for name in _ELSEWHERE
    )


# Gives those their slots that come first, and parks the others.
#
# The rows that are locked stay as they are, and the slots that somebody has are not so
# much as tried: a wait for a slot is one for another statement of this kind, and as all
# take them in one order, none is for another in a circle. Who loses that has to know of
# the other one, which its snapshot need not show: an update reads the row as it is.
_START_IN_SLOTS = _write(
    f"""
WITH mine AS MATERIALIZED (
  SELECT t.id, t.slot, t.priority, t.due_at, t.execute_at
    FROM batch AS x (id uuid, attempt bigint)
    JOIN task_instances@task_instances_pkey AS t
      ON {_OWNED}
     AND t.started_at IS NULL AND t.slot IS NOT NULL
   ORDER BY t.id FOR NO KEY UPDATE OF t),
taken AS MATERIALIZED (
  SELECT s.name, s.instance_id FROM task_slots@task_slots_pkey AS s
   WHERE s.name IN (SELECT slot FROM mine)),
first AS MATERIALIZED (
  SELECT slot, id, row_number() OVER (
           PARTITION BY slot ORDER BY priority, due_at, execute_at, id) AS turn
    FROM mine
   WHERE slot NOT IN (SELECT name FROM taken)),
made AS (
  INSERT INTO task_slots (name, instance_id)
  SELECT slot, id FROM first WHERE turn = 1 ORDER BY slot
  ON CONFLICT (name, number) DO UPDATE SET name = excluded.name
  RETURNING name, instance_id),
has AS MATERIALIZED (
  SELECT name, instance_id FROM made
  UNION ALL SELECT name, instance_id FROM taken),
t AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET runs = t.runs + CASE WHEN mine.starts THEN 1 ELSE 0 END,
         started_at = CASE WHEN mine.starts THEN greatest(now(), t.due_at) END,
         expires_at = CASE WHEN mine.starts
             THEN greatest(now(), t.due_at)
                  + {lease_of("t")} END,
         claimed_by = CASE WHEN mine.starts THEN t.claimed_by END,
         {kept_if("mine.starts")},
         parked = NOT mine.starts,
         behind = CASE WHEN NOT mine.starts THEN mine.holder END
    FROM (SELECT m.id, has.instance_id AS holder, has.instance_id = m.id AS starts
            FROM mine AS m JOIN has ON has.name = m.slot) AS mine
   WHERE t.id = mine.id
  RETURNING {INSTANCE}){_OF_DEFINITION}""",
    apart=True,
)

# How far it has come, as a number. A stage never goes back.
_STEP = """CASE WHEN t.start_by IS NULL
                         THEN CASE WHEN t.accepted_at IS NULL THEN 0 ELSE 3 END
                         WHEN t.accepted_at IS NULL THEN 1 ELSE 2 END"""
# Only the first acceptance counts.
_ACCEPTED_BEFORE = f"x.step = 2 AND {_STEP} = 2"
_RENEW = _write(f"""
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
  FROM batch AS x (id uuid, attempt bigint, lease duration, handed_on boolean,
                   worker text, step bigint, progress text)
 WHERE {_OWNED}
   AND (x.step < 2 OR t.accepted_at IS NULL OR coalesce(x.worker = t.worker, true))
RETURNING t.id, t.cancel_requested
""")


def _freed(condition: str, rows: str = "ended") -> str:
    """Lets those go of their slots of which a former part says so."""
    return f"""
freed AS (
  DELETE FROM task_slots@task_slots_pkey AS s USING {rows} AS e
   WHERE e.slot IS NOT NULL AND {condition} AND s.name = e.slot
     AND s.instance_id = e.id
  RETURNING s.name)"""


_RELEASE = _write(f"""
WITH released AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET claimed_by = NULL, expires_at = NULL, started_at = NULL,
         {NOT_ELSEWHERE}, given_back = x.reason,
         runs = t.runs - CASE WHEN t.started_at IS NOT NULL THEN 1 ELSE 0 END,
         due_at = CASE WHEN x.delay > 0
                  THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond')
                  ELSE t.due_at END,
         claimable_at = CASE WHEN NOT t.frozen
             THEN greatest(t.due_at, now() + x.delay * interval '1 microsecond') END
    FROM batch AS x (id uuid, attempt bigint, delay duration, reason text)
   WHERE {_OWNED}
  RETURNING t.id, t.slot, t.runs),{_freed("e.runs = 0", "released")}
SELECT id FROM released
""")

# The first success wins, of whichever attempt.
_MAY_FINISH = """t.id = x.id
     AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
          OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
             AND (t.completed_at IS NULL OR t.outcome = 'failed'))"""


def _gone_on(condition: str = "") -> str:
    """Moves the definitions on that waited for what has ended.

    One that has completed stays as it is. It is written all the same: at this moment
    its instance may be made to run again, and then it has not completed.
    """
    next_at = "CASE WHEN d.completed_at IS NULL THEN e.next_at END"
    at = f"coalesce(d.next_fire_time, {next_at})"
    return f"""
gone_on AS (
  UPDATE task_definitions@task_definitions_pkey AS d
     SET next_fire_time = {at},
         late = coalesce({at} <= now() - CAST(:late AS interval),
                         false),
         completed_at = CASE WHEN {at} IS NULL
                        THEN coalesce(d.completed_at, now()) END
    FROM ended AS e
   WHERE e.waits{condition} AND d.key = e.definition_key AND d.waits
     AND d.deleted_at IS NULL
  RETURNING d.key)"""


# Whose claim it was is gone from the row when it is pending again. It is locked first,
# so that both parts see what a renewal has written at this moment.
_PRIOR = """prior AS MATERIALIZED (
  SELECT i.id, i.claimed_by, i.worker FROM task_instances@task_instances_pkey AS i
   WHERE i.id IN (SELECT x.id FROM batch AS x (id uuid))
   ORDER BY i.id FOR NO KEY UPDATE),
"""
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
# A definition that waits for the end of an instance is written with it.
_FINISH_FREE = Statement("""
WITH t AS MATERIALIZED (
  SELECT id, definition_key,
         waits AND id IN (SELECT x.id FROM batch AS x (id uuid, outcome text)
                           WHERE x.outcome IS NOT NULL) AS goes_on
    FROM task_instances@task_instances_pkey
   WHERE id IN (SELECT x.id FROM batch AS x (id uuid))
   ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
d AS MATERIALIZED (
  SELECT key FROM task_definitions@task_definitions_pkey
   WHERE key IN (SELECT definition_key FROM t WHERE goes_on)
   ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
SELECT id FROM t WHERE NOT goes_on OR definition_key IN (SELECT key FROM d)
""")
_FINISH_CURRENT = Statement(f"""
SELECT t.id
  FROM batch AS x (id uuid, attempt bigint, outcome text)
  JOIN task_instances@task_instances_pkey AS t ON {_MAY_FINISH}
""")


# An instance that had failed has moved its definition on, and waits for nothing any
# more: RETURNING has the new values only.
def _finish(*, in_full: bool = False, results: bool = False) -> Write:
    """Records what became of runs.

    Args:
        in_full: Whether slots are let go of, and the ends are kept of those that did
            not succeed. What all have succeeded without a slot pays nothing for it.
        results: Whether any has a result, or what its client says.
    """
    in_any_case = "id uuid, attempt bigint, outcome text, started_at timestamptz"
    if in_full:
        batch = f"""{in_any_case},
                     next_at timestamptz, retry_in duration, hung boolean, error text"""
        sets = f"""
         hangs = CASE WHEN x.hung THEN t.hangs + 1
                      WHEN x.outcome IS NOT NULL THEN t.hangs ELSE 0 END,
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
         {kept_if("x.outcome IS NOT NULL")},
         claimable_at = CASE WHEN x.outcome IS NULL AND NOT t.frozen
                        THEN now() + x.retry_in * interval '1 microsecond' END"""
        returns = """, t.slot, x.attempt AS ran_as, x.started_at AS began,
            x.outcome AS ended_by, x.hung, x.error AS raised"""
        locked = "\n     AND t.id IN (SELECT prior.id FROM prior)"
        has_ended = "e.ended_by IS NOT NULL"
        parts = f"{_freed(has_ended)},{_gone_on(f' AND {has_ended}')}{_KEPT}"
    else:
        batch = f"{in_any_case}, next_at timestamptz"
        sets = "\n         skipped_reason = NULL, claimable_at = NULL"
        returns, locked, parts = "", "", _gone_on()
    if results:
        batch += ", result text, client text"
        sets += """,
         result = coalesce(x.result, t.result),
         client = coalesce(x.client, t.client)"""
    sql = f"""
WITH {_PRIOR if in_full else ""}ended AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET outcome = x.outcome,
         ended_attempt = CASE WHEN x.outcome IS NOT NULL THEN x.attempt END,
         waits = t.waits AND t.completed_at IS NULL,
         completed_at = CASE WHEN x.outcome IS NOT NULL THEN now() END,
         started_at = CASE WHEN x.outcome IS NOT NULL THEN x.started_at END,{sets}
    FROM batch AS x ({batch})
   WHERE {_MAY_FINISH}{locked}
  RETURNING t.id, t.definition_key, t.waits, x.next_at{returns}),{parts}
SELECT id FROM ended
"""
    return Write(Statement(sql), free=_FINISH_FREE, current=_FINISH_CURRENT)


_FINISH = _finish()
_FINISH_WITH_RESULTS = _finish(results=True)
_FINISH_IN_FULL = _finish(in_full=True, results=True)

# Deletes what has succeeded and need not be kept. What stays is finished as above: on
# CockroachDB no statement changes a table twice. By one whose fire time is to come a
# pause or an edit knows that it has begun. The columns ``follow_up`` and
# ``keeps_result`` are not written yet.
_DELETE_SUCCESSES = Write(
    Statement(f"""
WITH ended AS (
  DELETE FROM task_instances@task_instances_pkey AS t
   USING batch AS x (id uuid, attempt bigint, outcome text, next_at timestamptz)
   WHERE {_OWNED} AND t.attempt = 1
     AND t.error IS NULL AND t.key IS NULL AND t.slot IS NULL
     AND ({COMING}) IS NOT TRUE
     AND t.follow_up IS NULL AND t.keeps_result IS NOT TRUE
  RETURNING t.id, t.definition_key, t.waits, x.next_at),{_gone_on()}
SELECT id FROM ended
"""),
    free=_FINISH_FREE,
    current=_FINISH_CURRENT,
)

# What is kept of an instance is the last runs only.
_TRIM_RUNS = Statement("""
WITH old AS MATERIALIZED (
  SELECT instance_id, attempt
    FROM (SELECT instance_id, attempt, row_number() OVER (
                   PARTITION BY instance_id ORDER BY attempt DESC) AS n
            FROM task_runs@task_runs_pkey
           WHERE instance_id IN (SELECT unnest(CAST(:ids AS uuid[])))) AS numbered
   WHERE n > CAST(:kept AS bigint))
DELETE FROM task_runs@task_runs_pkey AS r USING old AS old
 WHERE r.instance_id = old.instance_id AND r.attempt = old.attempt
RETURNING r.instance_id
""")

# In a transaction of the user's a lock of its own comes first. A row may have been
# renewed since that began, and CockroachDB would have the whole of it repeated if a
# statement read the row before it locks it.
_LOCK_INSTANCES = Statement("""
SELECT id FROM task_instances@task_instances_pkey
 WHERE id IN (SELECT x.id FROM batch AS x (id uuid))
 ORDER BY id FOR NO KEY UPDATE
""")
_CANCEL = Statement(f"""
WITH ended AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
         outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
         completed_at = CASE WHEN t.started_at IS NULL THEN now() END,
         parked = false, claimable_at = NULL
    FROM batch AS x (id uuid, next_at timestamptz)
   WHERE t.id = x.id AND t.completed_at IS NULL
  RETURNING t.id, t.definition_key, t.waits, t.slot, t.outcome, x.next_at),{
    _freed("e.outcome IS NOT NULL")
},{_gone_on(" AND e.outcome IS NOT NULL")}
SELECT id, outcome FROM ended
""")


def start_terms(claimant: Claimant) -> Terms:
    """What a statement has to know of a node to start what it runs."""
    return {
        "node": claimant.node,
        "lease": claimant.lease,
        "expire_after": claimant.expire_after,
    }


def started_at_once(
    id: UUID,
    definition: TaskDefinition,
    times: tuple[datetime, datetime],
    claimant: Claimant,
    row: Any,
) -> TaskInstance:
    """An instance that was started by the statement that made it.

    Args:
        id: Its id.
        definition: Its definition as it is now.
        times: Its fire time, and when it is to run.
        claimant: Who has it.
        row: What the statement says: ``now``, ``started_at``, ``expires_at``.
    """
    fire_time, execute_at = times
    return TaskInstance(
        id=id,
        definition=definition,
        fire_time=fire_time,
        execute_at=execute_at,
        due_at=execute_at,
        attempt=1,
        runs=1,
        claimed_by=claimant.node,
        started_at=row.started_at,
        expires_at=row.expires_at,
        created_at=row.now,
    )


class SQLRuns(SQLPart):
    """Starts, renews, ends, gives back and cancels, each batch in one step."""

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        if not claims:
            return Answer(done=[])
        terms = start_terms(claimant)

        def start(
            write: Write, some: Sequence[Claim]
        ) -> tuple[Sequence[TaskInstance], Set[UUID]]:
            rows, busy = self._statements.write(
                Lane.BY_KEY, write, [_key(each) for each in some], terms
            )
            lane = self._statements.reading(Lane.BY_KEY)
            return self._reader.claimed(lane, rows), busy

        started, busy = start(_START, claims)
        in_slots = {each.id for each in started if each.started_at is None}
        if in_slots:
            started = [each for each in started if each.id not in in_slots]
            some = [each for each in claims if each.instance_id in in_slots]
            others, busy_too = start(_START_IN_SLOTS, some)
            started += map(as_parked, others)
            busy |= busy_too
        return Answer(done=readable_claims(started), busy=busy)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on.

        A run on a bus is that of the first worker to accept it: for another, it is
        lost.
        """
        if not renewals:
            return Answer(done={})
        batch = [
            (
                *_key(each.claim),
                each.lease,
                each.handed_on,
                each.worker,
                each.step,
                each.progress,
            )
            for each in renewals
        ]
        rows, busy = self._statements.write(Lane.RENEWALS, _RENEW, batch)
        return Answer(done={row.id: row.cancel_requested for row in rows}, busy=busy)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        over = [each for each in outcomes if each.may_delete]
        if not over:
            return self._finish(outcomes)
        rows, busy = self._statements.write(
            Lane.BY_KEY,
            _DELETE_SUCCESSES,
            [_deleted_end(each) for each in over],
            {"late": LATE_AFTER, "latest": LATEST},
            repeatable=False,
        )
        deleted = {row.id for row in rows}
        left = [
            each
            for each in outcomes
            if each.claim.instance_id not in deleted
            and each.claim.instance_id not in busy
        ]
        try:
            kept = self._finish(left)
        except StoreError:
            if not deleted:
                raise
            # What has been deleted has ended: the others are to be written again.
            return Answer(
                done=deleted, busy=busy | {each.claim.instance_id for each in left}
            )
        return Answer(done=deleted | kept.done, busy=busy | kept.busy)

    def _finish(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        if not outcomes:
            return Answer(done=frozenset())
        if not all(map(_is_plain, outcomes)):
            write, values = _FINISH_IN_FULL, _full_end
        elif any(map(_has_result, outcomes)):
            write, values = _FINISH_WITH_RESULTS, _end_with_result
        else:
            write, values = _FINISH, _plain_end
        rows, busy = self._statements.write(
            Lane.BY_KEY,
            write,
            [values(each) for each in outcomes],
            {"late": LATE_AFTER},
            # A finish that was done, and is repeated, answers that claims were lost.
            repeatable=False,
        )
        self._trim_runs(each for each in outcomes if each.is_kept)
        return Answer(done={row.id for row in rows}, busy=busy)

    def _trim_runs(self, kept: Iterable[RunOutcome]) -> None:
        """Keep the last runs only; there are more only after so many attempts."""
        ids = [
            each.claim.instance_id for each in kept if each.claim.attempt > RUNS_KEPT
        ]
        if ids:
            terms = {"ids": sorted(ids), "kept": RUNS_KEPT}
            # What was finished stays so: the next run of it trims what is left, or its
            # cleanup does.
            with suppress(StoreError):
                self._statements.run(Lane.BY_KEY, _TRIM_RUNS, terms)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        if not releases:
            return Answer(done=frozenset())
        batch = [(*_key(each.claim), each.delay, each.reason) for each in releases]
        rows, busy = self._statements.write(Lane.BY_KEY, _RELEASE, batch)
        return Answer(done={row.id for row in rows}, busy=busy)

    def _finish_joined(self, outcome: RunOutcome) -> bool:
        """Record a success within a transaction of the user's."""
        self._lock([outcome.claim.instance_id])
        write, terms = _FINISH_IN_FULL.statement, {"late": LATE_WHEN_JOINED}
        batch = {"x": [_full_end(outcome)]}
        return bool(self._statements.run(Lane.BY_HAND, write, terms, batch))

    def _lock(self, ids: Iterable[UUID]) -> None:
        """Lock instances for a transaction of the user's."""
        batch = {"x": [(each,) for each in ids]}
        self._statements.run(Lane.BY_HAND, _LOCK_INSTANCES, {}, batch)

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started, claimed or not; ask what runs to stop."""
        if not cancellations:
            return {}
        batch = sorted(cancellations.items(), key=lambda each: each[0].int)
        if joined := self._dialect.joined:
            self._lock(cancellations)
        rows = self._statements.run(
            Lane.BY_HAND,
            _CANCEL,
            {"late": LATE_WHEN_JOINED if joined else LATE_AFTER},
            {"x": batch},
            repeatable=False,
        )
        return {
            row.id: Cancelled.REQUESTED if row.outcome is None else Cancelled.CANCELLED
            for row in rows
        }


def _key(claim: Claim) -> tuple[UUID, int]:
    return claim.instance_id, claim.attempt


def _is_plain(run: RunOutcome) -> bool:
    """Whether it succeeded, and there is nothing more to say of it."""
    return (
        run.outcome is Outcome.COMPLETED
        and run.started_at is not None
        and not (run.has_slot or run.hung)
        and run.error is None
    )


def _has_result(run: RunOutcome) -> bool:
    return run.result is not None or run.client is not None


def _plain_end(run: RunOutcome) -> tuple[object, ...]:
    return (*_key(run.claim), run.outcome, run.started_at, run.next_fire_time)


def _deleted_end(run: RunOutcome) -> tuple[object, ...]:
    return (*_key(run.claim), run.outcome, run.next_fire_time)


def _end_with_result(run: RunOutcome) -> tuple[object, ...]:
    return (*_plain_end(run), run.result, run.client)


def _full_end(run: RunOutcome) -> tuple[object, ...]:
    of_failure = (run.retry_in, run.hung, run.error)
    return (*_plain_end(run), *of_failure, run.result, run.client)
