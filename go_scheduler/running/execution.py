"""A node's execution side, wired: the instance runner with all its parts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.running.admission import Admission
from go_scheduler.running.calling.spares import Spares
from go_scheduler.running.calling.workers import Workers
from go_scheduler.running.contact import Contact
from go_scheduler.running.held import Held
from go_scheduler.running.instance_runner import InstanceRunner
from go_scheduler.running.keeper import Keeper
from go_scheduler.running.recorder import Recorder
from go_scheduler.running.room import Room
from go_scheduler.running.starter import Starter
from go_scheduler.running.takeover import Takeover
from go_scheduler.running.timer import Timer
from go_scheduler.ticking.pace import Pace
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.running.calling.event_loop import ApplicationLoop
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant


# What is due when the store comes back has waited for long enough.
_LONGEST_BACKOFF = timedelta(seconds=1)


class Execution:
    """What claims, starts, calls, records and renews the instances of one node.

    Args:
        handler: What is called.
        store: Where to claim and to record.
        clock: The store's time, as this node has it.
        claimant: The node.
        settings: How the parts behave.
        executor: Calls the handlers instead of the node's own threads.
        application: The event loop on which async handlers run; None: one of its own.
        events: Told of what happens.
    """

    def __init__(
        self,
        handler: Handler,
        store: Store,
        clock: StoreClock,
        claimant: Claimant,
        *,
        settings: Settings,
        executor: Executor | None,
        application: ApplicationLoop | None = None,
        events: Events = LOG_ALONE,
    ) -> None:
        base = clock.base
        contact = Contact(base, silence=settings.lease)
        takeover = Takeover(store, clock, claimant, contact=contact, look=self.look)
        pace = Pace(settings.runner_window)
        self.held = Held()
        self.recorder = Recorder(
            store,
            clock,
            max_hangs=settings.max_hangs,
            wake=self._record_soon,
            recorded=self._has_room,
        )
        spares = Spares(self.held, most=settings.spares)
        self.keeper = Keeper(
            store,
            clock,
            held=self.held,
            unrecorded=self.recorder.unrecorded_runs,
            give_up=self.recorder.give_up,
            left=self._give_back_left,
            replace=self._replace,
            contact=contact,
            lease=settings.lease,
            wake=self._keep_soon,
        )
        self.workers = Workers(
            handler,
            clock,
            held=self.held,
            spares=spares,
            recorder=self.recorder,
            watch=self.keeper.watch,
            extended=self._keep_soon,
            lease=settings.lease,
            max_workers=settings.max_workers,
            executor=executor,
            application=application,
        )
        timer = Timer(clock, hand_over=self.workers.submit, wake=self._time_soon)
        admission = self.admission = Admission(
            handler, clock, recorder=self.recorder, spares=spares
        )
        starter = Starter(
            store,
            clock,
            claimant,
            held=self.held,
            admission=admission,
            timer=timer,
            pace=pace,
            contact=contact,
            wake=self._start_soon,
        )
        self._runner = InstanceRunner(
            store,
            clock,
            claimant,
            held=self.held,
            room=Room(
                clock,
                settings,
                held=self.held,
                recorder=self.recorder,
                workers=self.workers,
            ),
            admission=admission,
            starter=starter,
            recorder=self.recorder,
            takeover=takeover,
            pace=pace,
        )
        half = settings.runner_window / 2
        third = settings.lease / 3
        self._timing = Ticker("timer", timer.tick, interval=None, clock=base)
        self._running = Ticker(
            "instance runner",
            self._runner.tick,
            interval=half,
            clock=base,
            longest_backoff=_LONGEST_BACKOFF,
        )
        self._starting = Ticker(
            "starter",
            starter.tick,
            interval=None,
            clock=base,
            longest_backoff=_LONGEST_BACKOFF,
        )
        # So often that a node which dies and starts again leaves no gap that counts.
        self._taking_over = Ticker(
            "takeover", takeover.tick, interval=settings.lease / 6, clock=base
        )
        self._recording = Ticker(
            "recorder", self.recorder.tick, interval=None, clock=base
        )
        # After an outage it must have renewed before the lease is over.
        self._keeping = Ticker(
            "keeper",
            self.keeper.tick,
            interval=third,
            clock=base,
            longest_backoff=min(third / 2, timedelta(seconds=5)),
        )
        self.makers = [self._taking_over, self._running, self._starting, self._timing]
        self.tickers = [*self.makers, self._recording, self._keeping]

    @property
    def is_running(self) -> bool:
        """Whether a handler runs that has not been given up."""
        return not set(self.held.hung()).issuperset(self.held.running())

    def look(self) -> None:
        """Look for instances to claim at once."""
        self._runner.look()
        self._running.wake()

    def give_back(self) -> None:
        """Give back every instance that has not been called."""
        for run in self.held.uncalled():
            if self.held.drop(run):
                self.recorder.release(run)

    def _has_room(self) -> None:
        if self._runner.hungry:
            self.look()

    def _give_back_left(self) -> None:
        self.workers.give_back_left()

    def _replace(self, run: HeldRun) -> None:
        self.workers.replace(run)

    def _record_soon(self) -> None:
        self._recording.wake()

    def _keep_soon(self) -> None:
        self._keeping.wake()

    def _start_soon(self) -> None:
        self._starting.wake()

    def _time_soon(self) -> None:
        self._timing.wake()
