"""huey on a SQLite file."""

from __future__ import annotations

import time

from huey import SqliteHuey

from benchmarks.putting_in import one_by_one
from benchmarks.spread import Countdown


def _huey(url: str) -> SqliteHuey:
    path = url.removeprefix("sqlite:///")
    return SqliteHuey("benchmark", filename=path, results=False, fsync=True)


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have one thread do what is there."""
    huey, calls = _huey(url), Countdown(instances)
    task = huey.task()(lambda: calls())
    for _ in range(instances):
        task()
    consumer = huey.create_consumer(
        workers=1, worker_type="thread", initial_delay=0.0001, max_delay=0.1
    )
    consumer._set_signal_handlers = lambda: None
    began, cpu = time.perf_counter(), time.process_time()
    consumer.start()
    calls.wait()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def enqueue(url: str, *, calls: int) -> dict[str, float]:
    """Enqueue one after the other."""
    return one_by_one(_huey(url).task()(lambda: None), calls)
