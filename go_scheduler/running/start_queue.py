"""The start queue: what is claimed is judged, held, started shortly before it is due.

What is parked instead waits for its slot, by the lock waiters.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events import (
    InstanceClaimed,
    InstanceParked,
    InstanceReplaced,
    InstanceSkipped,
    InstanceTakenOver,
    InstanceUnparked,
    NoticeGiven,
    Write,
)
from go_scheduler.events.event import of_instance, of_skipped
from go_scheduler.health import HealthWarnings
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.intake import Accepted, Asked, GivenBack, Verdict, judge
from go_scheduler.running.state import NodeState, Part
from go_scheduler.running.withdrawing import Watch, Withdrawing
from go_scheduler.ticking.retry_later import RunsAside, write_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.waiters import Waiters
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.outcomes import Decision
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.stores.messages import Reviewed


class Agenda:
    """A heap of runs that several threads add to; the one that is due first is first.

    The start queue has two: a run stands in the one until its start is recorded, and
    then in the other until it is due.
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


_BATCH = 500
_PAUSE = timedelta(seconds=1)
# Where this is left to another node, which may not be able to.
_LONG_PAUSE = timedelta(seconds=5)
# While there is more than a look goes over, or others have locked what could go on.
_SHORT_PAUSE = timedelta(milliseconds=100)


class LockWaiters(Part):
    """Lets what is parked go on soon after its slot is free, or end when it is due.

    What this node has parked or ended is looked after at once, and whatever is parked
    each second, for other nodes may have died, or parked beside an end. Where nodes
    share the work, one of them does so each second, and the others more seldom.

    Args:
        state: What the node's parts share.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(self, state: NodeState) -> None:
        super().__init__(state)
        self._work_found = state.work_found
        # Elapsed times at which there is something to look after.
        self._expected: deque[timedelta] = deque()
        self.ticker = state.ticker("slots", self.tick, self._lease)
        state.slot_freed.connect(self.free)

    def park(self, instances: Sequence[TaskInstance]) -> None:
        """Look after what was parked here, when it is due."""
        for each in instances:
            self._events.tell(InstanceParked(**of_instance(each)))
        self._expect(min(each.due_at for each in instances))

    def free(self) -> None:
        """Look after those that wait for a slot: here one was let go of."""
        self._expect(self._clock.now())

    def tick(self) -> timedelta:
        """Have the store go over what is parked; answer how soon to do so again."""
        self._events.begin()
        elapsed = self._clock.elapsed()
        # Before the store is asked: what is expected meanwhile needs another look.
        for _ in range(len(self._expected)):
            at = self._expected.popleft()
            if at > elapsed:
                self._expected.append(at)
        found = self._store.review_parked(limit=_BATCH)
        self._tell(found)
        if found.unparked:
            self._work_found()
        pause = self._pause_after(found)
        at = min(self._expected.copy(), default=elapsed + pause)
        return max(ZERO, min(pause, at - elapsed))

    def _pause_after(self, found: Reviewed) -> timedelta:
        """How soon there may be something to do again."""
        if found.skipped or found.replaced:
            # They may have left their slots to others.
            return ZERO
        if not (found.more or found.parked):
            # Sooner than that nothing lapses that another node has left behind.
            return self._lease
        # A node without a handler has no such loop.
        if self._shares.is_first("slots", serves=True):
            return _SHORT_PAUSE if found.more else _PAUSE
        return _PAUSE if found.more else _LONG_PAUSE

    def _expect(self, at: datetime) -> None:
        wait = max(ZERO, at - self._clock.now())
        self._expected.append(self._clock.elapsed() + wait)
        self.ticker.wake()

    def _tell(self, found: Reviewed) -> None:
        for each in found.unparked:
            self._events.tell(InstanceUnparked(**of_instance(each)))
        for each in found.replaced:
            self._events.tell(InstanceReplaced(**of_instance(each)))
        for each in found.skipped:
            assert each.skipped is not None
            ids = of_skipped(each.definition, each.skipped)
            self._events.tell(InstanceSkipped(**ids, late=False))


LONGEST_BACKOFF = timedelta(seconds=1)
"""Instances that are due when the store comes back have waited long enough."""

_SLACK = timedelta(milliseconds=20)
_FAILED_AT_FIRST = timedelta(milliseconds=100)
_FAILED_AT_MOST = timedelta(seconds=1)
_MOST_ALONE = 10


_DELAY = timedelta(seconds=1)
_MOST_DELAYS = 30


class PerNode:
    """Keeps out what is beyond the ``max_per_node`` of its definition.

    It comes later, and what else is due in its queue before it. The more of a
    definition is kept out in a row, the later each comes: a long backlog is not claimed
    again and again for nothing.

    Args:
        held: The node's runs.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lock = threading.Lock()
        self._in_a_row: dict[UUID, int] = {}

    def take(self, run: HeldRun, full: set[UUID]) -> GivenBack | None:
        """Hold a run of a limited definition, or say what becomes of it instead.

        Args:
            run: The run; of a definition that has a limit.
            full: The definitions of which no more can be held in this batch; kept here.
        """
        definition = run.instance.definition
        most = definition.max_per_node
        assert most is not None
        # Several threads let in: two must not both see the last place.
        with self._lock:
            if definition.id not in full:
                if self._held.count_of(definition.id) < most:
                    self._held.add([run])
                    self._in_a_row.pop(definition.id, None)
                    return None
                full.add(definition.id)
            refused = self._in_a_row.get(definition.id, 0)
            self._in_a_row[definition.id] = refused + 1
        reason = (
            f"{most} of {definition.name or definition.id} are here already, and no"
            " more may be on one node (max_per_node)"
        )
        return GivenBack(reason, _DELAY * min(refused // most + 1, _MOST_DELAYS))


class StartQueue(Part):
    """Judges what is claimed, holds it until it is due, and starts it shortly before.

    What is not to be called here is given back or ended. A start that is locked by
    another transaction, or fails alone, is left aside for a moment and tried again
    apart from the others, a little later each time.

    Args:
        state: What the node's parts share.
        handler: Tells which instances this node can run; None: what runs them is
            elsewhere.
        writer: Takes what becomes of those that are not called.
        workers: Take what is due.

    Attributes:
        withdrawing: Lets go of what is edited before it is called.
        notices: Why instances were given back.
        tickers: Let it record starts, wait for what is due, and for slots.
    """

    def __init__(
        self,
        state: NodeState,
        handler: Handler | None,
        *,
        writer: ResultWriter,
        workers: Workers | Waiters,
    ) -> None:
        super().__init__(state)
        # In a few lines of the log for each claim, beside those for each tick.
        self._judging = state.events.teller("running", bounded=True)
        self._handler = handler
        self._writer = writer
        self._workers = workers
        self.withdrawing = Withdrawing(state.held, writer)
        self.notices = HealthWarnings()
        self._per_node = PerNode(state.held)
        self._lock_waiters = LockWaiters(state)
        self._ticker = state.ticker(
            "start queue", self._tick, longest_backoff=LONGEST_BACKOFF
        )
        # Never touches the store.
        self._timer = state.ticker("timer", self._hand_over_due)
        self.tickers = [self._ticker, self._timer, self._lock_waiters.ticker]
        self._unstarted = Agenda()
        self._started = Agenda()
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
        return self._pace.lead(len(self._unstarted))

    def take(self, instances: Iterable[TaskInstance], watch: Watch) -> None:
        """Take what has been claimed, of which some may have been started by the claim.

        Args:
            instances: What has been claimed.
            watch: What was edited since the claim was sent.
        """
        self._judging.begin()
        now, asked = self._clock.now(), Asked()
        runs: list[HeldRun] = []
        held = []
        full: set[UUID] = set()
        for instance in instances:
            run = HeldRun(instance, self._defaults)
            verdict = self._judge(run, now, asked)
            if not isinstance(verdict, Accepted):
                self._turn_away(run, verdict)
                continue
            if instance.definition.max_per_node is None:
                held.append(run)
            elif later := self._per_node.take(run, full):
                self._writer.release(run, later.reason, delay=later.delay)
                continue
            if verdict.again:
                self._judging.tell(InstanceTakenOver(**of_instance(instance)))
            runs.append(run)
        self._held.add(held)
        if self._judging.wanted(InstanceClaimed):
            for run in runs:
                ids, due_at = of_instance(run.instance), run.instance.due_at
                self._judging.tell(InstanceClaimed(**ids, due_at=due_at))
        started: list[HeldRun] = []
        unstarted: list[HeldRun] = []
        for run in self.withdrawing.let_in(runs, watch):
            is_started = run.instance.started_at is not None
            (started if is_started else unstarted).append(run)
        self._hand_over(started)
        if unstarted:
            self._unstarted.add(unstarted)
            # Even if none is the first: the more there are, the longer is the lead.
            self._ticker.wake()

    def _judge(self, run: HeldRun, now: datetime, asked: Asked) -> Verdict:
        return judge(
            run.instance,
            self._handler,
            defaults=self._defaults,
            refusal=self._held.refusal(run.instance),
            now=now,
            asked=asked,
        )

    def _turn_away(self, run: HeldRun, verdict: Decision | GivenBack) -> None:
        if not isinstance(verdict, GivenBack):
            self._writer.refuse(run, verdict)
            return
        of, text = run.instance, f"{verdict.reason}; such instances are given back"
        # Once each: it is the same for many.
        if self.notices.add(text):
            self._judging.tell(
                NoticeGiven(
                    text=text, definition_id=of.definition.id, instance_id=of.id
                )
            )
        self._writer.release(run, verdict.reason, delay=verdict.delay)

    def _hand_over(self, runs: Iterable[HeldRun]) -> None:
        """Hand these over when they are due; those that are due, at once."""
        now = self._clock.now()
        due: list[HeldRun] = []
        later: list[HeldRun] = []
        for run in runs:
            (due if run.instance.due_at <= now else later).append(run)
        if self._started.add(later):
            self._timer.wake()
        self._workers.submit(due)
        self._workers.prepare(later)

    def _hand_over_due(self) -> timedelta | None:
        """Hand over those that are due; answer how long until the next one is."""
        while due := self._started.take(self._clock.now()):
            self._workers.submit(due)
        first = self._started.first
        return None if first is None else first - self._clock.now()

    def _tick(self) -> timedelta | None:
        """Start what is nearly due; answer how long until the next is."""
        self._events.begin()
        try:
            self._start_due()
            self._start_aside()
        except BaseException:
            self._contact.broke()
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
            self._pace.took(self._clock.elapsed() - sent)
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
        self._hand_over(self._judged_again(found))

    def _judged_again(self, runs: Iterable[HeldRun]) -> Iterator[HeldRun]:
        """Judge runs by what their start has found; let go of those that end here."""
        now, asked = self._clock.now(), Asked()
        for run in runs:
            verdict = self._judge(run, now, asked)
            if isinstance(verdict, Accepted):
                yield run
            else:
                self._turn_away(run, verdict)
                self._held.drop(run)

    def _wait(self) -> timedelta | None:
        """How long until the first has to be started; None: there is none."""
        first = self._unstarted.first
        return None if first is None else first - self._clock.now() - self.lead

    def _next(self) -> timedelta | None:
        waits = [self._wait(), self._aside.next(self._clock.elapsed())]
        first = min((each for each in waits if each is not None), default=None)
        return None if first is None else max(ZERO, first)
