"""A crew: all workers that wait for the same queues, as what a scheduler runs on."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.run import HandedOn
from go_scheduler.running.calling.elastic_executor import ElasticExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from go_scheduler.models import TaskInstance

_TURNS = 4


class Waiter:
    """A worker that waits, on the event loop in which it is made.

    Args:
        handed_on: What the store is told of what it is handed.
        most: How many instances it takes.
    """

    def __init__(self, handed_on: HandedOn, most: int) -> None:
        self.handed_on = handed_on
        self.left = most
        self.found: list[TaskInstance] = []
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Have it wait no longer; from the event loop."""
        self._woken.set()

    def wake_soon(self) -> None:
        """Have it wait no longer; from any thread."""
        # The event loop of a server that was left behind may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until it is woken, and no longer than this."""
        timer = self._loop.call_later(at_most.total_seconds(), self.wake)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
        # That somebody has hung up is known some turns of the event loop later.
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class Crew(ElasticExecutor):
    """Hands each run to one of the workers that wait, the longest waiting first.

    One that takes several gets its second when all have one.

    Args:
        give_back: Takes what no worker is there for any more; called from any thread.
    """

    def __init__(self, give_back: Callable[[TaskInstance], None]) -> None:
        super().__init__()
        self._give_back = give_back
        self._guard = threading.Lock()
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        # What those take that have got nothing yet, and what all take.
        self._free = self._left = 0

    @property
    def room(self) -> int:
        """What those take that have got nothing yet: who has is about to leave."""
        return self._free

    @property
    def places(self) -> int:
        """What all take that have not left."""
        return self._left

    def join(self, waiter: Waiter) -> None:
        """Let a worker wait."""
        with self._guard:
            self._waiters[waiter] = None
            self._free += waiter.left
            self._left += waiter.left
        self.grow()

    def leave(self, waiter: Waiter) -> Sequence[TaskInstance]:
        """Let a worker wait no more; answers what it was handed."""
        with self._guard:
            self._left -= waiter.left
            if not waiter.found:
                self._free -= waiter.left
            waiter.left = 0
            self._waiters.pop(waiter, None)
            return waiter.found

    def handle(self, instance: TaskInstance) -> HandedOn:
        """Hand an instance to a worker: the handler of the crew's scheduler."""
        waiter = self._hand_over(instance)
        if waiter is None:
            self._give_back(instance)
            return HandedOn()
        return waiter.handed_on

    def wake_all(self) -> None:
        """Have all wait no longer; from the event loop."""
        with self._guard:
            waiting = list(self._waiters)
        for each in waiting:
            each.wake()

    def _hand_over(self, instance: TaskInstance) -> Waiter | None:
        with self._guard:
            if not self._waiters:
                return None
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.found:
                self._free -= waiter.left
                waiter.wake_soon()
            waiter.found.append(instance)
            waiter.left -= 1
            self._left -= 1
            if waiter.left:
                self._waiters[waiter] = None
            return waiter
