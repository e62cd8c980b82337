"""A node's execution side: runner, timer, workers, recorder and keeper, wired."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.held import Held
from go_scheduler.instance_runner import InstanceRunner
from go_scheduler.keeper import Contact, Keeper
from go_scheduler.recorder import Recorder
from go_scheduler.ticker import Ticker
from go_scheduler.timer import Timer
from go_scheduler.workers import Workers

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers import Handler
    from go_scheduler.models import Claimant
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store


class Execution:
    """What claims, calls and records the instances of one node.

    Args:
        handler: What is called.
        store: Where to claim and to record.
        clock: The store's time, as this node has it.
        claimant: The node.
        settings: How the parts behave.
        executor: Calls the handlers instead of the node's own threads.
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
    ) -> None:
        base = clock.base
        contact = Contact(base, silence=max(settings.lease, settings.runner_window))
        self.held = Held()
        self.recorder = Recorder(
            store, clock, wake=self._record_soon, recorded=self._has_room
        )
        self.keeper = Keeper(
            store,
            clock,
            held=self.held,
            give_up=self.recorder.fail,
            contact=contact,
            lease=settings.lease,
            wake=self._keep_soon,
        )
        self.workers = Workers(
            handler,
            clock,
            held=self.held,
            recorder=self.recorder,
            watch=self.keeper.watch,
            extended=self._keep_soon,
            lease=settings.lease,
            max_workers=settings.max_workers,
            executor=executor,
        )
        timer = Timer(clock, hand_over=self.workers.submit, wake=self._time_soon)
        self._runner = InstanceRunner(
            store,
            clock,
            claimant,
            handler=handler,
            held=self.held,
            timer=timer,
            recorder=self.recorder,
            contact=contact,
            window=settings.runner_window,
            max_held=settings.max_held,
            max_workers=settings.max_workers,
        )
        half = settings.runner_window / 2
        third = settings.lease / 3
        self._timing = Ticker("timer", timer.tick, interval=None, clock=base)
        self._running = Ticker(
            "instance runner", self._runner.tick, interval=half, clock=base
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
        self.makers = [self._running, self._timing]
        self.tickers = [*self.makers, self._recording, self._keeping]

    @property
    def is_running(self) -> bool:
        """Whether a handler runs that has not been given up."""
        return any(not run.hung for run in self.held.running())

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

    def _record_soon(self) -> None:
        self._recording.wake()

    def _keep_soon(self) -> None:
        self._keeping.wake()

    def _time_soon(self) -> None:
        self._timing.wake()
