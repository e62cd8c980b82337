"""APScheduler 4 in memory; an interpreter of its own has it, and not the package."""

from __future__ import annotations

import asyncio
import time

from apscheduler import AsyncScheduler

from benchmarks.spread import Countdown

_AT_ONCE = 100


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have it do what is there."""
    return asyncio.run(_drain(instances))


async def _drain(instances: int) -> dict[str, float]:
    calls = Countdown(instances)

    async def count() -> None:
        calls()

    async with AsyncScheduler(max_concurrent_jobs=_AT_ONCE) as scheduler:
        await scheduler.configure_task(
            "count", func=count, misfire_grace_time=None, max_running_jobs=_AT_ONCE
        )
        for _ in range(instances):
            await scheduler.add_job("count")
        began, cpu = time.perf_counter(), time.process_time()
        await scheduler.start_in_background()
        while not calls.is_over():
            await asyncio.sleep(0.002)
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}
