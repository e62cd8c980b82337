"""A served set of queues: a crew, and the scheduler that claims for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.http.problems import RETRY_AFTER, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from go_scheduler.http.work.crew import Crew, Waiter
    from go_scheduler.models import TaskInstance
    from go_scheduler.scheduler import Scheduler

# In memory alone: how the scheduler is.
_LOOKS = timedelta(seconds=1)
_LEFT_BEHIND = timedelta(seconds=30)


class Served:
    """Lets workers wait while its scheduler runs, and tells those whose store is away.

    Args:
        crew: Those that wait.
        scheduler: What claims for them.
        threads: Where it is started and stopped.
        caller: Who has waited first.
    """

    def __init__(
        self, crew: Crew, scheduler: Scheduler, threads: Executor, *, caller: str
    ) -> None:
        self._crew = crew
        self._scheduler = scheduler
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.run_in_executor(threads, scheduler.start)
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False
        self.caller = caller
        self.waiting = 0
        self.idle_since = self._loop.time()

    async def wait(self, waiter: Waiter, at_most: timedelta) -> Sequence[TaskInstance]:
        """Let a worker wait; answers what it is handed, which may be nothing.

        It is handed nothing once this returns; if it is cancelled, what it was handed
        meanwhile is found in the waiter.

        Raises:
            StoreError: The scheduler could not be started.
            Problem: 503, the store is away.
        """
        self.waiting += 1
        try:
            # Others wait for it as well.
            await asyncio.shield(self._started)
            if self._closed:
                return []
            self._check()
            self._look_on()
            self._crew.join(waiter)
            try:
                await waiter.wait(at_most)
            finally:
                found = self._crew.leave(waiter)
            if not found:
                self._check()
            return found
        finally:
            self.waiting -= 1
            self.idle_since = self._loop.time()

    @property
    def failed(self) -> bool:
        """Whether its scheduler could not be started."""
        started = self._started
        return started.done() and started.exception() is not None

    def close(self) -> None:
        """Have nobody wait any longer, nor anybody who comes."""
        self._closed = True
        self._crew.wake_all()

    async def stop(self) -> None:
        """Stop the scheduler: what it has claimed and nobody was handed goes back."""
        self.close()
        # One that is just being started has to be stopped then.
        await asyncio.wait([self._started])
        await self._loop.run_in_executor(
            self._threads, self._scheduler.stop, _LEFT_BEHIND
        )

    def _look_on(self) -> None:
        """While anybody waits, look whether the store is away."""
        if self._looking is None:
            self._looking = self._loop.call_later(_LOOKS.total_seconds(), self._look)

    def _look(self) -> None:
        self._looking = None
        if self._scheduler._is_cut_off:
            self._crew.wake_all()
        elif self.waiting:
            self._look_on()

    def _check(self) -> None:
        if self._scheduler._is_cut_off:
            raise Problem(
                503,
                "store-unavailable",
                "The store cannot be reached",
                "the store does not answer at the moment: come again later",
                headers=RETRY_AFTER,
            )
