"""How runs end, are renewed, reopened and reviewed in a ``MemoryStore``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.json import read_frozen
from go_scheduler.models import RUNS, Cancelled, Outcome, Skipped, Stage
from go_scheduler.models.instance import step_of
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.rules import REPLACED, fate_of, run_end

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.tables import InstanceTable, StoredInstance, Tables
    from go_scheduler.stores.messages import Release, Renewal, RunOutcome

_COMPLETED = Outcome.COMPLETED


def finish(outcome: RunOutcome, tables: Tables, now: datetime) -> bool:
    """Record what became of a run, as ``Store.finish_instances``, if it may count."""
    instances = tables.instances
    current = row = instances.current(outcome.claim)
    if row is None and outcome.outcome is _COMPLETED:
        row = instances.unsuccessful(outcome.claim)
    if row is None:
        return False
    if outcome.error is not None and outcome.outcome is Outcome.SKIPPED:
        row.skipped = Skipped.itself(row.fire_time or row.execute_at, outcome.error)
    elif outcome.error is not None:
        row.error = outcome.error
    if outcome.is_kept:
        row.started_at = outcome.started_at
        row.keep_run(run_end(outcome), outcome.error, now)
    if current is not None and outcome.started_at is None:
        row.runs -= row.state in RUNS
    if outcome.hung:
        row.hangs += 1
    elif outcome.outcome is None:
        row.hangs = 0
    if outcome.client is not None:
        row.client = read_frozen(outcome.client)
    if outcome.outcome is None:
        instances.free(row, now + outcome.retry_in)
        return True
    row.started_at = outcome.started_at
    row.ended_attempt = outcome.claim.attempt
    if outcome.result is not None:
        row.result = read_frozen(outcome.result)
    if row.outcome is None:
        instances.end(row, outcome.outcome, now)
        tables.definitions.go_on(row, outcome.next_fire_time, now)
    else:
        instances.end_again(row, outcome.outcome, now)
    return True


def release(given: Release, tables: Tables, now: datetime) -> bool:
    """Give back what was not called, as ``Store.release_instances``."""
    row = tables.instances.current(given.claim)
    if row is None:
        return False
    row.runs -= row.state in RUNS
    if not row.runs:
        tables.instances.slots.free(row)
    due_at = max(row.due_at, now + given.delay)
    tables.instances.free(row, due_at if given.delay else row.due_at)
    row.given_back = given.reason
    return True


def cancel(
    id: UUID, next_fire_time: datetime | None, tables: Tables, now: datetime
) -> Cancelled | None:
    """Cancel one that has not ended, as ``Store.cancel_instances``."""
    row = tables.instances.get(id)
    if row is None or row.completed_at is not None:
        return None
    if row.state in RUNS:
        tables.instances.ask_to_stop(row)
        return Cancelled.REQUESTED
    tables.instances.end(row, Outcome.CANCELLED, now)
    tables.definitions.go_on(row, next_fire_time, now)
    return Cancelled.CANCELLED


def renew(renewal: Renewal, instances: InstanceTable, now: datetime) -> bool | None:
    """Renew a claim, as ``Store.renew_claims``.

    Returns:
        Whether its run is asked to stop; None: it is lost.
    """
    row = instances.current(renewal.claim)
    if row is None or _is_others(row, renewal):
        return None
    accepted_before = _accepts_again(row, renewal)
    comes_on = renewal.stage is not None and _comes_to(row, renewal, now)
    if renewal.handed_on:
        row.handed_on = row.attempt
        if comes_on or renewal.stage is None:
            row.worker = renewal.worker or row.worker
    if renewal.progress is not None:
        row.progress = read_frozen(renewal.progress)
    expires_at = now + renewal.lease
    if row.is_handed_on and not comes_on:
        expires_at = max(expires_at, row.expires_at or now)
    if not accepted_before:
        instances.hold_until(row, expires_at)
    return row.cancel_requested


def _is_others(row: StoredInstance, renewal: Renewal) -> bool:
    """Whether a worker claims what another one has accepted."""
    if renewal.stage in (None, Stage.PUBLISHED) or row.accepted_at is None:
        return False
    return None not in (row.worker, renewal.worker) and row.worker != renewal.worker


def _comes_to(row: StoredInstance, renewal: Renewal, now: datetime) -> bool:
    """Record how far it has come; false: it had come further, and stays there."""
    if renewal.step < step_of(row.stage):
        return False
    if renewal.stage is Stage.STARTED:
        if row.stage is not renewal.stage and row.started_at is not None:
            row.started_at = now
        row.start_by = None
    elif not _accepts_again(row, renewal):
        row.start_by = now + renewal.lease
    if renewal.stage is not Stage.PUBLISHED:
        row.accepted_at = row.accepted_at or now
    return True


def _accepts_again(row: StoredInstance, renewal: Renewal) -> bool:
    """Whether it has been accepted before, and not begun: the first one counts."""
    return renewal.stage is Stage.ACCEPTED is row.stage


def reopen(ids: Collection[UUID], tables: Tables, now: datetime) -> Set[UUID]:
    """Make failed instances run again, as ``Store.reopen_instances``."""
    reopened = set()
    for row in sorted(_failed(ids, tables), key=_when, reverse=True):
        if row.of.definition.trigger.waits and row.is_fired:
            # Of such a definition a single instance is open at a time.
            if any(each.is_awaited for each in row.of.rows):
                continue
            tables.definitions.change(row.of, next_fire_time=None, completed_at=None)
        tables.instances.reopen(row, now)
        row.reopened_at = now
        reopened.add(row.id)
    return reopened


def _failed(ids: Collection[UUID], tables: Tables) -> list[StoredInstance]:
    """Those of them that have failed, and whose definition is there."""
    rows = [tables.instances.get(each) for each in set(ids)]
    return [
        row
        for row in rows
        if row is not None
        and row.outcome is Outcome.FAILED
        and row.of.instances is not None
    ]


def _when(row: StoredInstance) -> tuple[datetime, int]:
    return row.execute_at, row.id.int


def review_parked(tables: Tables, now: datetime, limit: int) -> Reviewed:
    """End what its overlap ends, and let go on what can, as ``Store.review_parked``."""
    slots = tables.instances.slots
    skipped: list[TaskInstance] = []
    replaced: list[TaskInstance] = []

    def skip(row: StoredInstance, reason: str) -> None:
        at = row.fire_time or row.execute_at
        row.skipped = Skipped(first=at, last=at, count=1, reason=reason)
        tables.instances.end(row, Outcome.SKIPPED, now)
        skipped.append(row.view())

    undecided = list(islice(_undecided(tables, now), limit))
    for row in undecided:
        assert row.overlap is not None
        holder = slots.holder(row.slot)
        # One that was replaced a moment ago may have left the slot to nobody.
        runs = holder is not None and holder.of is row.of
        waiting = {each.id: each for each in slots.waiting(row)}
        met = runs or _met(row, tables)
        fate = fate_of(row.overlap, runs=met, waiting=list(waiting))
        for each in fate.replaced:
            skip(waiting[each], REPLACED)
        if fate.reason is not None:
            skip(row, fate.reason)
        else:
            slots.accept(row)
        if fate.stops and runs and holder is not None and not holder.cancel_requested:
            _stop(holder, tables, now)
            replaced.append(holder.view())
    turns = slots.next_ones(limit)
    unparked = [row for row in turns if not _is_to_be_judged(row, tables, now)]
    for row in unparked:
        tables.instances.unpark(row)
    return Reviewed(
        unparked=[row.view() for row in unparked],
        skipped=skipped,
        replaced=replaced,
        parked=bool(slots),
        more=limit in (len(turns), len(undecided)),
    )


def _undecided(tables: Tables, now: datetime) -> Iterator[StoredInstance]:
    """Rows due and undecided whose slot is taken, or that have met one of their own."""
    slots = tables.instances.slots
    for row in slots.undecided(now):
        if slots.holder(row.slot) is not None or _met(row, tables):
            yield row


def _is_to_be_judged(row: StoredInstance, tables: Tables, now: datetime) -> bool:
    return row.overlap is not None and row.due_at <= now and _met(row, tables)


def _met(row: StoredInstance, tables: Tables) -> bool:
    """Whether one of its own, which has ended since, had its slot when it was due."""
    former = None if row.behind is None else tables.instances.get(row.behind)
    return (
        former is not None
        and former.of is row.of
        and former.completed_at is not None
        and former.completed_at >= row.due_at
    )


def _stop(holder: StoredInstance, tables: Tables, now: datetime) -> None:
    if holder.of.definition.trigger.waits:
        # Whoever ends it says when its definition fires next.
        tables.instances.ask_to_stop(holder)
    else:
        cancel(holder.id, None, tables, now)
