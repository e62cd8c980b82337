"""The recorder: gathers what follows from runs, and has it written."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.definition_events import TriggerFailed
from go_scheduler.events.event import of_definition, of_instance
from go_scheduler.events.given_back import GivenBackLately
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import (
    InstanceDropped,
    InstanceFinished,
    InstanceGivenBack,
    InstanceLapsed,
    RunEnded,
    RunLeftBehind,
)
from go_scheduler.models import Outcome, Stage
from go_scheduler.running import lateness, outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.entry import Entry
from go_scheduler.running.outbox import Outbox
from go_scheduler.running.outcomes import Decision, EndedRun
from go_scheduler.running.overdue import GRACE
from go_scheduler.running.reports import Reports, failure_event
from go_scheduler.running.tally import Tally
from go_scheduler.shown import shown
from go_scheduler.stores.base import transactional
from go_scheduler.stores.messages import Release, Renewal
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.run import HandedOn
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.failure import Failure
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claim, RunOutcome

_SECOND = timedelta(seconds=1)


class Recorder:
    """Asks what follows from each run that is over, and writes it, many at once.

    Args:
        store: Where to write.
        clock: The store's time, as this node has it.
        defaults: What holds for definitions that do not say.
        max_hangs: How many runs in a row may hang before their instance has *failed*;
            None: no end.
        recorded: Called after a write that made room.
        slot_freed: Called after one that may have let go of a slot.
        events: Told of what fails.

    Attributes:
        tally: Counts what ends; what calls the handlers counts there what begins.
        ticker: Lets it tick.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        defaults: Defaults,
        max_hangs: int | None,
        recorded: Callable[[], None],
        slot_freed: Callable[[], None] = lambda: None,
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._defaults = defaults
        self._max_hangs = max_hangs
        self._left_behind = False
        self.tally = Tally()
        reports = Reports(
            store,
            rolled_back=self._report_rolled_back,
            count=self.tally.ended,
            events=events,
        )
        self._outbox = Outbox(
            store, clock, written=recorded, slot_freed=slot_freed, reports=reports
        )
        self._events = events.teller("running", bounded=True)
        self._times_runs = events.instrument is not None or any(
            map(events.wanted, (RunEnded, InstanceFinished))
        )
        self._given_back = GivenBackLately(clock.base)
        self._begun: timedelta | None = None
        self.ticker = Ticker(
            "recorder", self.tick, interval=None, clock=clock.base, events=events
        )

    @property
    def unrecorded(self) -> int:
        """How many ends the store has not taken yet."""
        return len(self._outbox)

    @property
    def backlog(self) -> int:
        """How many of them keep the node from claiming more."""
        return self._outbox.backlog

    def unrecorded_runs(self) -> Sequence[HeldRun]:
        """The runs that have ended and still need their claim."""
        return self._outbox.runs()

    def claims(self) -> Collection[Claim]:
        """The claims of what the store has not taken yet, of what is given back too."""
        return [run.claim for run in self._outbox.runs()]

    def written_since(self, elapsed: timedelta) -> int:
        """How many called runs were recorded since then; older ones are forgotten."""
        return self._outbox.written_since(elapsed)

    def tick(self) -> timedelta | None:
        """Write what has gathered, unless the last write was a moment ago."""
        elapsed = self._clock.elapsed()
        if self._begun is None or elapsed >= self._begun + _SECOND:
            self._begun = elapsed
            self._events.begin()
        return self._outbox.tick()

    def succeed(self, run: HeldRun) -> None:
        """Record that a handler returned."""
        if run.joined or run.instance.definition.trigger.waits:
            ended = self._ended(run)
            self._put(run, outcomes.returned(ended), took=ended.ran_for)
        else:
            assert run.called is not None
            took = self._clock.elapsed() - run.called if self._times_runs else None
            self._write(Entry(run, outcomes.success_of(run), took=took))

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
        self._write(Entry(run, renewal))

    def complete_in(self, run: HeldRun, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is not ours."""
        store = transactional(self._store)
        decision = outcomes.completed(self._ended(run))
        self._report_trigger(run, decision)
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
            self._write(Entry(run, follows))
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
            self._report_failed(run, decision)
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

    def dropped(self, run: HeldRun, now: datetime) -> str | None:
        """Why a run is not to be called any more, as it comes too late, if so."""
        return lateness.dropped(run.instance, self._defaults, now=now)

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
        self._write(Entry(run, given_back))

    def withdraw(self, run: HeldRun, reason: str) -> None:
        """Give back what an edit has ended, of which there may be nothing any more."""
        self._write(Entry(run, Release(claim=run.claim, reason=reason)))

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
            expire_after=run.expire_after,
            retry=self._defaults.retry_of(run.instance),
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
            self._report_failed(run, decision)

    def _put(
        self,
        run: HeldRun,
        decision: Decision,
        *,
        raised: str | None = None,
        took: timedelta | None = None,
    ) -> None:
        self._report_trigger(run, decision)
        self._write(Entry(run, decision.record, raised=raised, took=took))

    def _write(self, entry: Entry) -> None:
        if self._outbox.put(entry):
            self.ticker.wake()

    def _report_trigger(self, run: HeldRun, decision: Decision) -> None:
        """Tell that a trigger failed when it was asked for the next fire time."""
        if decision.trigger_error is not None:
            definition = run.instance.definition
            self._events.tell(
                TriggerFailed(
                    **of_definition(definition),
                    error=shown(decision.trigger_error),
                    exception=decision.trigger_error,
                )
            )

    def _report_failed(self, run: HeldRun, decision: Decision) -> None:
        """Tell why a run failed, and what becomes of its instance."""
        self._events.tell(failure_event(run.instance, decision))

    def _report_rolled_back(self, run: HeldRun, record: RunOutcome) -> None:
        """Tell that a run has failed, if that was found out only by its recording."""
        if record.outcome is not Outcome.CANCELLED:
            self._report_failed(run, Decision(record))
