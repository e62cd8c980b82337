"""pgqueuer on PostgreSQL, by asyncpg."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import asyncpg  # type: ignore[import-untyped]
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode
from sqlalchemy import make_url

from benchmarks.spread import ENOUGH, Countdown, Lateness, evenly, spread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
Figures = dict[str, float]
_AT_ONCE = 1_000
_BATCH = 100
_WARM = 5
_PAUSE = 0.03


def _run(function: Callable[P, Awaitable[Figures]]) -> Callable[P, Figures]:
    @wraps(function)
    def run(*args: P.args, **arguments: P.kwargs) -> Figures:
        async def call() -> Figures:
            return await function(*args, **arguments)

        return asyncio.run(call())

    return run


@_run
async def drain(url: str, *, instances: int) -> Figures:
    """Have one manager do what is there."""
    queries = await _installed(url)
    await _enqueue(queries, "count", [b"x"] * instances)
    await queries.driver.execute("ANALYZE")
    calls = Countdown(instances)
    manager = QueueManager(await _queries(url))

    @manager.entrypoint("count")
    async def count(_: Any) -> None:
        calls()

    began, cpu = time.perf_counter(), time.process_time()
    await manager.run(
        batch_size=_BATCH,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=1),
    )
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


@_run
async def lateness(url: str, *, count: int, rate: int | None, head: float) -> Figures:
    """Have one manager do what falls due."""
    queries = await _installed(url)
    late, manager = Lateness(count), QueueManager(await _queries(url))

    @manager.entrypoint("note")
    async def note(job: Any) -> None:
        late.add(float(job.payload))

    times = evenly(count, rate, head)
    await _enqueue(queries, "note", [repr(each).encode() for each in times], times)
    running = asyncio.create_task(
        manager.run(batch_size=_BATCH, dequeue_timeout=timedelta(seconds=0.1))
    )
    end = times[-1] + ENOUGH
    while not late.is_over() and time.time() < end:
        await asyncio.sleep(0.1)
    await _stop(manager, running)
    return late.spread()


@_run
async def due_now(url: str, *, times: int, settled: float) -> Figures:
    """From enqueuing what is due at once to its body, by two connections."""
    queries = await _installed(url)
    manager, called, at = QueueManager(await _queries(url)), asyncio.Event(), 0.0

    @manager.entrypoint("note")
    async def note(_: Any) -> None:
        nonlocal at
        at = time.perf_counter()
        called.set()

    running = asyncio.create_task(manager.run(batch_size=10))
    await asyncio.sleep(settled)
    took = []
    for _ in range(_WARM + times):
        called.clear()
        began = time.perf_counter()
        await queries.enqueue("note", b"x", 0)
        await asyncio.wait_for(called.wait(), ENOUGH)
        took.append(at - began)
        await asyncio.sleep(_PAUSE * random.uniform(0.5, 1.5))
    await _stop(manager, running)
    return spread(took[_WARM:])


@_run
async def enqueue(url: str, *, calls: int) -> Figures:
    """Enqueue one after the other."""
    queries, took = await _installed(url), []
    began = time.perf_counter()
    for _ in range(calls):
        before = time.perf_counter()
        await queries.enqueue("count", b"x", 0)
        took.append(time.perf_counter() - before)
    return spread(took) | {"rate": calls / (time.perf_counter() - began)}


@_run
async def enqueue_all(url: str, *, count: int) -> Figures:
    """Enqueue many, so many in a call."""
    queries = await _installed(url)
    began = time.perf_counter()
    await _enqueue(queries, "count", [b"x"] * count)
    return {"rate": count / (time.perf_counter() - began)}


async def _installed(url: str) -> Queries:
    queries = await _queries(url)
    await queries.install()
    return queries


async def _queries(url: str) -> Queries:
    parsed = make_url(url)
    connection = await asyncpg.connect(
        user=parsed.username,
        password=parsed.password or None,
        host=parsed.host or str(parsed.query["host"]),
        port=parsed.port,
        database=parsed.database,
    )
    return Queries(AsyncpgDriver(connection))


async def _enqueue(
    queries: Queries, name: str, payloads: list[bytes], times: list[float] | None = None
) -> None:
    for start in range(0, len(payloads), _AT_ONCE):
        some = payloads[start : start + _AT_ONCE]
        later = None
        if times is not None:
            now = time.time()
            due = times[start : start + _AT_ONCE]
            later = [timedelta(seconds=each - now) for each in due]
        count = len(some)
        await queries.enqueue([name] * count, some, [0] * count, execute_after=later)


async def _stop(manager: QueueManager, running: asyncio.Task[Any]) -> None:
    manager.shutdown.set()
    await asyncio.wait([running], timeout=5)
