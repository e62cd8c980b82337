"""What a ``MemoryStore`` does with instances: adds, claims, starts, ends."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.json import read_frozen
from go_scheduler.models import Cancelled, Outcome, Skipped, Stage, step_of
from go_scheduler.stores import rules
from go_scheduler.stores.base import ByHandStore, InstanceStore, may_start
from go_scheduler.stores.memory.definitions import start_new
from go_scheduler.stores.memory.tables import StoredInstance, in_turn
from go_scheduler.stores.messages import Answer, Reviewed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.memory.tables import StoredDefinition, Tables
    from go_scheduler.stores.messages import (
        Addition,
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )

_COMPLETED, _FAILED = Outcome.COMPLETED, Outcome.FAILED


class MemoryInstances(ByHandStore, InstanceStore):
    """What a ``MemoryStore`` does with instances, under its lock."""

    _locked: Callable[[], AbstractContextManager[Tables]]

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        with self._locked() as tables:
            of = tables.definitions.get(definition_id.int)
            if of is None:
                raise TaskDefinitionNotFoundError(definition_id)
            beyond = _beyond(of, additions, tables)
            rows, made = [], []
            for each in additions:
                row = _known(of, each, tables)
                if row is None:
                    at = each.execute_at(tables.now)
                    row = tables.make(
                        of,
                        None,
                        at,
                        id=each.id,
                        payload=each.payload,
                        key=each.key,
                        overrides=each.overrides,
                        own_trace_context=each.trace_context,
                    )
                    if each.id in beyond:
                        reason = rules.FULL % of.definition.max_queue
                        row.skipped = Skipped.itself(at, reason)
                        tables.end(row, Outcome.SKIPPED)
                    made.append(row)
                rows.append(row)
            if claimant is not None:
                due = [row for row in made if row.due_at <= tables.now]
                mine = [row for row in due if may_start(row.view(), claimant)]
                start_new(mine, tables, claimant)
            return [row.view() for row in rows]

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        with self._locked() as tables:
            of = tables.definitions.get(definition.id.int)
            if of is None:
                raise TaskDefinitionNotFoundError(definition.id)
            rules.check_is_as_read(definition, of.definition.revision)
            done = []
            for at in fire_times:
                row = of.instances.get(at)
                if row is None:
                    row = tables.make(of, at, at, backfilled=overlap)
                elif row.outcome is Outcome.SKIPPED and row.backfilled is None:
                    tables.leave(row)
                    row.backfilled, row.skipped = overlap, None
                    row.reopen(row.execute_at)
                    row.follow()
                    tables.enter(row)
                else:
                    continue
                row.own_trace_context = definition.trace_context
                done.append(at)
            return done

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        with self._locked() as tables:
            now, queues = tables.now, claimant.queues
            rows: list[StoredInstance] = []
            if lapsed is not None and now <= deadline:
                rows = tables.take_lapsed(queues, now - lapsed, limit)
            silent = {
                row.id: rules.silence_of(
                    row.started_at,
                    accepted_at=row.accepted_at,
                    start_by=row.start_by,
                    worker=row.worker,
                )
                for row in rows
            }
            rows += tables.take_pending(queues, now + ahead, limit - len(rows))
            started_until = now + lead
            for row in rows:
                row.claim(claimant, now)
                if row.due_at <= started_until and row.slot is None:
                    row.start(claimant, now)
                tables.enter(row)
            return rules.with_silences([row.view() for row in rows], silent)

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        with self._locked() as tables:
            rows = [row for each in claims if (row := tables.current(each))]
            for row in sorted(rows, key=in_turn):
                if row.started_at is not None:
                    continue
                tables.leave(row)
                if tables.slots.take(row):
                    row.start(claimant, tables.now)
                else:
                    holder = tables.slots.holder(row.slot)
                    row.behind = None if holder is None else holder.id
                    row.parked = True
                    row.free(row.due_at)
                tables.enter(row)
            return Answer(done=[row.view() for row in rows])

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        owned = {}
        with self._locked() as tables:
            for each in renewals:
                row = tables.current(each.claim)
                if row is not None and not _is_others(row, each):
                    tables.leave(row)
                    _renew(row, each, tables.now)
                    tables.enter(row)
                    owned[row.id] = row.cancel_requested
        return Answer(done=owned)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        with self._locked() as tables:
            recorded = {
                each.claim.instance_id for each in outcomes if _finish(each, tables)
            }
        return Answer(done=recorded)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        released = set()
        with self._locked() as tables:
            for each in releases:
                row = tables.current(each.claim)
                if row is None:
                    continue
                tables.leave(row)
                row.runs -= row.is_running
                if not row.runs:
                    tables.slots.free(row)
                due_at = max(row.due_at, tables.now + each.delay)
                row.free(due_at if each.delay else row.due_at)
                row.given_back = each.reason
                tables.enter(row)
                released.add(row.id)
        return Answer(done=released)

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        found = {}
        with self._locked() as tables:
            for id, next_fire_time in cancellations.items():
                row = tables.instances.get(id.int)
                if row is not None and row.completed_at is None:
                    found[id] = _cancel(row, next_fire_time, tables)
        return found

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed."""
        reopened = set()
        with self._locked() as tables:
            found = [tables.instances.get(each.int) for each in set(ids)]
            failed = [row for row in found if row and row.outcome is _FAILED]
            failed.sort(key=lambda row: (row.execute_at, row.id.int), reverse=True)
            for row in failed:
                of = row.of
                if of.deleted:
                    continue
                if of.definition.trigger.waits and row.is_fired:
                    # Of such a definition a single instance is open at a time.
                    if of.open:
                        continue
                    tables.change(of, next_fire_time=None, completed_at=None)
                tables.reopen(row)
                row.reopened_at = tables.now
                reopened.add(row.id)
        return reopened

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
        with self._locked() as tables:
            slots = tables.slots
            skipped: list[TaskInstance] = []
            replaced: list[TaskInstance] = []
            met = (
                row
                for row in slots.undecided(tables.now)
                if slots.holder(row.slot) is not None or _has_met(row, tables)
            )
            undecided = list(islice(met, limit))
            for row in undecided:
                assert row.overlap is not None
                holder = slots.holder(row.slot)
                # One that was replaced a moment ago may have left the slot to nobody.
                runs = holder is not None and holder.of is row.of
                waiting = {each.id: each for each in slots.waiting(row)}
                fate = rules.fate_of(
                    row.overlap,
                    runs=runs or _has_met(row, tables),
                    waiting=list(waiting),
                )
                ends = [(waiting[each], rules.REPLACED) for each in fate.replaced]
                if fate.reason is not None:
                    ends.append((row, fate.reason))
                else:
                    slots.accept(row)
                for each, reason in ends:
                    each.skipped = Skipped.itself(
                        each.fire_time or each.execute_at, reason
                    )
                    tables.end(each, Outcome.SKIPPED)
                    skipped.append(each.view())
                if fate.stops and runs and holder and not holder.cancel_requested:
                    _stop(holder, tables)
                    replaced.append(holder.view())
            turns = slots.next_ones(limit)
            unparked = [row for row in turns if not _is_to_be_judged(row, tables)]
            for row in unparked:
                tables.leave(row)
                row.parked = False
                tables.enter(row)
            return Reviewed(
                unparked=[row.view() for row in unparked],
                skipped=skipped,
                replaced=replaced,
                parked=bool(slots.parked),
                more=limit in (len(turns), len(undecided)),
            )


def _known(
    of: StoredDefinition, addition: Addition, tables: Tables
) -> StoredInstance | None:
    """The instance that has its id or its key already."""
    row = tables.instances.get(addition.id.int)
    if row is None and addition.key is not None:
        row = of.keyed.get(addition.key)
    return row


def _beyond(
    of: StoredDefinition, additions: Sequence[Addition], tables: Tables
) -> Collection[UUID]:
    """What is beyond how many may wait."""
    if of.definition.max_queue is None:
        return ()
    known = {each.id for each in additions if _known(of, each, tables)}
    waiting = sum(row.is_waiting for row in of.instances.values())
    return rules.dropped(of.definition, additions, known=known, waiting=waiting)


def _is_others(row: StoredInstance, renewal: Renewal) -> bool:
    """Whether a worker claims what another one has accepted."""
    if renewal.stage in (None, Stage.PUBLISHED) or row.accepted_at is None:
        return False
    return None not in (row.worker, renewal.worker) and row.worker != renewal.worker


def _renew(row: StoredInstance, renewal: Renewal, now: datetime) -> None:
    """Let a claim hold longer, and record how far its run has come."""
    stage, was = renewal.stage, row.stage
    # A stage never goes back, and only the first acceptance counts.
    comes_on = stage is not None and renewal.step >= step_of(was)
    accepted_before = stage is Stage.ACCEPTED is was
    expires_at = now + renewal.lease
    if comes_on and stage is Stage.STARTED:
        if was is not stage and row.started_at is not None:
            row.started_at = now
        row.start_by = None
    elif comes_on and not accepted_before:
        row.start_by = expires_at
    if comes_on and stage is not Stage.PUBLISHED:
        row.accepted_at = row.accepted_at or now
    if renewal.handed_on:
        row.handed_on = row.attempt
        if comes_on or stage is None:
            row.worker = renewal.worker or row.worker
    if renewal.progress is not None:
        row.progress = read_frozen(renewal.progress)
    if row.is_handed_on and not comes_on:
        expires_at = max(expires_at, row.expires_at or now)
    if not accepted_before:
        row.expires_at = expires_at


def _finish(outcome: RunOutcome, tables: Tables) -> bool:
    """Record what became of a run, if it may count."""
    claim = outcome.claim
    current = row = tables.current(claim)
    if row is None and outcome.outcome is _COMPLETED:
        # The first success wins, of whichever attempt.
        row = tables.instances.get(claim.instance_id.int)
        if (
            row is None
            or not 0 < claim.attempt <= row.attempt
            or row.outcome not in (None, _FAILED)
        ):
            return False
    if row is None:
        return False
    if outcome.may_delete and current is not None and not row.is_kept(tables.now):
        tables.remove(row)
        _go_on(row, outcome.next_fire_time, tables)
        return True
    if outcome.error is not None and outcome.outcome is Outcome.SKIPPED:
        row.skipped = Skipped.itself(row.fire_time or row.execute_at, outcome.error)
    elif outcome.error is not None:
        row.error = outcome.error
    if current is not None and outcome.started_at is None:
        row.runs -= row.is_running
    if outcome.is_kept:
        row.started_at = outcome.started_at
        row.keep_run(rules.run_end(outcome), outcome.error, tables.now)
    if outcome.hung:
        row.hangs += 1
    elif outcome.outcome is None:
        row.hangs = 0
    if outcome.client is not None:
        row.client = read_frozen(outcome.client)
    if outcome.outcome is None:
        tables.leave(row)
        row.free(tables.now + outcome.retry_in)
        tables.enter(row)
        return True
    if outcome.result is not None:
        row.result = read_frozen(outcome.result)
    is_first = row.outcome is None
    tables.end(row, outcome.outcome)
    row.started_at = outcome.started_at
    row.ended_attempt = claim.attempt
    if is_first:
        _go_on(row, outcome.next_fire_time, tables)
    return True


def _go_on(
    ended: StoredInstance,
    next_fire_time: datetime | None,
    tables: Tables,
) -> None:
    """Move a definition on that waited for the end of this instance."""
    of = ended.of
    if (
        of.definition.trigger.waits
        and of.definition.next_fire_time is None
        and of.definition.completed_at is None
        and ended.is_fired
    ):
        completed_at = tables.now if next_fire_time is None else None
        tables.change(of, next_fire_time=next_fire_time, completed_at=completed_at)


def _cancel(
    row: StoredInstance,
    next_fire_time: datetime | None,
    tables: Tables,
) -> Cancelled:
    if row.is_running:
        row.cancel_requested = True
        return Cancelled.REQUESTED
    tables.end(row, Outcome.CANCELLED)
    _go_on(row, next_fire_time, tables)
    return Cancelled.CANCELLED


def _stop(holder: StoredInstance, tables: Tables) -> None:
    """Cancel what is replaced, or ask it to stop."""
    if holder.of.definition.trigger.waits:
        # Whoever ends it says when its definition fires next.
        holder.cancel_requested = True
    else:
        _cancel(holder, None, tables)


def _is_to_be_judged(row: StoredInstance, tables: Tables) -> bool:
    decides = row.overlap is not None and row.due_at <= tables.now
    return decides and _has_met(row, tables)


def _has_met(row: StoredInstance, tables: Tables) -> bool:
    """Whether one of its own, which has ended since, had its slot when it was due."""
    former = None if row.behind is None else tables.instances.get(row.behind.int)
    return (
        former is not None
        and former.of is row.of
        and former.completed_at is not None
        and former.completed_at >= row.due_at
    )
