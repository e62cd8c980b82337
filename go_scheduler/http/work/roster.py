"""The roster: which crews there are, as workers come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from go_scheduler.http.access.refusals import too_many
from go_scheduler.http.work.crew import Crew
from go_scheduler.http.work.served import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from datetime import timedelta

    from go_scheduler.models import TaskInstance
    from go_scheduler.scheduler import Scheduler


class Roster:
    """Makes a crew when somebody waits for its queues, and dissolves it later.

    Args:
        scheduler: What those are like that claim for crews.
        threads: Where these are started and stopped.
        most: How many crews there may be.
        each: How many of one caller.
        idle: After so long without anybody waiting one is dissolved.
        give_back: Takes what no worker is there for any more; called from any thread.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        threads: Executor,
        *,
        most: int,
        each: int,
        idle: timedelta,
        give_back: Callable[[TaskInstance], None],
    ) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._most = most
        self._each = each
        self._idle = idle
        self._give_back = give_back
        self._served: dict[tuple[str, ...], Served] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def serve(self, queues: tuple[str, ...], caller: str) -> Served:
        """The crew of these queues, which is that of who waits for them first.

        Raises:
            ConfigurationError: One of them can be no queue.
            Problem: 429, there are too many others.
        """
        served = self._served.get(queues)
        if served is not None and not served.failed:
            if not served.waiting:
                served.caller = caller
            return served
        if served is None:
            self._make_place_for(caller)
        crew = Crew(self._give_back)
        scheduler = self._scheduler.another(crew.handle, queues=queues, executor=crew)
        served = Served(crew, scheduler, self._threads, caller=caller)
        self._served[queues] = served
        self._look_for_idle()
        return served

    def close(self) -> None:
        """Have nobody wait any longer."""
        for each in self._served.values():
            each.close()

    async def stop(self) -> None:
        """Dissolve all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for queues in list(self._served):
            self._dissolve(queues)
        if self._stops:
            await asyncio.wait(self._stops)

    def _make_place_for(self, caller: str) -> None:
        """If there are too many, dissolve one for which nobody waits.

        Raises:
            Problem: 429, somebody waits for each.
        """
        own = {q: each for q, each in self._served.items() if each.caller == caller}
        if len(own) >= self._each:
            self._dissolve_idlest(own, "workers of this caller wait", "the others")
        elif len(self._served) >= self._most:
            self._dissolve_idlest(self._served, "workers wait", "theirs")

    def _dissolve_idlest(
        self, served: Mapping[tuple[str, ...], Served], who: str, whose: str
    ) -> None:
        idle = [queues for queues, each in served.items() if not each.waiting]
        if not idle:
            raise too_many(
                f"{who} for {len(served)} different sets of queues already, and the"
                f" server takes no more: wait for one of {whose}",
                self._idle,
                field="queues",
            )
        self._dissolve(min(idle, key=lambda queues: served[queues].idle_since))

    def _look_for_idle(self) -> None:
        """Dissolve crews for which nobody waits any more, now and then."""
        if self._sweep is None:
            loop, delay = asyncio.get_running_loop(), self._idle.total_seconds()
            self._sweep = loop.call_later(delay, self._dissolve_idle)

    def _dissolve_idle(self) -> None:
        self._sweep = None
        before = asyncio.get_running_loop().time() - self._idle.total_seconds()
        for queues, each in list(self._served.items()):
            if not each.waiting and each.idle_since <= before:
                self._dissolve(queues)
        if self._served:
            self._look_for_idle()

    def _dissolve(self, queues: tuple[str, ...]) -> None:
        stop = asyncio.create_task(self._served.pop(queues).stop())
        self._stops.add(stop)
        stop.add_done_callback(self._stops.discard)
