"""The workers: call handlers, on threads, an event loop, or an executor."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from go_scheduler.errors import SchedulerStateError
from go_scheduler.handlers.registry import async_test, refuse_generator
from go_scheduler.run import enter_run, leave_run
from go_scheduler.running.calling.error_text import describe_error
from go_scheduler.running.calling.event_loop import OwnEventLoop, running_loop
from go_scheduler.running.calling.feed import Feed
from go_scheduler.running.calling.places import Places
from go_scheduler.running.calling.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.event_loop import ApplicationLoop, EventLoop
    from go_scheduler.running.calling.spares import Spares
    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.recorder import Recorder

_MARGIN = timedelta(seconds=2)
_DIED = "a process of the pool died while it ran this"


class Workers:
    """Calls a handler for every run that is handed over.

    Sync handlers are called on daemon threads, started as they are needed, ``async
    def`` ones as tasks of one event loop, the application's if there is one; of each at
    most ``max_workers`` at once.

    Args:
        handler: What is called.
        clock: The store's time, as this node has it.
        held: The node's runs.
        spares: Says how many that hang may be replaced.
        recorder: Takes what became of them.
        watch: Told of each run as it is called.
        extended: Called when a run is allowed more time.
        lease: How long a claim holds.
        max_workers: The most handlers that run at once.
        executor: Calls the handlers instead of the threads; None: the threads.
        application: The event loop on which async handlers run; None: one of our own.
    """

    def __init__(
        self,
        handler: Handler,
        clock: StoreClock,
        *,
        held: Held,
        spares: Spares,
        recorder: Recorder,
        watch: Callable[[HeldRun], None],
        extended: Callable[[], None],
        lease: timedelta,
        max_workers: int,
        executor: Executor | None = None,
        application: ApplicationLoop | None = None,
    ) -> None:
        self._handler = handler
        self._is_async = async_test(handler)
        self._clock = clock
        self._held = held
        self._spares = spares
        self._recorder = recorder
        self._watch = watch
        self._extended = extended
        self._lease = lease
        self._threads = Threads(self._perform, most=max_workers)
        self._tasks = Places(max_workers, self._begin_task)
        self._feed: Feed | None = None
        self.size = max_workers
        if executor is not None:
            self._feed = Feed(
                executor,
                self._hand_to,
                give_back=self._give_back,
                clock=clock,
                max_workers=max_workers,
            )
            self.size = self._feed.size
        self._lock = threading.Lock()
        self._stopped = False
        self._application = application
        self._own_loop: OwnEventLoop | None = None

    @property
    def trouble(self) -> str | None:
        """Why this node should be given nothing to call; None: it should."""
        hung, apart = self._held.hung(), self._held.apart()
        left = [run for run in hung if run not in apart]
        if (
            self._spares.used_up
            or len(left) >= self.size
            or any(self._is_blocked_by(run) for run in left)
        ):
            return f"{len(hung)} handlers hang, and no worker may take their place"
        if self._application is not None and self._application.trouble is not None:
            return self._application.trouble
        return None if self._feed is None else self._feed.trouble

    def ready(self) -> bool:
        """Whether there is no trouble; an executor that refused is asked again."""
        if self._feed is not None:
            self._feed.revive()
        return self.trouble is None

    def submit(self, runs: Iterable[HeldRun]) -> None:
        """Call the handler for runs that are due, each as soon as a worker is free."""
        elapsed = self._clock.elapsed()
        failure: Exception | None = None
        for run in runs:
            if self._held.fall_due(run, elapsed):
                try:
                    self._hand_over(run)
                # No thread can be started, or the executor has been shut down.
                except Exception as error:
                    failure = error
                    self._give_back(run)
        if failure is not None:
            raise failure

    def replace(self, run: HeldRun) -> None:
        """Let another worker take the place of one whose handler hangs, if it may."""
        # Those of an executor are not ours, and neither is the application's loop.
        ours = self._feed is None and not self._blocks_application(run)
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
            if self._is_async(run.instance) and run.settle():
                self._recorder.give_back(run, "its event loop has been closed")
                self._held.end(run)

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
        elif self._is_async(run.instance):
            # Here, where it costs only this run if there can be none.
            self._event_loop()
            self._tasks.enter(run)
        else:
            self._threads.submit(run)

    def _begin_task(self, run: HeldRun) -> None:
        perform = partial(self._perform_async, places=self._tasks)
        drop = partial(self._drop_task, places=self._tasks)
        self._event_loop().submit(perform, run, dropped=drop)

    def _drop_task(self, run: HeldRun, *, places: Places) -> None:
        """Give back a run whose task somebody cancelled before it began."""
        self._give_back(run)
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
        # What is running there stays: it cannot be called twice.
        for run in places.empty():
            self._tasks.enter(run)

    def _hand_to(self, executor: Executor, run: HeldRun) -> Future[None] | None:
        if isinstance(executor, ProcessPoolExecutor):
            return self._submit_to_processes(executor, run)
        return executor.submit(self._perform, run)

    def _give_back(self, run: HeldRun) -> None:
        if self._held.drop(run):
            self._recorder.release(run)

    def _perform(self, run: HeldRun) -> None:
        if self._application is None:
            self._perform_here(run)
        else:
            self._application.call(self._perform_here, run)

    def _perform_here(self, run: HeldRun) -> None:
        if not self._begin(run):
            return
        token = enter_run(run)
        try:
            result = self._handler(run.instance)
            if result is not None:
                self._finish(result, run)
        # Whatever a handler raises is a failed run and must not cost the thread.
        except BaseException as error:
            # Described first: the exception's own code may hang, and until the outcome
            # is decided the keeper looks after the run.
            self._end(run, describe_error(error))
        else:
            self._end(run, None)
        finally:
            leave_run(token)

    async def _perform_async(self, run: HeldRun, *, places: Places) -> None:
        try:
            if self._begin(run):
                enter_run(run)
                await self._await_handler(run)
        finally:
            places.leave(run)

    async def _await_handler(self, run: HeldRun) -> None:
        try:
            result = self._handler(run.instance)
            assert inspect.isawaitable(result)
            await result
        # SystemExit would end the event loop, and with it every other handler.
        except BaseException as error:
            self._end(run, describe_error(error))
        else:
            self._end(run, None)

    def _submit_to_processes(
        self, executor: ProcessPoolExecutor, run: HeldRun
    ) -> Future[None] | None:
        if not self._begin(run):
            return None
        try:
            future = executor.submit(_call, self._handler, run.instance)
        except Exception:
            # Before it is let go of: what is in none of the two is taken for lost.
            if run.settle() and not run.lost:
                self._recorder.release(run)
            self._held.end(run)
            raise
        future.add_done_callback(lambda done: self._end(run, _error_of(done)))
        return future

    def _begin(self, run: HeldRun) -> bool:
        """Look once more at the lease, without the store; false: do not call."""
        margin = min(_MARGIN, run.expire_after / 4, self._lease / 4)
        elapsed = self._clock.elapsed()
        now = self._clock.at(elapsed)
        left = run.expires_at - now - self._clock.round_trip
        if run.lost or left <= margin:
            if self._held.drop(run):
                self._recorder.release_lapsing(run)
            return False
        if self._spares.refusal(run.instance) is not None:
            self._give_back(run)
            return False
        if not self._held.call(run):
            return False
        run.begin(elapsed, now, self._extended, complete=self._recorder.complete_in)
        self._watch(run)
        return True

    def _end(self, run: HeldRun, error: str | None) -> None:
        try:
            # Recorded first: it counts twice for a moment, which claims too little.
            owned = run.settle() and not run.lost
            # A success counts whoever has the claim by now, if it is the first; one
            # that was to be committed with complete_in() did or did not count there.
            if error is None and (owned or not run.joined):
                self._recorder.succeed(run)
            elif error is not None and owned:
                self._recorder.fail(run, error)
        finally:
            self._held.end(run)

    def _finish(self, result: object, run: HeldRun) -> None:
        """Await what a sync handler returned, if that is what it takes to run it."""
        refuse_generator(result)
        if not inspect.isawaitable(result):
            return
        if running_loop() is not None:
            _refuse_here(result)
        if self._feed is None or self._application is not None:
            self._event_loop().wait_for(result, run)
        else:
            asyncio.run(_finish(result))

    def _event_loop(self) -> EventLoop:
        if self._application is not None:
            return self._application
        with self._lock:
            if self._own_loop is None:
                self._own_loop = OwnEventLoop(stopping=self._stopped)
            return self._own_loop


def _refuse_here(result: Awaitable[object]) -> NoReturn:
    """Refuse to await in a thread whose event loop waits for this call meanwhile."""
    if inspect.iscoroutine(result):
        result.close()
    raise SchedulerStateError(
        "an async handler cannot be awaited where an event loop runs and waits for it:"
        " move a manual clock by `await asyncio.to_thread(clock.advance, ...)`"
    )


async def _finish(result: Awaitable[object]) -> None:
    await result


def _call(handler: Handler, instance: TaskInstance) -> None:
    """Call a handler in the process of a process pool, which has no event loop."""
    result = handler(instance)
    refuse_generator(result)
    if inspect.isawaitable(result):
        asyncio.run(_finish(result))


def _error_of(future: Future[None]) -> str | None:
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        return None
    text = describe_error(error)
    return f"{_DIED}\n\n{text}" if isinstance(error, BrokenProcessPool) else text
