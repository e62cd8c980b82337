"""The result writer: gathers what follows from runs, writes it, and tells of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.events import (
    CompletedRunFailed,
    DefinitionCompleted,
    InstanceDropped,
    InstanceFinished,
    InstanceGivenBack,
    InstanceHandedOn,
    InstanceLapsed,
    InstanceRetried,
    ResultDiscarded,
    RunDeferred,
    RunEnded,
    RunFailed,
    RunLeftBehind,
    TriggerFailed,
    Write,
)
from go_scheduler.events.event import Event, of_definition, of_instance
from go_scheduler.events.event_bus import GivenBackLately
from go_scheduler.formatting import shown
from go_scheduler.models import Outcome, Stage, TaskDefinition, TaskInstance
from go_scheduler.running import outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.defaults import GRACE
from go_scheduler.running.held import HeldRun
from go_scheduler.running.outcomes import (
    Decision,
    EndedRun,
    Failure,
    is_completed_by,
    runs_before,
)
from go_scheduler.running.state import NodeState, Part
from go_scheduler.stores.base import transactional
from go_scheduler.stores.messages import Answer, Claim, Release, Renewal, RunOutcome
from go_scheduler.stores.rules import takes_slot
from go_scheduler.ticking.retry_later import (
    RunsAside,
    each_instance_once,
    write_each,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.run import HandedOn


def trigger_event(definition: TaskDefinition, error: BaseException) -> TriggerFailed:
    """What is told of a trigger that failed when it was asked after a run."""
    return TriggerFailed(
        **of_definition(definition), error=shown(error), exception=error
    )


def end_events(
    instance: TaskInstance,
    record: RunOutcome,
    started_at: datetime | None,
    took: timedelta | None,
    *,
    completes: bool,
    wanted: Callable[[type[Event]], bool] = lambda kind: True,
) -> Iterator[Event]:
    """What is told of a run whose end has been recorded.

    Args:
        instance: What was run.
        record: What was recorded of it.
        started_at: When its handler was called; None: it was not.
        took: For how long; None: nobody asks.
        completes: Whether its definition, if it waited for this end, never fires again.
        wanted: Whether anybody is told of such events.
    """
    ids, outcome = of_instance(instance), record.outcome
    if wanted(RunEnded) and started_at and took is not None:
        yield RunEnded(
            **ids,
            late=started_at - instance.due_at,
            took=took,
            outcome=outcome,
            retry_in=None if outcome else record.retry_in,
            worker=instance.worker,
        )
    if outcome is None:
        if wanted(InstanceRetried):
            yield InstanceRetried(
                **ids,
                retry_in=record.retry_in,
                started_at=record.started_at,
                took=took,
                error=record.error,
            )
        return
    if wanted(InstanceFinished):
        yield InstanceFinished(
            **ids,
            outcome=outcome,
            started_at=started_at,
            took=took,
            error=record.error,
        )
    definition = instance.definition
    if completes and definition.trigger.waits and wanted(DefinitionCompleted):
        yield DefinitionCompleted(**of_definition(definition))


def failure_event(
    instance: TaskInstance, decision: Decision
) -> RunFailed | RunDeferred:
    """What is told of a run that did not succeed, and of what follows."""
    ids, record = of_instance(instance), decision.record
    runs = instance.runs if record.started_at else runs_before(instance)
    if decision.asked_for:
        assert record.error is not None
        return RunDeferred(
            **ids,
            runs=runs,
            retry_in=record.retry_in,
            error=record.error,
            worker=instance.worker,
        )
    retry_in = None if record.outcome else record.retry_in
    error, worker = record.error, instance.worker
    return RunFailed(**ids, runs=runs, retry_in=retry_in, error=error, worker=worker)


def _is_recorded(instance: TaskInstance, outcome: RunOutcome) -> bool:
    ends = outcome.outcome is not None
    attempt = instance.ended_attempt if ends else instance.attempt
    return attempt == outcome.claim.attempt


_GAP = timedelta(milliseconds=3)
_SECOND = timedelta(seconds=1)
_WRITTEN_AT_ONCE = 500
_MOST_ASIDE = 1000
# So many say enough, and each costs a way to the store while others wait.
_MOST_ASKED = 10

Record = TypeVar("Record", RunOutcome, Release, Renewal)


@dataclass(eq=False)
class Entry:
    """What is to be recorded of one run, until the store has taken it.

    Attributes:
        run: The run.
        record: What is to be recorded of it.
        raised: What its handler raised, if that is not all of the record's error.
        took: How long the run took; None: its handler was not called, or nobody asks.
        joined: Whether the run called ``complete_in`` before this was decided.
        unsure: Whether it has been sent and the answer was lost.
    """

    run: HeldRun
    record: RunOutcome | Release | Renewal
    raised: str | None = None
    took: timedelta | None = None
    joined: bool = field(init=False)
    unsure: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.joined = self.run.joined


class ResultWriter(Part):
    """Asks what follows from each run that is over, and writes it, many at once.

    It writes at once after a pause, else what has gathered, every few milliseconds.
    What the store does not take is kept and written again: all of it if the store is
    away; what is locked or fails alone is left aside and costs only itself.

    Args:
        state: What the node's parts share.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(self, state: NodeState) -> None:
        super().__init__(state)
        self._max_hangs = state.settings.max_hangs
        self._left_behind = False
        self._room_made = state.room_made
        self._slot_freed = state.slot_freed
        # In a few lines of the log for each tick; what has failed, for each second.
        self._taken = state.events.teller("running", bounded=True)
        kinds = (RunEnded, InstanceRetried, InstanceFinished, DefinitionCompleted)
        self._tells_ends = any(map(self._taken.wanted, kinds))
        self._asked = 0
        # All of them: pending, being written, or aside.
        self._entries: dict[Entry, None] = {}
        self._pending: deque[Entry] = deque()
        self._aside: RunsAside[Entry] = RunsAside(
            state.clock,
            self._taken,
            Write.END,
            instance_of=attrgetter("run.instance"),
        )
        self._announced = False
        self._last: timedelta | None = None
        # How many runs have freed a worker: since the last write, and by each before.
        self._freed = 0
        self._freed_by: deque[tuple[timedelta, int]] = deque()
        self._times_runs = state.events.instrument is not None or any(
            map(state.events.wanted, (RunEnded, InstanceFinished))
        )
        self._given_back = GivenBackLately(state.clock.base)
        self._begun: timedelta | None = None
        self.ticker = state.ticker("result writer", self.tick)

    @property
    def unrecorded(self) -> int:
        """How many ends the store has not taken yet."""
        return len(self._entries)

    @property
    def backlog(self) -> int:
        """How many keep the node from claiming more: of those aside a thousand do not.

        A few locked rows must not cost it workers, and endless ones not its memory.
        """
        return len(self._entries) - min(len(self._aside), _MOST_ASIDE)

    def unrecorded_runs(self) -> Sequence[HeldRun]:
        """The runs that have ended and still need their claim."""
        return [entry.run for entry in self._entries.copy()]

    def claims(self) -> Collection[Claim]:
        """The claims of what the store has not taken yet, of what is given back too."""
        return [run.claim for run in self.unrecorded_runs()]

    def written_since(self, elapsed: timedelta) -> int:
        """How many called runs were recorded since then; older ones are forgotten."""
        while self._freed_by and self._freed_by[0][0] < elapsed:
            self._freed_by.popleft()
        return sum(count for _, count in self._freed_by.copy())

    def tick(self) -> timedelta | None:
        """Write what has gathered, unless the last write was a moment ago."""
        elapsed = self._clock.elapsed()
        if self._begun is None or elapsed >= self._begun + _SECOND:
            self._begun = elapsed
            self._events.begin()
        self._announced = False
        if self._last is None or elapsed >= self._last + _GAP:
            self._taken.begin()
            self._asked = 0
            size = min(len(self._pending), _WRITTEN_AT_ONCE)
            self._write_all([self._pending.popleft() for _ in range(size)])
            # Apart from what is new, which is not to suffer from it.
            self._write_all(self._aside.take_busy(elapsed, _WRITTEN_AT_ONCE))
            self._write_all(self._aside.take_failed(elapsed, _WRITTEN_AT_ONCE))
        return self._next(self._clock.elapsed())

    def succeed(self, run: HeldRun) -> None:
        """Record that a handler returned."""
        if run.joined or run.instance.definition.trigger.waits:
            ended = self._ended(run)
            self._put(run, outcomes.returned(ended), took=ended.ran_for)
        else:
            assert run.called is not None
            took = self._clock.elapsed() - run.called if self._times_runs else None
            deletes = self._defaults.deletes_successes
            self._keep(Entry(run, outcomes.success_of(run, deletes=deletes), took=took))

    def hand_on(self, run: HeldRun, to: HandedOn) -> None:
        """Record that a run goes on elsewhere, for how long it is kept, and by whom."""
        lease, stage = to.expire_after or run.expire_after, None
        left = run.until_timeout(self._clock.elapsed())
        if to.start_timeout is not None:
            # Its timeout counts from when it begins.
            lease, stage = to.start_timeout, Stage.PUBLISHED
        elif left is not None:
            lease = min(lease, left + GRACE)
        renewal = Renewal(
            claim=run.claim,
            lease=lease,
            handed_on=True,
            worker=to.worker,
            stage=stage,
        )
        self._keep(Entry(run, renewal))

    def complete_in(self, run: HeldRun, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is not ours."""
        store = transactional(self._store)
        decision = outcomes.completed(self._ended(run))
        self._tell_trigger(run, decision)
        return store.finish_instance_in(connection, decision.record)

    def leave_behind(self) -> None:
        """Give back what fails from now on: what it needs goes with the program."""
        self._left_behind = True

    def fail(self, run: HeldRun, failure: Failure) -> None:
        """Record that a run did not succeed: cancelled, due again, or failed.

        Or given back, as it has not begun anything.
        """
        delay = failure.given_back_for
        if delay is not None and not (run.joined or run.cancel_requested):
            self.release(run, failure.error, delay=delay, by_handler=True)
        elif self._left_behind and not (run.joined or failure.is_chosen):
            self.give_back_called(run, failure.error)
        else:
            ended = self._ended(run)
            decision = outcomes.raised(ended, failure)
            self._put_failure(run, ended, decision, failure.error)

    def give_back_called(self, run: HeldRun, error: str) -> None:
        """Count no run that was called and could not end, unless it was the last."""
        ended = self._ended(run)
        follows = outcomes.left_behind(ended, error)
        if isinstance(follows, Release):
            self._events.tell(RunLeftBehind(**of_instance(run.instance), error=error))
            self._keep(Entry(run, follows))
        else:
            self._put_failure(run, ended, follows, error)

    def give_up(self, run: HeldRun, error: str) -> None:
        """Record that a run is presumed hung."""
        ended = self._ended(run)
        decision = outcomes.hung(ended, error, max_hangs=self._max_hangs)
        self._put_failure(run, ended, decision, error)

    def refuse(self, run: HeldRun, decision: Decision) -> None:
        """Record what follows for an instance whose handler is not to be called."""
        self._put(run, decision)
        if decision.record.outcome in (Outcome.FAILED, None):
            self._events.tell(failure_event(run.instance, decision))
        elif decision.record.outcome is Outcome.SKIPPED:
            instance = run.instance
            self._events.tell(
                InstanceDropped(
                    **of_instance(instance),
                    fire_time=instance.fire_time,
                    execute_at=instance.execute_at,
                    late=self._clock.now() - instance.execute_at,
                    reason=decision.record.error or "",
                )
            )

    def release(
        self,
        run: HeldRun,
        reason: str,
        *,
        delay: timedelta = ZERO,
        by_handler: bool = False,
    ) -> None:
        """Give back what was not run, for any node to claim after the delay."""
        # The log says nothing of the others.
        if by_handler or self._events.wanted(InstanceGivenBack):
            of = run.instance.definition.id
            self._events.tell(
                InstanceGivenBack(
                    **of_instance(run.instance),
                    reason=reason,
                    delay=delay,
                    by_handler=by_handler,
                    again=by_handler and self._given_back.again(of, reason),
                )
            )
        given_back = Release(claim=run.claim, delay=delay, reason=kept_text(reason))
        self._keep(Entry(run, given_back))

    def give_back(self, run: HeldRun, reason: str) -> None:
        """Give back a run, unless it has been called or given back already."""
        if self._held.drop(run):
            self.release(run, reason)

    def withdraw(self, run: HeldRun, reason: str) -> None:
        """Give back what an edit has ended, of which there may be nothing any more."""
        self._keep(Entry(run, Release(claim=run.claim, reason=reason)))

    def cancel(self, run: HeldRun) -> None:
        """Record that an instance was cancelled before its handler was called."""
        self._put(run, outcomes.cancelled(run.instance, now=self._clock.now()))

    def release_lapsing(self, run: HeldRun) -> None:
        """Give back what was not called because its claim is about to lapse."""
        self._events.tell(InstanceLapsed(**of_instance(run.instance)))
        self.release(run, "too little is left of its claim")

    def _ended(self, run: HeldRun) -> EndedRun:
        """What is known of a run that is over now."""
        assert run.called is not None
        assert run.called_at is not None
        elapsed = self._clock.elapsed()
        return EndedRun(
            claim=run.claim,
            instance=run.instance,
            started_at=run.called_at,
            ran_for=elapsed - run.called,
            defaults=self._defaults,
            now=self._clock.at(elapsed),
            cancel_requested=run.cancel_requested,
            joined=run.joined,
        )

    def _put_failure(
        self, run: HeldRun, ended: EndedRun, decision: Decision, error: str
    ) -> None:
        self._put(run, decision, raised=error, took=ended.ran_for)
        # Whether one that has joined has failed only the store knows.
        if not run.joined and not run.cancel_requested:
            self._events.tell(failure_event(run.instance, decision))

    def _put(
        self,
        run: HeldRun,
        decision: Decision,
        *,
        raised: str | None = None,
        took: timedelta | None = None,
    ) -> None:
        self._tell_trigger(run, decision)
        self._keep(Entry(run, decision.record, raised=raised, took=took))

    def _keep(self, entry: Entry) -> None:
        """Have this written by one of the next ticks."""
        self._entries[entry] = None
        self._pending.append(entry)
        # In this order, and reset before the pending are taken: no entry waits
        # unannounced.
        is_first, self._announced = not self._announced, True
        if is_first:
            self.ticker.wake()

    def _tell_trigger(self, run: HeldRun, decision: Decision) -> None:
        """Tell that a trigger failed when it was asked for the next fire time."""
        if decision.trigger_error is not None:
            definition = run.instance.definition
            self._events.tell(trigger_event(definition, decision.trigger_error))

    def _next(self, elapsed: timedelta) -> timedelta | None:
        gap = ZERO if self._last is None else max(ZERO, self._last + _GAP - elapsed)
        if self._pending:
            return gap
        left = self._aside.next(elapsed)
        return None if left is None else max(gap, left)

    def _write_all(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        try:
            for batch in each_instance_once(entries, _claim_of):
                self._write(batch)
        except BaseException:
            unwritten = [entry for entry in entries if entry in self._entries]
            for entry in unwritten:
                # A record that was taken before the failure is no longer taken the next
                # time.
                entry.unsure = True
                self._aside.forget(entry)
            self._pending.extendleft(reversed(unwritten))
            raise
        self._last = self._clock.elapsed()
        self._freed_by.append((self._last, self._freed))
        self._freed = 0
        self._room_made()

    def _write(self, batch: Sequence[Entry]) -> None:
        outcomes = [entry for entry in batch if isinstance(entry.record, RunOutcome)]
        releases = [entry for entry in batch if isinstance(entry.record, Release)]
        handed_on = [entry for entry in batch if isinstance(entry.record, Renewal)]
        self._send(
            [entry for entry in outcomes if not entry.joined],
            self._store.finish_instances,
        )
        self._send(releases, self._store.release_instances)
        self._send(handed_on, self._store.renew_claims)
        # Last: the others do not wait for a transaction that may still lock these.
        self._send(
            [entry for entry in outcomes if entry.joined], self._store.finish_instances
        )

    def _send(
        self,
        entries: Sequence[Entry],
        write: Callable[[Sequence[Record]], Answer[Collection[UUID]]],
    ) -> None:
        records: Sequence[Record] = [entry.record for entry in entries]  # type: ignore[misc]
        written = write_each(records, write)
        if len(written.done) == 1 and len(written.done[0]) == len(entries):
            # Nearly always: the hashes of the ids would cost more than the rest.
            for entry in entries:
                self._take_out(entry, recorded=True)
            return
        done = {id for each in written.done for id in each}
        for entry in self._aside.leave_unwritten(entries, written):
            self._take_out(entry, recorded=entry.run.instance.id in done)

    def _take_out(self, entry: Entry, *, recorded: bool) -> None:
        record, instance = entry.record, entry.run.instance
        if isinstance(record, RunOutcome):
            if record.has_slot and (record.outcome is not None or entry.joined):
                self._slot_freed()
            # A run that was given back, or hangs, has freed no worker.
            self._freed += record.started_at is not None and not record.hung
            if recorded:
                self._tell_recorded(entry, record)
            else:
                self._tell_not_taken(entry, record)
        elif isinstance(record, Renewal):
            self._freed += 1
            # It may have been ended already by whoever has it now.
            if recorded and self._taken.wanted(InstanceHandedOn):
                self._taken.tell(InstanceHandedOn(**of_instance(instance)))
        elif instance.started_at is not None and takes_slot(instance):
            self._slot_freed()
        self._aside.forget(entry)
        # Last: until then the claim is renewed, and a stop waits.
        del self._entries[entry]

    def _tell_recorded(self, entry: Entry, record: RunOutcome) -> None:
        """Tell of an outcome that the store has taken."""
        instance = entry.run.instance
        self._metrics.ended(instance.definition, record.outcome, entry.took)
        if entry.joined and record.outcome is not Outcome.CANCELLED:
            # It called complete_in, and its transaction has not committed.
            self._events.tell(failure_event(instance, Decision(record)))
        if self._tells_ends:
            self._tell_end(entry, record, completes=record.next_fire_time is None)

    def _tell_not_taken(self, entry: Entry, record: RunOutcome) -> None:
        """Tell that a result was discarded, unless it had been recorded before.

        That was by the transaction in which the run called ``complete_in``, or by an
        earlier write whose answer was lost.
        """
        found, gone = None, False
        if entry.joined or entry.unsure:
            if self._asked == _MOST_ASKED:
                return
            self._asked += 1
            try:
                found = self._store.get_instance(entry.run.instance.id)
            except TaskInstanceNotFoundError:
                gone = True
            # It is only about what is told.
            except StoreError:
                pass
        if (
            found is not None
            and entry.joined
            and is_completed_by(found, entry.run.claim)
        ):
            self._tell_committed(entry, found)
        elif entry.unsure and (
            (gone and record.may_delete)
            or (found is not None and _is_recorded(found, record))
        ):
            self._tell_recorded(entry, record)
        # That it hangs was a presumption, and has been told.
        elif not record.hung:
            self._taken.tell(ResultDiscarded(**of_instance(entry.run.instance)))

    def _tell_committed(self, entry: Entry, found: TaskInstance) -> None:
        """Tell of a success, and of what the handler raised after its commit."""
        instance = entry.run.instance
        self._metrics.ended(instance.definition, Outcome.COMPLETED, entry.took)
        record = RunOutcome(claim=entry.run.claim, outcome=Outcome.COMPLETED)
        # By its next fire time nobody can tell: it may have fired again since.
        completes = found.definition.completed_at is not None
        self._tell_end(entry, record, completes=completes)
        if entry.raised is not None:
            ids = of_instance(instance)
            self._taken.tell(CompletedRunFailed(**ids, error=entry.raised))

    def _tell_end(self, entry: Entry, record: RunOutcome, *, completes: bool) -> None:
        run, wanted = entry.run, self._taken.wanted
        for each in end_events(
            run.instance,
            record,
            run.called_at,
            entry.took,
            completes=completes,
            wanted=wanted,
        ):
            self._taken.tell(each)


def _claim_of(entry: Entry) -> Claim:
    return entry.run.claim
