"""dramatiq on Redis."""

from __future__ import annotations

import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.spread import Countdown, Lateness, evenly

_THREADS = 8


def _broker(url: str) -> Any:
    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)
    return broker


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have a worker do what is there, in this process."""
    broker, calls = _broker(url), Countdown(instances)

    @dramatiq.actor(actor_name="count")
    def count() -> None:
        calls()

    for _ in range(instances):
        count.send()
    began, cpu = time.perf_counter(), time.process_time()
    dramatiq.Worker(broker, worker_threads=_THREADS).start()
    calls.wait()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """Have a worker do what falls due."""
    broker, late = _broker(url), Lateness(count)

    @dramatiq.actor(actor_name="note")
    def note(due: float) -> None:
        late.add(due)

    dramatiq.Worker(broker, worker_threads=_THREADS).start()
    for each in evenly(count, rate, head):
        delay = max(0, round((each - time.time()) * 1000))
        note.send_with_options(args=(each,), delay=delay)
    return late.spread()
