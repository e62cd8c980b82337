"""The event loop on which async handlers run: one of its own, or the application's."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine
    from contextvars import Context

    from go_scheduler.running.held import HeldRun

    Perform = Callable[[HeldRun], Coroutine[None, None, None]]


class EventLoop:
    """An event loop, and which runs it has.

    Args:
        loop: The loop.
        context: Where its tasks begin; None: in that of whoever submits a run.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> None:
        self._loop = loop
        self._begins_in = context
        # The loop itself keeps only weak references to its tasks.
        self._tasks: dict[asyncio.Task[Any], HeldRun] = {}

    def submit(
        self, perform: Perform, run: HeldRun, *, dropped: Callable[[HeldRun], None]
    ) -> None:
        """Perform a run as a task of its own.

        Args:
            perform: Performs it, and lets nothing cancel it.
            run: The run.
            dropped: Called if the task was cancelled before it began.
        """
        self._loop.call_soon_threadsafe(
            self._start, perform, run, dropped, context=self._begins_in
        )

    def wait_for(self, result: Awaitable[object], run: HeldRun) -> object:
        """Await this for a run on the loop, and wait here for what comes of it."""
        work = self._tracked(result, run)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def cancel(self, run: HeldRun) -> bool:
        """Cancel what a run is executing there; false: it has no task there."""
        if run not in self._tasks.copy().values():
            return False
        # One that has been closed meanwhile executes nothing more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel, run)
        return True

    def is_blocked_by(self, run: HeldRun) -> bool:
        """Whether a run is executing there now, while everything else has to wait."""
        task = asyncio.current_task(self._loop)
        return task is not None and self._tasks.get(task) is run

    def _start(
        self, perform: Perform, run: HeldRun, dropped: Callable[[HeldRun], None]
    ) -> None:
        task = self._loop.create_task(perform(run))
        self._track(task, run)

        def give_up(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                dropped(run)

        task.add_done_callback(give_up)

    async def _tracked(self, result: Awaitable[object], run: HeldRun) -> object:
        task = asyncio.current_task()
        assert task is not None
        self._track(task, run)
        return await result

    def _cancel(self, run: HeldRun) -> None:
        for task, executing in self._tasks.items():
            if executing is run:
                task.cancel()

    def _track(self, task: asyncio.Task[Any], run: HeldRun) -> None:
        self._tasks[task] = run
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task)


class OwnEventLoop(EventLoop):
    """An event loop on a daemon thread.

    Args:
        expects: The run for which it is made; None: for none yet.
    """

    def __init__(self, *, expects: HeldRun | None = None) -> None:
        super().__init__(asyncio.new_event_loop())
        self._lock = threading.Lock()
        self._stopping = False
        self._ended = False
        # Those whose task is to begin here and has not begun yet.
        self._expected: set[HeldRun] = set() if expects is None else {expects}
        threading.Thread(
            target=self._run, name="go_scheduler event loop", daemon=True
        ).start()

    def expect(self, run: HeldRun) -> bool:
        """Do not end before this run's task; false: it has ended already."""
        with self._lock:
            if not self._ended:
                self._expected.add(run)
            return not self._ended

    def wait_for(self, result: Awaitable[object], run: HeldRun) -> object:
        """Await this for a run on the loop, and wait here for what comes of it."""
        try:
            return super().wait_for(result, run)
        finally:
            # Its task may have been cancelled before it began.
            with self._lock:
                self._expected.discard(run)
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end_if_idle)

    def stop(self) -> None:
        """End once nothing runs on it."""
        # It may have ended already, if it was to.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)

    def _run(self) -> None:
        while not self._ended:
            # SystemExit, and whatever else is no Exception, comes out of a task here.
            with suppress(BaseException):
                self._loop.run_forever()
        self._loop.close()

    def _track(self, task: asyncio.Task[Any], run: HeldRun) -> None:
        super()._track(task, run)
        with self._lock:
            self._expected.discard(run)

    def _untrack(self, task: asyncio.Task[Any]) -> None:
        super()._untrack(task)
        self._end_if_idle()

    def _stop(self) -> None:
        self._stopping = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        with self._lock:
            self._ended = self._stopping and not (self._tasks or self._expected)
        if self._ended:
            self._loop.stop()


class ApplicationLoop(EventLoop):
    """The event loop of the application, which starts and ends it.

    Its tasks begin in the context in which this was made.

    Args:
        loop: The loop; handlers are called while it runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._context = copy_context()
        super().__init__(loop, self._context)

    @property
    def trouble(self) -> str | None:
        """Why nothing can be called there; None: it can."""
        if self._loop.is_running():
            return None
        return "the application's event loop, where async handlers run, does not run"

    def left_by_close(self) -> Collection[HeldRun]:
        """What ran there and never goes on, as the loop has been closed."""
        return tuple(self._tasks.values()) if self._loop.is_closed() else ()

    def call(self, function: Callable[[HeldRun], None], run: HeldRun) -> None:
        """Call a function here, in the context in which the loop's tasks begin.

        What it awaits on the loop is in that context as well.
        """
        self._context.copy().run(function, run)

    def is_for(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this is that loop."""
        return self._loop is loop


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
