"""The start queue: records starts shortly before they are due, and has them called."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.instance_events import Write
from go_scheduler.ticking.retry_later import RunsAside, write_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from go_scheduler.running.admission import Admission
    from go_scheduler.running.calling.waiters import Waiters
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.lock_waiters import LockWaiters
    from go_scheduler.running.state import NodeState


class Agenda:
    """A heap of runs that several threads add to; the one that is due first is first.

    The start queue and its timer have one each: a run stands in the one until its start
    is recorded, and then in the other until it is due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of what is due at one instant a smaller priority is first. The sequence
        # decides ties before the comparison reaches a run, which has no order.
        self._heap: list[tuple[datetime, int, int, HeldRun]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> datetime | None:
        """When the first is due; None: there is none."""
        with self._lock:
            return self._first()

    def add(self, runs: Iterable[HeldRun]) -> bool:
        """Add runs; true if one of them is due before all others."""
        with self._lock:
            first = self._first()
            for run in runs:
                due_at, priority = run.instance.due_at, run.instance.definition.priority
                heappush(self._heap, (due_at, priority, next(self._sequence), run))
            return self._first() != first

    def take(self, until: datetime, most: int | None = None) -> Sequence[HeldRun]:
        """Take out those that are due by then, earliest first.

        Args:
            until: Up to when.
            most: So many at most; None: all.
        """
        runs: list[HeldRun] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= until and len(runs) != most:
                runs.append(heappop(self._heap)[3])
        return runs

    def _first(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None


class Timer:
    """Waits for the next due instance; it never touches the store.

    Args:
        state: What the node's parts share.
        workers: Take the runs that are due.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(self, state: NodeState, workers: Workers | Waiters) -> None:
        self._clock = state.clock
        self._workers = workers
        self._agenda = Agenda()
        self.ticker = state.ticker("timer", self.tick)

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Hand these over when they are due; those that are due, at once."""
        now = self._clock.now()
        due: list[HeldRun] = []
        later: list[HeldRun] = []
        for run in runs:
            (due if run.instance.due_at <= now else later).append(run)
        if self._agenda.add(later):
            self.ticker.wake()
        self._workers.submit(due)
        self._workers.prepare(later)

    def tick(self) -> timedelta | None:
        """Hand over those that are due; answer how long until the next one is."""
        while due := self._agenda.take(self._clock.now()):
            self._workers.submit(due)
        first = self._agenda.first
        return None if first is None else first - self._clock.now()


LONGEST_BACKOFF = timedelta(seconds=1)
"""Instances that are due when the store comes back have waited long enough."""

_BATCH = 500
_SLACK = timedelta(milliseconds=20)
_FAILED_AT_FIRST = timedelta(milliseconds=100)
_FAILED_AT_MOST = timedelta(seconds=1)
_MOST_ALONE = 10


class StartQueue:
    """Holds what is claimed until it is due, and starts it shortly before.

    A start that is locked by another transaction, or fails alone, is left aside for a
    moment and tried again apart from the others, a little later each time.

    Args:
        state: What the node's parts share.
        workers: Take what is due.
        admission: Looks once more at what was started.
        lock_waiters: Looks after what was parked instead.

    Attributes:
        tickers: Let it record starts, and wait for what is due.
    """

    def __init__(
        self,
        state: NodeState,
        *,
        workers: Workers | Waiters,
        admission: Admission,
        lock_waiters: LockWaiters,
    ) -> None:
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._held = state.held
        self._admission = admission
        self._timer = Timer(state, workers)
        self._lock_waiters = lock_waiters
        self._ticker = state.ticker(
            "start queue", self._tick, longest_backoff=LONGEST_BACKOFF
        )
        self.tickers = [self._ticker, self._timer.ticker]
        self._unstarted = Agenda()
        self._events = state.events.teller("running", bounded=True)
        self._aside: RunsAside[HeldRun] = RunsAside(
            state.clock,
            self._events,
            Write.START,
            at_first=_FAILED_AT_FIRST,
            at_most=_FAILED_AT_MOST,
            tells_once=True,
        )

    @property
    def lead(self) -> timedelta:
        """How long before it is due an instance is to be started now."""
        return self._state.pace.lead(len(self._unstarted))

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
            self._ticker.wake()

    def _tick(self) -> timedelta | None:
        """Start what is nearly due; answer how long until the next is."""
        self._events.begin()
        try:
            self._start_due()
            self._start_aside()
        except BaseException:
            self._state.contact.broke()
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
        if busy := self._aside.take_busy(elapsed, _BATCH):
            self._start(busy)
        for _ in range(_MOST_ALONE):
            if not (failed := self._aside.take_failed(elapsed, 1)):
                break
            self._start(failed)

    def _start(self, runs: Sequence[HeldRun]) -> None:
        try:
            self._record(runs)
        except BaseException:
            # Whether they have been started is not known; starting again is harmless.
            self._unstarted.add(runs)
            raise

    def _record(self, runs: Sequence[HeldRun]) -> None:
        sent = self._clock.elapsed()
        start = partial(self._store.start_instances, self._state.claimant)
        claims = [run.claim for run in runs]
        written = write_each(claims, start, id_of=attrgetter("instance_id"))
        if written.done:
            self._state.pace.took(self._clock.elapsed() - sent)
        started = {
            (each.id, each.attempt): each for done in written.done for each in done
        }
        found, parked = [], []
        for run in self._aside.leave_unwritten(runs, written):
            self._aside.forget(run)
            instance = started.get((run.instance.id, run.claim.attempt))
            if instance is None:
                self._held.drop(run)
            elif instance.parked:
                self._held.drop(run)
                parked.append(instance)
            else:
                found.append(run.start(instance))
        if parked:
            self._lock_waiters.park(parked)
        self._timer.add(self._admission.admit_again(found))

    def _wait(self) -> timedelta | None:
        """How long until the first has to be started; None: there is none."""
        first = self._unstarted.first
        return None if first is None else first - self._clock.now() - self.lead

    def _next(self) -> timedelta | None:
        waits = [self._wait(), self._aside.next(self._clock.elapsed())]
        first = min((each for each in waits if each is not None), default=None)
        return None if first is None else max(ZERO, first)
