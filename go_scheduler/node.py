"""The node: one start of a scheduler, from its first tick to its last."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.cleanup import Cleanup
from go_scheduler.clock import ZERO, DrivingClock, StoreClock
from go_scheduler.errors import StoreError
from go_scheduler.events import NodeStarted, NodeStopped, QueueUnserved
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.firing.creation import Creation
from go_scheduler.health import Health, LoopHealth
from go_scheduler.run import run_here
from go_scheduler.running.calling.waiters import Waiters
from go_scheduler.running.execution import Execution
from go_scheduler.stores.hints import News
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.running.calling.workers import Handling
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Addition


_STOP_STEP = timedelta(milliseconds=10)
_RESTING = timedelta(seconds=1)
# How long a stop waits until the listeners have heard of it.
_LISTENING = timedelta(seconds=1)
_LOOK_EVERY = timedelta(seconds=20)
# A node that serves the queue may be about to start.
_PATIENCE = timedelta(minutes=1)
# A node that was not seen for some seconds may still be running.
_ALIVE = timedelta(minutes=5)
_MOST_QUEUES = 100


class Phase(Enum):
    """How far a node has come; it never goes back."""

    RUNNING = "running"
    STOPPING = "stopping"
    """It has been told to stop, and what makes work is being told."""
    DRAINING = "draining"
    """It takes nothing more, waits for what runs, and records its end."""
    STOPPED = "stopped"
    """It has stopped, or was left behind: what still runs there is recorded as well."""


class Node:
    """The loops of one start, wired together; started once and stopped once.

    Args:
        handling: What it calls or hands out; if nothing, it claims nothing.
        store: The store that the loops share.
        clock: Measures time; the store's time is read from the store.
        settings: How the loops behave.
        events: Told of what happens.
        tasks: Schedules the handler's tasks, if the store was away at the start.
    """

    def __init__(
        self,
        handling: Handling,
        store: Store,
        clock: Clock,
        settings: Settings,
        *,
        events: Events = LOG_ALONE,
        tasks: Callable[[], None] | None = None,
    ) -> None:
        self._events = events
        self._tell = events.teller("node").tell
        self.process = os.getpid()
        self.application = handling.application
        self._clock = clock
        self._settings = settings
        self._id = uuid4()
        store_clock = StoreClock(clock, store.now, error=settings.clock_error)
        self._execution = Execution(
            handling, store, store_clock, self._id, settings=settings, events=events
        )
        self.metrics = self._execution.state.metrics
        execution = self._execution
        # The loops wake each other, and hints wake both.
        self._creation = Creation(
            store,
            store_clock,
            settings,
            shares=execution.state.shares,
            created=execution.state.work_found,
            run=execution.direct_start.fire,
            events=events.counting(self.metrics.fired),
        )
        looks = {
            News.DEFINITIONS: self._creation.poll,
            News.INSTANCES: execution.claimer.poll,
        }
        self._hinted = HintedLooks(
            store, clock, runs=handling.claims, looks=looks, events=events
        )
        self._unserved = UnservedQueues(store, clock, events=events)
        self._cleanup = Cleanup(store, settings.kept, execution.state.shares)
        ticker = partial(Ticker, clock=clock, events=events)
        self._cleaning = ticker(
            "cleanup", self._clean_up, interval=settings.cleanup_window / 2
        )
        self._scheduling = (
            [] if tasks is None else [ticker("tasks", tasks, interval=None)]
        )
        self._stopper = ticker("stop", self._stop_step, interval=_STOP_STEP)
        self._condition = threading.Condition()
        self._phase = Phase.RUNNING
        self._quiet_since: timedelta | None = None
        self._resting_since: timedelta | None = None
        self._clean = False
        self._told: list[Callable[[], None]] = []

    @property
    def stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._phase is not Phase.RUNNING

    @property
    def stopped(self) -> bool:
        """Whether it has stopped, or was left behind."""
        return self._phase is Phase.STOPPED

    @property
    def is_own_thread(self) -> bool:
        """Whether this is called by one of its own handlers, listeners or loops."""
        is_run = run_here() in self._execution.state.held.running()
        is_loop = any(ticker.is_current for ticker in self._tickers())
        return is_run or is_loop or self._events.is_own_thread

    def start(self) -> None:
        """Begin to tick; the store need not answer."""
        self._events.watch(self)
        self._tell(
            NodeStarted(
                node=self._id,
                queues=self.queues,
                max_workers=self._settings.max_workers,
            )
        )
        try:
            for ticker in self._tickers():
                ticker.start()
        except BaseException:
            # If no thread can be started, half a node must not go on.
            self._phase = Phase.STOPPING
            self._close(clean=False)
            raise

    def when_stopped(self, tell: Callable[[], None]) -> None:
        """Call this once it has stopped, at once if it has."""
        with self._condition:
            if not self.stopped:
                self._told.append(tell)
                return
        tell()

    def look(self, stored: TaskDefinition | None = None) -> None:
        """Look for due definitions at once, and for instances as soon as they fired.

        Args:
            stored: One that has been stored a moment ago.
        """
        # A claim before they fired would only delay the claim that finds them.
        self._creation.look(stored)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it serves."""
        return self._execution.state.claimant.queues

    @property
    def waiters(self) -> Waiters:
        """Those that wait for what it hands out."""
        waiters = self._execution.workers
        assert isinstance(waiters, Waiters), "it was made to hand out"
        return waiters

    def subscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues as well, for those that wait for them."""
        self._execution.subscribe(queues)

    def unsubscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from this set of queues no more."""
        self._execution.claimer.unsubscribe(queues)

    def takes(self, queue: str) -> bool:
        """Whether something more in this queue would run here at once."""
        return self._execution.direct_start.free((queue,)) > 0

    def look_for_instances(self, queues: Set[str] | None = None) -> None:
        """Look for instances at once: one may be there that was not made by firing.

        Args:
            queues: In which queues; None: in any.
        """
        self._execution.claimer.look(queues)

    def put(
        self, definition: TaskDefinition, created: Callable[[TaskDefinition], None]
    ) -> TaskDefinition | None:
        """Put a definition, and run it at once if it is due and new.

        Returns None if nothing was put, or if that is not known.
        """
        firing = self._creation.first_step(definition)
        if firing is None:
            return None

        def tell(put: TaskDefinition, started: bool) -> None:
            created(put)
            if started:
                self._creation.tell_fired(firing)
            else:
                self.look(put)

        return self._execution.direct_start.put(firing, tell)

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        created: Callable[[Sequence[TaskInstance]], None],
        *,
        queue: str | None,
    ) -> Sequence[TaskInstance] | None:
        """Add instances, and run at once those that are due, as ``DirectStart.add``."""
        return self._execution.direct_start.add(
            definition_id, additions, created, queue=queue
        )

    def request_stop(self) -> None:
        """Begin to stop; returns at once."""
        with self._condition:
            if self.stopping:
                return
            self._stopper.start()
            self._phase = Phase.STOPPING
        self._hinted.close()
        # Needs no store: nothing new begins from here on, and what is held goes back.
        self._stop_making()
        self._execution.leave()
        with self._condition:
            # Last: whoever sees it may rely on the lines above.
            if self._phase is Phase.STOPPING:
                self._phase = Phase.DRAINING

    def stop(self, timeout: timedelta | None) -> bool:
        """Stop, and wait until it has.

        Args:
            timeout: How long to wait before leaving behind what still runs; None: until
                each handler has come back or has outlived its ``expire_after``.

        Returns:
            Whether all came back and was recorded. False at once if called by one of
            its own handlers, listeners or loops, which cannot wait for themselves: it
            stops all the same.
        """
        self.request_stop()
        if self.is_own_thread:
            return False
        until = None if timeout is None else self._clock.elapsed() + timeout
        with self._condition:
            while not self.stopped:
                if until is not None and self._clock.elapsed() >= until:
                    break
                self._clock.wait(self._condition, until)
        return self.leave_behind()

    def leave_behind(self) -> bool:
        """Wait no longer; what still runs is looked after while the process lives.

        Returns:
            Whether it had stopped by then, and all came back and was recorded.
        """
        self._execution.writer.leave_behind()
        self._report_stopped(clean=False)
        return self._clean

    @property
    def reaches_store(self) -> bool:
        """Whether the store has answered each loop that asked it last."""
        errors = (each.error for each in self._looked_at())
        return not any(isinstance(each, StoreError) for each in errors)

    def health(self) -> Health:
        """How it is."""
        execution, elapsed = self._execution, self._clock.elapsed()
        loops = {each.name: LoopHealth.of(each, elapsed) for each in self._looked_at()}
        stuck, trouble = execution.heartbeat.stuck(), execution.workers.trouble
        hanging = self._creation.hanging
        return Health(
            ok=all(loop.ok for loop in loops.values())
            and not (trouble or stuck or hanging)
            and self._phase in (Phase.RUNNING, Phase.STOPPING),
            trouble=trouble,
            warnings=execution.admission.notices.texts + self._unserved.texts,
            node=self._id,
            loops=loops,
            store_reachable=self.reaches_store,
            stuck_workers=stuck,
            hanging_triggers=hanging,
            waiting=execution.state.held.waiting,
            busy=execution.state.held.busy,
            unrecorded=execution.writer.unrecorded,
            lateness=execution.lateness,
        )

    def _tickers(self) -> list[Ticker]:
        return [*self._looked_at(), *self._hinted.tickers]

    def _looked_at(self) -> list[Ticker]:
        """The loops that count for health; hints do not, as nothing depends on them."""
        loops = [*self._execution.tickers, *self._creation.tickers]
        return [*loops, *self._scheduling, self._cleaning]

    def _clean_up(self) -> timedelta | None:
        again = self._cleanup.tick()
        # Closed here, where nobody waits for it.
        self._unserved.look(self.queues)
        return again

    def _stop_step(self) -> None:
        """Stop what makes work, wait for what runs, and stop what records it last."""
        # Repeated at each step: a claim may have been under way.
        ended = self._stop_making() and self._execution.has_left
        if self._execution.is_running:
            self._quiet_since = None
            return
        if self._quiet_since is None:
            self._quiet_since = self._clock.elapsed()
        waited = self._clock.elapsed() - self._quiet_since
        done = ended and not self._execution.writer.unrecorded
        is_resting = self._resting_since is not None
        if is_resting or (done and self._execution.give_back_unknown()):
            self._stop_the_rest()
        elif waited >= self._settings.lease:
            # The store was away for so long that the claims have lapsed anyway.
            self._close(clean=False)

    def _stop_making(self) -> bool:
        """Claim and create nothing more, and give back what has not been called."""
        makers = [
            *self._creation.tickers,
            *self._scheduling,
            self._cleaning,
            *self._execution.makers,
        ]
        self._execution.direct_start.stop()
        for ticker in makers:
            ticker.stop()
        # Before giving back, so that what a loop took as it ended goes back as well.
        ended = all(ticker.ended for ticker in makers)
        self._execution.give_back()
        return ended

    def _stop_the_rest(self) -> None:
        """Stop recording and renewing; a loop still in a store call does no harm."""
        if self._resting_since is None:
            self._resting_since = self._clock.elapsed()
            self._execution.write_last_stats()
        self._execution.arrivals.close()
        for ticker in self._tickers():
            ticker.stop()
        waited = self._clock.elapsed() - self._resting_since
        if waited >= _RESTING or all(each.ended for each in self._tickers()):
            self._close(clean=not self._execution.heartbeat.stuck())

    def _close(self, *, clean: bool) -> None:
        self._hinted.close()
        for ticker in [*self._tickers(), self._stopper]:
            ticker.stop()
        self._execution.workers.stop()
        self._execution.arrivals.close()
        # Set last: whoever waits for it may then close the store.
        self._report_stopped(clean=clean)

    def _report_stopped(self, *, clean: bool) -> None:
        with self._condition:
            if self.stopped:
                return
            self._phase = Phase.STOPPED
            self._clean = clean
        self._tell(NodeStopped(node=self._id, clean=clean))
        self._events.close(self._clock.elapsed() + _LISTENING)
        with self._condition:
            self._condition.notify_all()
        for tell in self._told:
            tell()


class UnservedQueues:
    """Looks now and then for queues that no node serves; warns once for each.

    Args:
        store: Where to look.
        clock: Measures elapsed time.
        events: Told of them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("node")
        self._store = store
        self._clock = clock
        self._looked: timedelta | None = None
        self._since: dict[str, timedelta] = {}
        self._texts: dict[str, str] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """A text for each of them."""
        return tuple(self._texts.values())

    def look(self, own: Collection[str]) -> None:
        """Look, unless the last look was a moment ago.

        Args:
            own: The queues that this node serves.
        """
        elapsed = self._clock.elapsed()
        if self._looked is not None and elapsed - self._looked < _LOOK_EVERY:
            return
        self._looked = elapsed
        unserved, served = self._unserved(own)
        self._since = {each: self._since.get(each, elapsed) for each in unserved}
        texts = {
            queue: _text(queue, served)
            for queue, since in self._since.items()
            if elapsed - since >= _PATIENCE
        }
        for queue in texts.keys() - self._texts.keys():
            self._events.tell(QueueUnserved(queue=queue, text=texts[queue]))
        self._texts = texts

    def _unserved(self, own: Collection[str]) -> tuple[Sequence[str], Collection[str]]:
        """The queues that have something due and no node, and those that have one."""
        found: list[str] = []
        served = set(own)
        # If this node serves all that is due, the other nodes do not matter.
        if not self._store.list_due_queues(apart_from=own):
            return found, served
        for contact in self._store.list_contacts(within=_ALIVE):
            if contact.announced.queues is None:
                # It may serve all queues.
                return found, served
            if not contact.announced.stopping:
                served.update(contact.announced.queues)
        while len(found) < _MOST_QUEUES:
            more = self._store.list_due_queues(apart_from=served.union(found))
            if not more:
                break
            found += more
        return found, served


def _text(queue: str, served: Collection[str]) -> str:
    names = ", ".join(map(repr, sorted(served)[:_MOST_QUEUES])) or "none"
    return (
        f"queue {queue!r} is served by no node, and something is due there; served are"
        f" {names}: name it in the queues= of a scheduler, or mind its spelling"
    )


class HintedLooks:
    """Waits for hints on a thread of its own, and has the node look.

    On a driving clock no thread can wait; there only the loops' own looks count.

    Args:
        store: Gives the hints, if it has any.
        clock: Measures the time between ticks.
        runs: Whether the node runs anything; otherwise it need not look.
        looks: What to call for each kind of hint.
        events: Told when hints fail.

    Attributes:
        tickers: The ticker of the thread, if there is one.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        runs: bool,
        looks: Mapping[News, Callable[[], None]],
        events: Events = LOG_ALONE,
    ) -> None:
        waits = runs and not isinstance(clock, DrivingClock)
        self._hints = store.hints() if waits else None
        self._looks = looks
        self._again = False
        self.tickers: list[Ticker] = []
        if self._hints is not None:
            self.tickers.append(
                Ticker("listener", self.tick, interval=None, clock=clock, events=events)
            )

    def tick(self) -> timedelta:
        """Wait for a hint and look; return when to look for what the hint left out."""
        assert self._hints is not None, "else nothing ticks"
        # What the hint left out may be of the other kind.
        news = News.ANYTHING if self._again else self._hints.wait()
        for each, look in self._looks.items():
            if each in news:
                look()
        self._again = bool(news) and not self._again and self._hints.blind > ZERO
        return self._hints.blind if self._again else ZERO

    def close(self) -> None:
        """End the wait for hints."""
        for each in self.tickers:
            each.stop()
        if self._hints is not None:
            self._hints.close()
