"""Celery on Redis."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

from celery import Celery

from benchmarks.spread import Countdown, Lateness, evenly


def _app(url: str) -> Any:
    app = Celery("benchmark", broker=url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=1_000,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    return app


def _begin(app: Any) -> None:
    worker = app.WorkController(
        pool="solo", concurrency=1, without_gossip=True, without_mingle=True
    )
    threading.Thread(target=worker.start, daemon=True).start()


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have a worker do what is there, in this process."""
    app, calls = _app(url), Countdown(instances)

    @app.task(name="count")
    def count() -> None:
        calls()

    with app.producer_pool.acquire() as producer:
        for _ in range(instances):
            count.apply_async(producer=producer)
    began, cpu = time.perf_counter(), time.process_time()
    _begin(app)
    calls.wait()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """Have a worker do what falls due."""
    app, late = _app(url), Lateness(count)

    @app.task(name="note")
    def note(due: float) -> None:
        late.add(due)

    with app.producer_pool.acquire() as producer:
        for each in evenly(count, rate, head):
            eta = datetime.fromtimestamp(each, UTC)
            note.apply_async((each,), eta=eta, producer=producer)
    _begin(app)
    return late.spread()
