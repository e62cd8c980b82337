"""A server that hands out work, on a port of its own, and workers that wait for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx

from go_scheduler.http import create_app
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.triggers.simple import ExecuteOnceTrigger, OnDemandTrigger
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from go_scheduler.http.access.authentication import Access
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

MOST = 40


class Server:
    """A server that hands out work, and a client of it."""

    def __init__(self, scheduler: Scheduler, long_poll: LongPoll, url: str) -> None:
        self.scheduler = scheduler
        self.long_poll = long_poll
        self.url = url
        self.client = httpx.Client(
            base_url=url,
            timeout=FAILED_AFTER,
            limits=httpx.Limits(max_connections=MOST),
        )
        self._threads = ThreadPoolExecutor(MOST)

    def close(self) -> None:
        self.long_poll.stop_taking()
        self._threads.shutdown()
        self.client.close()

    def ask(self, queues: str = "default", **asked: Any) -> httpx.Response:
        """Wait for work; returns the answer."""
        query = {"queues": queues, "wait": 20, **asked}
        return self.client.get("/v1/work", params=query)

    def ask_meanwhile(
        self, queues: str = "default", **asked: Any
    ) -> Future[httpx.Response]:
        """Wait for work on a thread; returns once the server lets it wait."""
        waiting = self.waiting(queues)
        future = self._threads.submit(self.ask, queues, **asked)
        self.wait_for_waiting(queues, waiting + 1)
        return future

    def waiting(self, queues: str = "default") -> int:
        """How many instances the waiting workers of these queues take."""
        node = self.long_poll._node
        if node is None:
            return 0
        return node.waiters.room(tuple(sorted(queues.split(","))))

    def wait_for_waiting(self, queues: str, count: int) -> None:
        """Wait until workers for so many instances wait."""
        wait_until(lambda: self.waiting(queues) >= count)

    def take(self, queues: str = "default", **asked: Any) -> list[dict[str, Any]]:
        """Wait for work, and return it."""
        answer = self.ask(queues, **asked)
        assert answer.status_code == 200, answer.text
        work: list[dict[str, Any]] = answer.json()["work"]
        return work

    def take_one(self, queues: str = "default", **asked: Any) -> dict[str, Any]:
        [work] = self.take(queues, **asked)
        return work

    def tell(self, work: dict[str, Any], what: str, **body: Any) -> httpx.Response:
        """Send a report of a run."""
        path = f"/v1/work/{work['instance_id']}/{what}"
        return self.client.post(path, json={"token": work["token"], **body})

    def once(self, after: float = 0, **options: Any) -> TaskDefinition:
        """Schedule an instance that is due after so many seconds."""
        at = self.now() + timedelta(seconds=after)
        return self.scheduler.schedule(
            TaskDefinition(trigger=ExecuteOnceTrigger(at), **options)
        )

    def task(self, **options: Any) -> TaskDefinition:
        """Schedule a definition that runs on demand."""
        return self.scheduler.schedule(
            TaskDefinition(trigger=OnDemandTrigger(), **options)
        )

    def now(self) -> datetime:
        return self.scheduler._ready().now()

    def instance(self, work: dict[str, Any]) -> TaskInstance:
        return self.scheduler.get_instance(UUID(work["instance_id"]))


def wait_until(done: Callable[[], bool]) -> None:
    """Wait until a condition is true."""

    async def wait() -> None:
        async with asyncio.timeout(FAILED_AFTER):
            while not done():
                await asyncio.sleep(0.001)

    asyncio.run(wait())


@contextmanager
def server(
    store: Store, *, access: Access | None = None, **options: Any
) -> Iterator[Server]:
    """A server whose scheduler runs nothing itself."""
    settings = {key: options.pop(key) for key in ("retry", "lease") if key in options}
    work_lease = options.pop("work_lease", None)
    if work_lease is not None:
        options["lease"] = work_lease
    with ExitStack() as stack:
        scheduler = stack.enter_context(Scheduler(None, store, **settings))
        long_poll = LongPoll(scheduler, **options)
        app = create_app(scheduler, work=long_poll, access=access)
        host, port = stack.enter_context(served(app))
        found = Server(scheduler, long_poll, f"http://{host}:{port}")
        stack.callback(found.close)
        yield found
