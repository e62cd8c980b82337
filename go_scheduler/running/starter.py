"""The starter: records the start of each claimed instance shortly before it is due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event import of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import (
    InstanceLocked,
    InstanceUnrecorded,
    Write,
)
from go_scheduler.running.agenda import Agenda
from go_scheduler.running.claiming import LONGEST_BACKOFF
from go_scheduler.shown import shown
from go_scheduler.ticking.aside import Aside
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.claiming import Claiming
    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.slots import Slots
    from go_scheduler.running.timer import Timer

_BATCH = 500
_SLACK = timedelta(milliseconds=20)
_FAILED_AT_FIRST = timedelta(milliseconds=100)
_FAILED_AT_MOST = timedelta(seconds=1)
_MOST_ALONE = 10


class Starter:
    """Holds what is claimed and not started, and starts all that is due about then.

    A start that is locked by another transaction, or fails alone, is left aside for a
    moment and tried again apart from the others, a little later each time.

    Args:
        claiming: Starts in this node's name.
        clock: The store's time, as this node has it.
        held: The node's runs.
        admission: Looks once more at what was started.
        timer: Takes what has been started.
        slots: Looks after what was parked instead.
        events: Told of what fails.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        claiming: Claiming,
        clock: StoreClock,
        *,
        held: Held,
        admission: Admission,
        timer: Timer,
        slots: Slots,
        events: Events = LOG_ALONE,
    ) -> None:
        self._claiming = claiming
        self._clock = clock
        self._held = held
        self._admission = admission
        self._timer = timer
        self._slots = slots
        self.ticker = Ticker(
            "starter",
            self.tick,
            interval=None,
            clock=clock.base,
            longest_backoff=LONGEST_BACKOFF,
            events=events,
        )
        self._unstarted = Agenda()
        self._aside: Aside[HeldRun] = Aside(
            at_first=_FAILED_AT_FIRST, at_most=_FAILED_AT_MOST
        )
        self._events = events.teller("running", bounded=True)

    @property
    def lead(self) -> timedelta:
        """How long before it is due an instance is to be started now."""
        return self._claiming.pace.lead(len(self._unstarted))

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Take claimed runs, of which some may have been started by the claim."""
        started: list[HeldRun] = []
        unstarted: list[HeldRun] = []
        for run in runs:
            is_started = run.instance.started_at is not None
            (started if is_started else unstarted).append(run)
        self._timer.add(started)
        if unstarted:
            self._unstarted.add(unstarted)
            # Even if none is the first: the more there are, the longer is the lead.
            self.ticker.wake()

    def tick(self) -> timedelta | None:
        """Start what is nearly due; answer how long until the next is."""
        self._events.begin()
        try:
            self._start_due()
            self._start_aside()
        except BaseException:
            self._claiming.contact.broke()
            raise
        return self._next()

    def _start_due(self) -> None:
        """Record the start of what is due within the lead and a little more."""
        if (wait := self._wait()) is None or wait > ZERO:
            return
        until = self._clock.now() + self.lead + _SLACK
        while runs := self._unstarted.take(until, _BATCH):
            self._start(runs)

    def _start_aside(self) -> None:
        """Try again what was left aside; what failed alone by itself, and a few."""
        elapsed = self._clock.elapsed()
        self._start(self._aside.take_busy(elapsed, _BATCH))
        for _ in range(_MOST_ALONE):
            self._start(self._aside.take_failed(elapsed, 1))

    def _start(self, runs: Sequence[HeldRun]) -> None:
        try:
            self._record(runs)
        except BaseException:
            # Whether they have been started is not known; starting again is harmless.
            self._unstarted.add(runs)
            raise

    def _record(self, runs: Sequence[HeldRun]) -> None:
        starts = self._claiming.start([run.claim for run in runs])
        found, parked = [], []
        for run in runs:
            if run.instance.id in starts.busy:
                self._leave_busy(run)
                continue
            if run.instance.id in starts.failed:
                self._leave_failed(run, starts.failed[run.instance.id])
                continue
            self._aside.forget(run)
            instance = starts.done.get(run.claim)
            if instance is None:
                self._held.drop(run)
            elif instance.parked:
                self._held.drop(run)
                parked.append(instance)
            else:
                found.append(run.start(instance))
        if parked:
            self._slots.park(parked)
        self._timer.add(self._admission.admit_again(found))

    def _leave_busy(self, run: HeldRun) -> None:
        if self._aside.leave_busy(run, self._clock.elapsed()):
            self._events.tell(
                InstanceLocked(**of_instance(run.instance), write=Write.START)
            )

    def _leave_failed(self, run: HeldRun, error: Exception) -> None:
        is_new = not self._aside.has_failed(run)
        delay = self._aside.leave_failed(run, self._clock.elapsed())
        if is_new:
            self._events.tell(
                InstanceUnrecorded(
                    **of_instance(run.instance),
                    write=Write.START,
                    retry_in=delay,
                    error=shown(error),
                    exception=error,
                )
            )

    def _wait(self) -> timedelta | None:
        """How long until the first has to be started; None: there is none."""
        first = self._unstarted.first
        return None if first is None else first - self._clock.now() - self.lead

    def _next(self) -> timedelta | None:
        waits = [self._wait(), self._aside.next(self._clock.elapsed())]
        first = min((each for each in waits if each is not None), default=None)
        return None if first is None else max(ZERO, first)
