"""procrastinate on PostgreSQL."""

from __future__ import annotations

import asyncio
import time

from procrastinate import App, PsycopgConnector

from benchmarks.spread import Countdown

_AT_ONCE = 1_000
_WORKERS = 3
_CONCURRENCY = 20


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have the workers of one process do what is there."""
    return asyncio.run(_drain(url, instances))


async def _drain(url: str, instances: int) -> dict[str, float]:
    calls = Countdown(instances)
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=20))

    @app.task(name="count", queue="benchmark")
    async def count(number: int) -> None:
        calls()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        deferred = app.configure_task("count", queue="benchmark")
        for start in range(0, instances, _AT_ONCE):
            some = range(start, min(instances, start + _AT_ONCE))
            await deferred.batch_defer_async(*({"number": each} for each in some))
        await app.connector.execute_query_async("ANALYZE procrastinate_jobs")
        began, cpu = time.perf_counter(), time.process_time()
        workers = [
            app.run_worker_async(
                queues=["benchmark"],
                wait=False,
                concurrency=_CONCURRENCY,
                install_signal_handlers=False,
            )
            for _ in range(_WORKERS)
        ]
        await asyncio.gather(*workers)
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}
