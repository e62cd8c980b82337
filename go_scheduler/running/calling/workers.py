"""The workers: threads, an event loop, or an executor on which handlers are called."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from go_scheduler.errors import SchedulerStateError
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.handlers.registry import refuse_generator
from go_scheduler.running.calling.calls import await_here
from go_scheduler.running.calling.event_loop import OwnEventLoop, running_loop
from go_scheduler.running.calling.places import Places
from go_scheduler.running.calling.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from concurrent.futures import Executor, Future

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.calling.calls import Calls
    from go_scheduler.running.calling.event_loop import EventLoop
    from go_scheduler.running.calling.feed import Feed
    from go_scheduler.running.calling.handling import Handling
    from go_scheduler.running.calling.spares import Spares
    from go_scheduler.running.held_run import HeldRun

_NOT_CALLED = "its executor or thread does not call it"


def _nobody() -> None:
    """Nobody is told."""


class Workers:
    """Have a handler called for every run that is handed over.

    Sync handlers are called on daemon threads, started as they are needed, ``async
    def`` ones as tasks of one event loop, the application's if there is one; of each at
    most ``max_workers`` at once.

    Args:
        calls: Calls the handler.
        clock: Measures elapsed time.
        spares: Says how many that hang may be replaced.
        handling: Says where the handler is called.
        max_workers: The most handlers that run at once.
        grown: Called when an executor that changes takes more than before.
        events: Told of what cannot be called.
    """

    def __init__(
        self,
        calls: Calls,
        clock: StoreClock,
        *,
        spares: Spares,
        handling: Handling,
        max_workers: int,
        grown: Callable[[], None] = _nobody,
        events: Events = LOG_ALONE,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._spares = spares
        self._application = handling.application
        # Bound once: each run is called so, and each further call costs it.
        self._perform = partial(calls.call, await_result=self._await_result)
        if self._application is not None:
            self._perform = partial(self._application.call, self._perform)
        self._threads = Threads(self._perform, most=max_workers, events=events)
        self._tasks = Places(max_workers, self._begin_task)
        self._feed: Feed | None = None
        self.size = max_workers
        if handling.executor is not None:
            # Here, as few have one: what is about processes takes long to import.
            from go_scheduler.running.calling.feed import Feed

            self._feed = Feed(
                handling.executor,
                self._hand_to,
                give_back=partial(calls.give_back, reason=_NOT_CALLED),
                clock=clock,
                max_workers=max_workers,
                grown=grown,
                events=events,
            )
            self.size = self._feed.size
        self._lock = threading.Lock()
        self._stopped = False
        self._own_loop: OwnEventLoop | None = None

    @property
    def room(self) -> int | None:
        """How many more runs it takes at this moment; None: as many as its size."""
        return None if self._feed is None else self._feed.room

    @property
    def trouble(self) -> str | None:
        """Why this node should be given nothing to call; None: it should."""
        left = self._spares.unreplaced
        if (
            self._spares.used_up
            or len(left) >= self.size
            or any(self._is_blocked_by(run) for run in left)
        ):
            hanging = len(self._spares.hanging)
            return f"{hanging} handlers hang, and no worker may take their place"
        if self._application is not None and self._application.trouble is not None:
            return self._application.trouble
        return None if self._feed is None else self._feed.trouble

    def ready(self) -> bool:
        """Whether there is no trouble; an executor that refused is asked again."""
        if self._feed is not None:
            self._feed.revive()
        return self.trouble is None

    def prepare(self, runs: Iterable[HeldRun]) -> None:
        """Have threads ready for runs that fall due soon, as many as do so at once."""
        if self._feed is None:
            sync = (run for run in runs if not self._calls.is_async(run.instance))
            crowds = Counter(run.instance.due_at for run in sync)
            self._threads.prepare(max(crowds.values(), default=0))

    def submit(self, runs: Iterable[HeldRun]) -> None:
        """Call the handler for runs that are due, each as soon as a worker is free."""
        failure: Exception | None = None
        for run in self._calls.await_worker(runs):
            try:
                self._hand_over(run)
            # No thread can be started, or the executor has been shut down.
            except Exception as error:
                failure = error
                self._calls.give_back(run, _NOT_CALLED)
        if failure is not None:
            raise failure

    def end(self, run: HeldRun) -> bool:
        """Tell the handler of a run to end; false: it is on a thread, or elsewhere."""
        if self._feed is not None and self._feed.end(run):
            return True
        loop = self._application or self._own_loop
        return loop is not None and loop.cancel(run)

    def replace(self, run: HeldRun) -> None:
        """Let another worker take the place of one whose handler hangs, if it may."""
        if self._feed is not None:
            # A process can be ended; what else an executor has is not ours.
            self._feed.end(run)
            return
        # Neither is the application's loop.
        ours = not self._blocks_application(run)
        if ours and self._spares.take(run):
            self._threads.replace(run)
            if self._is_blocked_by(run):
                self._leave_loop()
            self._tasks.leave(run)

    def give_back_left(self) -> None:
        """Give back what never goes on, as the application has closed its loop."""
        if self._application is None:
            return
        for run in self._application.left_by_close():
            # A thread that waits for the loop ends no sooner by this.
            if self._calls.is_async(run.instance):
                self._calls.leave(run, "its event loop has been closed")

    def stop(self) -> None:
        """Let the threads end once they are free; what runs goes on."""
        self._threads.stop()
        with self._lock:
            self._stopped = True
            if self._own_loop is not None:
                self._own_loop.stop()
        if self._feed is not None:
            self._feed.stop()

    def _hand_over(self, run: HeldRun) -> None:
        if self._feed is not None:
            self._feed.submit(run)
        elif self._calls.is_async(run.instance):
            # Here, where it costs only this run if there can be none.
            self._event_loop()
            self._tasks.enter(run)
        else:
            self._threads.submit(run)

    def _begin_task(self, run: HeldRun) -> None:
        perform = partial(self._perform_async, places=self._tasks)
        drop = partial(self._drop_task, places=self._tasks)
        self._event_loop(run).submit(perform, run, dropped=drop)

    def _drop_task(self, run: HeldRun, *, places: Places) -> None:
        """Give back a run whose task somebody cancelled before it began."""
        self._calls.give_back(run, "its task was cancelled")
        places.leave(run)

    def _is_blocked_by(self, run: HeldRun) -> bool:
        """Whether a run keeps the event loop from all others."""
        loop = self._application or self._own_loop
        return loop is not None and loop.is_blocked_by(run)

    def _blocks_application(self, run: HeldRun) -> bool:
        return self._application is not None and self._application.is_blocked_by(run)

    def _leave_loop(self) -> None:
        """Go on with another event loop; this one ends when what it runs has ended."""
        with self._lock:
            loop, self._own_loop = self._own_loop, None
            places, self._tasks = self._tasks, Places(self.size, self._begin_task)
        assert loop is not None
        loop.stop()
        # A run that is being called there stays: it cannot be called twice.
        for run in places.empty():
            self._tasks.enter(run)

    def _hand_to(self, executor: Executor, run: HeldRun) -> Future[Any] | None:
        from concurrent.futures import ProcessPoolExecutor

        from go_scheduler.running.calling.process_executor import ProcessExecutor

        if isinstance(executor, ProcessExecutor):
            return self._calls.call_in_own_process(executor, run)
        if isinstance(executor, ProcessPoolExecutor):
            return self._calls.call_in_process(executor, run)
        return executor.submit(self._perform, run)

    async def _perform_async(self, run: HeldRun, *, places: Places) -> None:
        try:
            await self._calls.call_async(run)
        finally:
            places.leave(run)

    def _await_result(self, result: object, run: HeldRun) -> object:
        """Await what a sync handler returned, if that is what it takes to run it."""
        refuse_generator(result)
        if not inspect.isawaitable(result):
            return result
        if running_loop() is not None:
            _refuse_here(result)
        if self._feed is None or self._application is not None:
            return self._event_loop(run).wait_for(result, run)
        return asyncio.run(await_here(result))

    def _event_loop(self, run: HeldRun | None = None) -> EventLoop:
        """The event loop, which does not end before the task of this run has begun."""
        if self._application is not None:
            return self._application
        with self._lock:
            loop = self._own_loop
            if loop is None or not (run is None or loop.expect(run)):
                loop = self._own_loop = OwnEventLoop(expects=run)
                if self._stopped:
                    loop.stop()
            return loop


def _refuse_here(result: Awaitable[object]) -> NoReturn:
    """Refuse to await in a thread whose event loop waits for this call meanwhile."""
    if inspect.iscoroutine(result):
        result.close()
    raise SchedulerStateError(
        "an async handler cannot be awaited where an event loop runs and waits for it:"
        " move a manual clock by `await asyncio.to_thread(clock.advance, ...)`"
    )
