"""What is returned: runs that were handed out, or nearly, and have not begun."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Executor
    from datetime import timedelta

    from go_scheduler.models import TaskInstance
    from go_scheduler.scheduler import Scheduler


class Returned:
    """Gives back to the store what is not run after all.

    Args:
        scheduler: That of whose store the runs are.
        threads: Where it is written.
    """

    def __init__(self, scheduler: Scheduler, threads: Executor) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._tasks: set[asyncio.Task[None]] = set()

    async def give_back(
        self, claim: Claim, *, delay: timedelta = ZERO, reason: str | None = None
    ) -> bool:
        """Give one back for a time; whether its claim was current.

        Raises:
            StoreError: The store is away.
        """
        release = partial(self._scheduler.release, delay=delay, reason=reason)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, release, claim.instance_id, claim.attempt
        )

    def give_back_all(self, instances: Iterable[TaskInstance]) -> None:
        """Begin to give some back; if the store is away their leases lapse."""
        for each in instances:
            task = asyncio.create_task(self._try(Claim.of(each)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until all is written."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _try(self, claim: Claim) -> None:
        with suppress(StoreError):
            await self.give_back(claim)
