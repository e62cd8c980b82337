"""The workers: a bounded pool of threads, and an event loop, that call handlers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from go_scheduler.handlers import async_test, refuse_generator
from go_scheduler.recorder import describe_error
from go_scheduler.run import enter_run, leave_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers import Handler
    from go_scheduler.held import Held
    from go_scheduler.models import TaskInstance
    from go_scheduler.recorder import Recorder
    from go_scheduler.run import Run

log = logging.getLogger(__name__)

_MARGIN = timedelta(seconds=2)


class Workers:
    """Calls a handler for every run that is handed over.

    Sync handlers are called on daemon threads, started as they are needed, ``async
    def`` ones as tasks of one event loop; of each at most ``max_workers`` at once.

    Args:
        handler: What is called.
        clock: The store's time, as this node has it.
        held: The node's runs.
        recorder: Takes what became of them.
        watch: Told of each run as it is called.
        extended: Called when a run is allowed more time.
        lease: How long a claim holds.
        max_workers: The most handlers that run at once.
        executor: Calls the handlers instead of the threads; None: the threads.
    """

    def __init__(
        self,
        handler: Handler,
        clock: StoreClock,
        *,
        held: Held,
        recorder: Recorder,
        watch: Callable[[Run], None],
        extended: Callable[[], None],
        lease: timedelta,
        max_workers: int,
        executor: Executor | None = None,
    ) -> None:
        self._handler = handler
        self._is_async = async_test(handler)
        self._clock = clock
        self._held = held
        self._recorder = recorder
        self._watch = watch
        self._extended = extended
        self._lease = lease
        self._max_workers = max_workers
        self._executor = executor
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._in_executor = 0
        self._stopped = False
        # One entry for each thread that waits; taking one out is atomic.
        self._free: deque[None] = deque()
        self._loop: _EventLoop | None = None

    def submit(self, runs: Iterable[Run]) -> None:
        """Call the handler for runs that are due, each as soon as a worker is free."""
        elapsed = self._clock.elapsed()
        failure: Exception | None = None
        for run in runs:
            if self._held.enqueue(run, elapsed):
                try:
                    self._hand_over(run)
                # No thread can be started, or the executor has been shut down.
                except Exception as error:
                    failure = error
                    if self._held.drop(run):
                        self._recorder.release(run)
        if failure is not None:
            raise failure

    def _hand_over(self, run: Run) -> None:
        if self._executor is not None:
            self._queue.put(run)
            self._feed(self._executor)
        elif self._is_async(run.instance):
            self._event_loop().submit(self._perform_async, run)
        else:
            self._queue.put(run)
            self._add_thread()

    def stop(self) -> None:
        """Let the threads end once they are free; what runs goes on."""
        with self._lock:
            self._stopped = True
            for _ in range(self._threads):
                self._queue.put(None)
            if self._loop is not None:
                self._loop.stop()

    def _feed(self, executor: Executor) -> None:
        """Hand the executor what it has room for; its own queue has no bound."""
        while (run := self._next_to_feed()) is not None:
            try:
                if isinstance(executor, ProcessPoolExecutor):
                    future = self._submit_to_processes(executor, run)
                else:
                    future = executor.submit(self._perform, run)
            except BaseException:
                self._leave_executor()
                if self._held.drop(run):
                    self._recorder.release(run)
                raise
            if future is None or future.done():
                self._leave_executor()
            else:
                future.add_done_callback(lambda _: self._feed_again(executor))

    def _next_to_feed(self) -> Run | None:
        with self._lock:
            if self._in_executor >= self._max_workers:
                return None
            try:
                run = self._queue.get_nowait()
            except Empty:
                return None
            self._in_executor += 1
            return run

    def _leave_executor(self) -> None:
        with self._lock:
            self._in_executor -= 1

    def _feed_again(self, executor: Executor) -> None:
        self._leave_executor()
        self._feed(executor)

    def _add_thread(self) -> None:
        if self._threads >= self._max_workers:
            return
        try:
            self._free.pop()
        except IndexError:
            with self._lock:
                # One that is started once it has stopped would never end.
                if self._threads < self._max_workers and not self._stopped:
                    name = f"go_scheduler worker {self._threads + 1}"
                    threading.Thread(target=self._work, name=name, daemon=True).start()
                    self._threads += 1

    def _work(self) -> None:
        while (run := self._queue.get()) is not None:
            try:
                self._perform(run)
            except BaseException:
                log.exception(
                    "instance %s: its outcome cannot be told",
                    run.instance.id,
                    extra={"instance_id": str(run.instance.id)},
                )
            if self._threads < self._max_workers:
                self._free.append(None)

    def _perform(self, run: Run) -> None:
        if not self._begin(run):
            return
        token = enter_run(run)
        try:
            result = self._handler(run.instance)
            if result is not None:
                self._finish(result)
        # Whatever a handler raises is a failed run and must not cost the thread.
        except BaseException as error:
            self._end(run, error)
        else:
            self._end(run, None)
        finally:
            leave_run(token)

    async def _perform_async(self, run: Run) -> None:
        if not self._begin(run):
            return
        enter_run(run)
        try:
            result = self._handler(run.instance)
            assert inspect.isawaitable(result)
            await result
        # SystemExit would end the event loop, and with it every other handler.
        except BaseException as error:
            self._end(run, error)
        else:
            self._end(run, None)

    def _submit_to_processes(
        self, executor: ProcessPoolExecutor, run: Run
    ) -> Future[None] | None:
        if not self._begin(run):
            return None

        def done(future: Future[None]) -> None:
            cancelled = future.cancelled()
            self._end(run, CancelledError() if cancelled else future.exception())

        try:
            future = executor.submit(_call, self._handler, run.instance)
        except Exception as error:
            self._end(run, error)
            return None
        future.add_done_callback(done)
        return future

    def _begin(self, run: Run) -> bool:
        """Look once more at the lease, without the store; false: do not call."""
        margin = min(_MARGIN, run.expire_after / 4, self._lease / 4)
        elapsed = self._clock.elapsed()
        now = self._clock.at(elapsed)
        left = run.expires_at - now - self._clock.round_trip
        if run.lost or left <= margin:
            if self._held.drop(run):
                self._recorder.release_late(run)
            return False
        if not self._held.call(run):
            return False
        run.begin(elapsed, now, self._extended, complete=self._recorder.complete_in)
        self._watch(run)
        return True

    def _end(self, run: Run, error: BaseException | None) -> None:
        # Described first: the exception's own code may hang, and until the outcome is
        # decided the keeper looks after the run.
        text = None if error is None else describe_error(error)
        try:
            # Recorded first: it counts twice for a moment, which claims too little.
            owned = run.settle() and not run.lost
            # A success counts whoever has the claim by now, if it is the first; one
            # that was to be committed with complete_in() did or did not count there.
            if text is None and (owned or not run.joined):
                self._recorder.succeed(run)
            elif text is not None and owned:
                self._recorder.fail(run, text)
        finally:
            self._held.end(run)

    def _finish(self, result: object) -> None:
        """Await what a sync handler returned, if that is what it takes to run it."""
        refuse_generator(result)
        if not inspect.isawaitable(result):
            return
        if self._executor is None:
            self._event_loop().wait_for(result)
        else:
            asyncio.run(_finish(result))

    def _event_loop(self) -> _EventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = _EventLoop(self._max_workers, stopping=self._stopped)
            return self._loop


class _EventLoop:
    """An event loop on a daemon thread, with a bound on what it runs at once."""

    def __init__(self, max_tasks: int, *, stopping: bool) -> None:
        self._loop = asyncio.new_event_loop()
        self._places = asyncio.Semaphore(max_tasks)
        # The loop itself keeps only weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        # Whether it ends once nothing runs on it.
        self._stopping = stopping
        self._ended = False
        threading.Thread(
            target=self._run, name="go_scheduler event loop", daemon=True
        ).start()

    def submit(self, perform: Callable[[Run], Awaitable[None]], run: Run) -> None:
        self._loop.call_soon_threadsafe(self._start, perform, run)

    def wait_for(self, result: Awaitable[object]) -> None:
        work = self._tracked(result)
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop)

    def _run(self) -> None:
        while not self._ended:
            # What a task raises that is no Exception, SystemExit say, comes out here.
            with suppress(BaseException):
                self._loop.run_forever()
        self._loop.close()

    def _start(self, perform: Callable[[Run], Awaitable[None]], run: Run) -> None:
        self._track(self._loop.create_task(self._bounded(perform, run)))

    async def _bounded(
        self, perform: Callable[[Run], Awaitable[None]], run: Run
    ) -> None:
        async with self._places:
            await perform(run)

    async def _tracked(self, result: Awaitable[object]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._track(task)
        await result

    def _track(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._end_if_idle()

    def _stop(self) -> None:
        self._stopping = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._stopping and not self._tasks:
            self._ended = True
            self._loop.stop()


async def _finish(result: Awaitable[object]) -> None:
    await result


def _call(handler: Handler, instance: TaskInstance) -> None:
    """Call a handler in the process of a process pool, which has no event loop."""
    result = handler(instance)
    refuse_generator(result)
    if inspect.isawaitable(result):
        asyncio.run(_finish(result))
