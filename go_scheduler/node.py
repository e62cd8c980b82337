"""The node: one start of a scheduler, from its first tick to its last."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from go_scheduler.cleanup import Cleanup
from go_scheduler.clock import ZERO, Clock, DrivingClock, StoreClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events import NodeStarted, NodeStopped, QueueUnserved
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.firing.definition_scheduler import DefinitionScheduler, ZoneWatch
from go_scheduler.health import Health, Lateness, LoopHealth, RecentLateness
from go_scheduler.run import run_here
from go_scheduler.running.calling.waiters import Waiters
from go_scheduler.running.calling.workers import Handling, Workers
from go_scheduler.running.claimer import Claimer
from go_scheduler.running.heartbeat import Heartbeat
from go_scheduler.running.metrics import Objective
from go_scheduler.running.recovery import Presence
from go_scheduler.running.result_writer import ResultWriter
from go_scheduler.running.start_queue import StartQueue
from go_scheduler.running.state import NodeState
from go_scheduler.running.withdrawing import join
from go_scheduler.stores.base import Store, is_run_by
from go_scheduler.stores.hints import News
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.settings import Settings
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

    Attributes:
        state: What its parts share.
        writer: Writes what becomes of runs.
        workers: Call the handler, or hand out what others run.
        makers: The tickers of what claims, starts and creates; a stop ends these first.
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
        self.state = state = NodeState(
            store, store_clock, self._id, settings, events=events
        )
        self.metrics = state.metrics
        self._objective = Objective(state)
        self._presence = presence = Presence(state, handling, self._objective)
        self.writer = writer = ResultWriter(state)
        workers: Workers | Waiters
        if handling.hands_out:
            workers = Waiters(state, writer)
        else:
            workers = Workers(state, handling, writer=writer)
        self.workers = workers
        heartbeat = Heartbeat(state, writer, workers)
        self._start_queue = start_queue = StartQueue(
            state, handling.handler, writer=writer, workers=workers
        )
        join(store, start_queue.withdrawing)
        self._claimer = claimer = Claimer(
            state,
            writer=writer,
            workers=workers,
            start_queue=start_queue,
            presence=presence,
        )
        state.work_found.connect(handling.beside)
        # The loops wake each other, and hints wake both.
        counting = events.counting(self.metrics.fired)
        self._definitions = definitions = DefinitionScheduler(
            store,
            store_clock,
            settings,
            shares=state.shares,
            created=state.work_found,
            directly=claimer.firing,
            events=counting,
        )
        self._zones = zones = ZoneWatch(
            store, store_clock, settings, created=state.work_found, events=counting
        )
        looks = {News.DEFINITIONS: definitions.poll, News.INSTANCES: claimer.poll}
        self._hinted = HintedLooks(
            store, clock, runs=handling.claims, looks=looks, events=events
        )
        self._unserved = UnservedQueues(store, clock, events=events)
        self._cleanup = Cleanup(store, settings.kept, state.shares)
        scheduling = [] if tasks is None else [state.ticker("tasks", tasks)]
        cleaning = state.ticker("cleanup", self._clean_up, settings.cleanup_window / 2)
        creating = [definitions.ticker, zones.ticker, *scheduling, cleaning]
        executing = [claimer.ticker, *start_queue.tickers, claimer.arriving]
        recording = [writer.ticker, heartbeat.ticker]
        if not handling.claims:
            claimer.stop_starting()
            executing, recording = [], []
        elif not handling.hands_out:
            claimer.subscribe(tuple(settings.queues))
        self.makers = [*creating, *executing]
        # These count for health; hints do not, as nothing depends on them.
        self._loops = [presence.ticker, *executing, *recording, *creating]
        self._tickers = [*self._loops, *self._hinted.tickers]
        self._stopper = state.ticker("stop", self._stop_step, _STOP_STEP)
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
        is_run = run_here() in self.state.held.running()
        is_loop = any(ticker.is_current for ticker in self._tickers)
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
            for ticker in self._tickers:
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
        self._definitions.look(stored)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it serves."""
        return self.state.claimant.queues

    @property
    def waiters(self) -> Waiters:
        """Those that wait for what it hands out."""
        assert isinstance(self.workers, Waiters), "it was made to hand out"
        return self.workers

    def subscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues as well, for those that wait for them."""
        self._claimer.subscribe(queues)
        # The other nodes are told that somebody serves them.
        self._presence.ticker.wake()

    def unsubscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from this set of queues no more."""
        self._claimer.unsubscribe(queues)

    def takes(self, queue: str) -> bool:
        """Whether something more in this queue would run here at once."""
        return self._claimer.free((queue,)) > 0

    def look_for_instances(self, queues: Set[str] | None = None) -> None:
        """Look for instances at once: one may be there that was not made by firing.

        Args:
            queues: In which queues; None: in any.
        """
        self._claimer.look(queues)

    def put(
        self, definition: TaskDefinition, created: Callable[[TaskDefinition], None]
    ) -> TaskDefinition | None:
        """Put a definition, and run it at once if it is due and new.

        Returns None if nothing was put, or if that is not known.
        """
        firing = self._definitions.first_step(definition)
        if firing is None:
            return None
        with (
            # Puts by themselves are tried again, and say what there is to say.
            suppress(StoreUnavailableError),
            self._claimer.directly(1, {definition.queue}) as (claimant, take),
        ):
            if claimant is None or not is_run_by(definition, claimant):
                return None
            answer = self.state.store.put_definitions(
                [definition], firings=[firing], claimant=claimant
            )
            [put] = answer.definitions
            created(put)
            if answer.started:
                self._definitions.tell_first(firing)
                take(answer.started)
            else:
                self.look(put)
            return put
        return None

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        created: Callable[[Sequence[TaskInstance]], None],
        *,
        queue: str | None,
    ) -> Sequence[TaskInstance] | None:
        """Add instances, and run them if they are due.

        Args:
            definition_id: Of which definition.
            additions: What to add.
            created: Told of the answer before any of it runs.
            queue: The queue of the definition; None: it may be any.

        Returns:
            As ``Store.add_instances``; None: nothing was added.

        Raises:
            TaskDefinitionNotFoundError: There is no such definition.
        """
        now = self.state.clock.now()
        if any(each.execute_at(now) > now for each in additions):
            return None
        queues = self.queues if queue is None else (queue,)
        with self._claimer.directly(len(additions), queues) as (claimant, take):
            if claimant is None:
                return None
            added = self.state.store.add_instances(
                definition_id, additions, claimant=claimant
            )
            created(added)
            ids = {each.id for each in additions}
            mine = [e for e in added if e.id in ids and e.claimed_by == self._id]
            take(mine)
        if len(mine) < len(additions):
            self._claimer.look()
        return added

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
        self._presence.leave()
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
        self.writer.leave_behind()
        self._report_stopped(clean=False)
        return self._clean

    @property
    def reaches_store(self) -> bool:
        """Whether the store has answered each loop that asked it last."""
        errors = (each.error for each in self._loops)
        return not any(isinstance(each, StoreError) for each in errors)

    def health(self) -> Health:
        """How it is."""
        elapsed, held = self._clock.elapsed(), self.state.held
        loops = {each.name: LoopHealth.of(each, elapsed) for each in self._loops}
        stuck, trouble = len(held.hung_runs), self.workers.trouble
        hanging = len(self._definitions.hanging | self._zones.hanging)
        return Health(
            ok=all(loop.ok for loop in loops.values())
            and not (trouble or stuck or hanging)
            and self._phase in (Phase.RUNNING, Phase.STOPPING),
            trouble=trouble,
            warnings=self._start_queue.notices.texts + self._unserved.texts,
            node=self._id,
            loops=loops,
            store_reachable=self.reaches_store,
            stuck_workers=stuck,
            hanging_triggers=hanging,
            waiting=held.waiting,
            busy=held.busy,
            unrecorded=self.writer.unrecorded,
            lateness=self._lateness(),
        )

    def _lateness(self) -> RecentLateness:
        """How late runs began here lately."""
        recent = self.metrics.recent()
        return RecentLateness(
            **{name: Lateness.of(each) for name, each in recent._asdict().items()},
            objective=self._objective.wanted,
            met=self._objective.met,
        )

    def _clean_up(self) -> timedelta | None:
        again = self._cleanup.tick()
        # Closed here, where nobody waits for it.
        self._unserved.look(self.queues)
        return again

    def _stop_step(self) -> None:
        """Stop what makes work, wait for what runs, and stop what records it last."""
        # Repeated at each step: a claim may have been under way.
        ended = self._stop_making() and self._presence.has_left
        held = self.state.held
        if not set(held.hung()).issuperset(held.running()):
            self._quiet_since = None
            return
        if self._quiet_since is None:
            self._quiet_since = self._clock.elapsed()
        waited = self._clock.elapsed() - self._quiet_since
        done = ended and not self.writer.unrecorded
        is_resting = self._resting_since is not None
        if is_resting or (done and self._has_given_back_unknown()):
            self._stop_the_rest()
        elif waited >= self._settings.lease:
            # The store was away for so long that the claims have lapsed anyway.
            self._close(clean=False)

    def _stop_making(self) -> bool:
        """Claim and create nothing more, and give back what has not been called."""
        self._claimer.stop_starting()
        for ticker in self.makers:
            ticker.stop()
        # Before giving back, so that what a loop took as it ended goes back as well.
        ended = all(ticker.ended for ticker in self.makers)
        self._claimer.hold_late()
        for run in self.state.held.uncalled():
            self.writer.give_back(run, "its node stops")
        return ended

    def _has_given_back_unknown(self) -> bool:
        """Give back what an answer that was lost has claimed; false: not yet."""
        try:
            self._claimer.give_back_unknown()
        except StoreError:
            return False
        return True

    def _stop_the_rest(self) -> None:
        """Stop recording and renewing; a loop still in a store call does no harm."""
        if self._resting_since is None:
            self._resting_since = self._clock.elapsed()
            # Unless the store does not take them.
            with suppress(StoreError):
                self._presence.write_stats(last=True)
        self._claimer.close()
        for ticker in self._tickers:
            ticker.stop()
        waited = self._clock.elapsed() - self._resting_since
        if waited >= _RESTING or all(each.ended for each in self._tickers):
            self._close(clean=not self.state.held.hung_runs)

    def _close(self, *, clean: bool) -> None:
        self._hinted.close()
        for ticker in [*self._tickers, self._stopper]:
            ticker.stop()
        self.workers.stop()
        self._claimer.close()
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
