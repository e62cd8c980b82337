"""The event loop on which async handlers run."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from go_scheduler.run import Run

    Perform = Callable[[Run], Coroutine[None, None, None]]


class EventLoop:
    """An event loop on a daemon thread.

    Args:
        stopping: Whether it ends as soon as nothing runs on it.
    """

    def __init__(self, *, stopping: bool) -> None:
        self._loop = asyncio.new_event_loop()
        # The loop itself keeps only weak references to its tasks.
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._stopping = stopping
        self._ended = False
        threading.Thread(
            target=self._run, name="go_scheduler event loop", daemon=True
        ).start()

    def submit(self, perform: Perform, run: Run) -> None:
        """Perform a run as a task of its own."""
        self._loop.call_soon_threadsafe(self._start, perform, run)

    def wait_for(self, result: Awaitable[object], run: Run) -> None:
        """Await this for a run on the loop, and wait here until that is done."""
        work = self._tracked(result, run)
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def is_blocked_by(self, run: Run) -> bool:
        """Whether a run is executing there now, while everything else has to wait."""
        task = asyncio.current_task(self._loop)
        return task is not None and self._tasks.get(task) is run

    def stop(self) -> None:
        """End once nothing runs on it."""
        # It may have ended already, if it was to.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)

    def _run(self) -> None:
        while not self._ended:
            # What a task raises that is no Exception, SystemExit say, comes out here.
            with suppress(BaseException):
                self._loop.run_forever()
        self._loop.close()

    def _start(self, perform: Perform, run: Run) -> None:
        self._track(self._loop.create_task(perform(run)), run)

    async def _tracked(self, result: Awaitable[object], run: Run) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._track(task, run)
        await result

    def _track(self, task: asyncio.Task[None], run: Run) -> None:
        self._tasks[task] = run
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        self._end_if_idle()

    def _stop(self) -> None:
        self._stopping = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._stopping and not self._tasks:
            self._ended = True
            self._loop.stop()
