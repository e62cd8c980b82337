"""A node's execution side: what claims, starts, calls, records and renews."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.health import Lateness, RecentLateness
from go_scheduler.running.admission import Admission
from go_scheduler.running.arrivals import Arrivals
from go_scheduler.running.calling.waiters import Waiters
from go_scheduler.running.calling.workers import Workers
from go_scheduler.running.claimer import Claimer
from go_scheduler.running.direct_start import DirectStart
from go_scheduler.running.heartbeat import Heartbeat
from go_scheduler.running.lock_waiters import LockWaiters
from go_scheduler.running.metrics import Objective
from go_scheduler.running.presence import Presence
from go_scheduler.running.recovery import Takeover, Unanswered
from go_scheduler.running.result_writer import ResultWriter
from go_scheduler.running.start_queue import StartQueue
from go_scheduler.running.state import NodeState
from go_scheduler.running.withdrawing import join

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.calling.workers import Handling
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store


class Execution:
    """What claims, starts, calls, records and renews the instances of one node.

    If it calls nothing and hands out nothing, it only tells the others of this node.

    Args:
        handling: What is called, and where.
        store: Where to claim and to record.
        clock: The store's time, as this node has it.
        node: Its id.
        settings: How the parts behave.
        events: Told of what happens.

    Attributes:
        state: What the parts share.
        writer: Writes what becomes of runs.
        heartbeat: Keeps the claims of runs.
        workers: Call the handler, or hand out what others run.
        admission: Keeps out what is not to be called here.
        claimer: Claims what is due.
        direct_start: Starts what is created here and due.
        arrivals: Let in what the store has given.
        makers: The tickers of what makes work; a stop ends these first.
        tickers: Those of all its parts.
    """

    def __init__(
        self,
        handling: Handling,
        store: Store,
        clock: StoreClock,
        node: UUID,
        *,
        settings: Settings,
        events: Events = LOG_ALONE,
    ) -> None:
        self.state = state = NodeState(store, clock, node, settings, events=events)
        self._objective = Objective(state)
        self._presence = Presence(state, handling, self._objective)
        self.writer = writer = ResultWriter(state)
        workers: Workers | Waiters
        if handling.hands_out:
            workers = Waiters(state, writer)
        else:
            workers = Workers(state, handling, writer=writer)
        self.workers = workers
        self.heartbeat = heartbeat = Heartbeat(state, writer, workers)
        self.admission = admission = Admission(state, handling.handler, writer)
        join(store, admission.withdrawing)
        lock_waiters = LockWaiters(state)
        start_queue = StartQueue(
            state, workers=workers, admission=admission, lock_waiters=lock_waiters
        )
        self._takeover = takeover = Takeover(state, self._presence)
        self._unanswered = unanswered = Unanswered(state, writer)
        self.arrivals = arrivals = Arrivals(
            state,
            admission=admission,
            start_queue=start_queue,
            unanswered=unanswered,
        )
        self.claimer = claimer = Claimer(
            state,
            writer=writer,
            workers=workers,
            admission=admission,
            start_queue=start_queue,
            arrivals=arrivals,
            takeover=takeover,
            unanswered=unanswered,
        )
        state.work_found.connect(handling.beside)
        self.direct_start = DirectStart(
            state, self._presence, claimer=claimer, arrivals=arrivals
        )
        self.makers = [
            claimer.ticker,
            *start_queue.tickers,
            lock_waiters.ticker,
            arrivals.ticker,
        ]
        self.tickers = [
            takeover.ticker,
            *self.makers,
            writer.ticker,
            heartbeat.ticker,
        ]
        if not handling.claims:
            self.direct_start.stop()
            self.makers.clear()
            self.tickers = [takeover.ticker]
        elif not handling.hands_out:
            claimer.subscribe(tuple(settings.queues))

    def subscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues as well, for those that wait for them."""
        self.claimer.subscribe(queues)
        # The other nodes are told that somebody serves them.
        self._takeover.ticker.wake()

    @property
    def is_running(self) -> bool:
        """Whether a handler runs that has not been given up."""
        held = self.state.held
        return not set(held.hung()).issuperset(held.running())

    @property
    def has_left(self) -> bool:
        """Whether the others know that this node takes nothing more, if they can."""
        return self._takeover.has_left

    @property
    def lateness(self) -> RecentLateness:
        """How late runs began here lately."""
        recent = self.state.metrics.recent()
        return RecentLateness(
            **{name: Lateness.of(each) for name, each in recent._asdict().items()},
            objective=self._objective.wanted,
            met=self._objective.met,
        )

    def leave(self) -> None:
        """Tell the others that this node takes nothing more."""
        self._takeover.leave()

    def give_back(self) -> None:
        """Give back every instance that has not been called."""
        self.arrivals.hold_late()
        for run in self.state.held.uncalled():
            self.writer.give_back(run, "its node stops")

    def give_back_unknown(self) -> bool:
        """Give back what an answer that was lost has claimed; false: not yet."""
        if self._unanswered.any:
            try:
                self._unanswered.give_back()
            except StoreError:
                return False
        return True

    def write_last_stats(self) -> None:
        """Write what has been counted and is not yet written, if the store takes it."""
        with suppress(StoreError):
            self._presence.write_stats(last=True)
