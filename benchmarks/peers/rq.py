"""rq on Redis."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import redis
from rq import Queue, SimpleWorker

from benchmarks.spread import Countdown, Lateness, evenly

_calls: Countdown
_late: Lateness


def count() -> None:
    """A job that counts its calls."""
    _calls()


def note(due: float) -> None:
    """A job that notes how late it is."""
    _late.add(due)


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have a worker do what is there, in this process."""
    global _calls
    _calls = Countdown(instances)
    connection = redis.Redis.from_url(url)
    queue = Queue("default", connection=connection)
    queue.enqueue_many(
        [Queue.prepare_data(count, result_ttl=0) for _ in range(instances)]
    )
    worker = SimpleWorker([queue], connection=connection)
    began, cpu = time.perf_counter(), time.process_time()
    worker.work(burst=True)
    return _calls.rate_since(began) | {"cpu": (_calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """Have a worker do what falls due, until there is no more."""
    global _late
    _late = Lateness(count)
    connection = redis.Redis.from_url(url)
    queue = Queue("default", connection=connection)
    times = evenly(count, rate, head)
    for each in times:
        queue.enqueue_at(datetime.fromtimestamp(each, UTC), note, each, result_ttl=0)
    worker = SimpleWorker([queue], connection=connection)
    worker.work(with_scheduler=True, max_jobs=count)
    return _late.spread()
