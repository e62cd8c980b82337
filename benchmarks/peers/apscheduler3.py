"""APScheduler 3, in memory or by SQLAlchemy."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import make_url

from benchmarks.putting_in import one_by_one
from benchmarks.spread import Countdown, Lateness, evenly

_THREADS = 20
_WARM = 50
# Jobs are stored by the name of their function, which finds these here.
_calls = Countdown(0)
_late = Lateness(0)


def count() -> None:
    """What is called."""
    _calls()


def note(due: float) -> None:
    """What is called with the time it is due."""
    _late.add(due)


def _paused(url: str) -> Any:
    if url == "memory://":
        store = MemoryJobStore()
    else:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        store = SQLAlchemyJobStore(parsed)
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(_THREADS)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    return scheduler


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Have it do what is there."""
    global _calls
    _calls, scheduler = Countdown(instances), _paused(url)
    now = datetime.now(UTC)
    for _ in range(instances):
        scheduler.add_job(f"{__name__}:count", "date", run_date=now)
    began, cpu = time.perf_counter(), time.process_time()
    scheduler.resume()
    _calls.wait()
    return _calls.rate_since(began) | {"cpu": (_calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """Have it do what falls due, once all of it is stored."""
    global _late
    _late, scheduler = Lateness(count), _paused(url)
    head += 1.5 * count / add(url, calls=_WARM)["rate"]
    times = evenly(count, rate, head)
    for each in times:
        at = datetime.fromtimestamp(each, UTC)
        scheduler.add_job(f"{__name__}:note", "date", run_date=at, args=[each])
    assert time.time() < times[0], "storing them took longer than they had"
    scheduler.resume()
    return _late.spread()


def add(url: str, *, calls: int) -> dict[str, float]:
    """Add jobs one after the other."""
    scheduler, far = _paused(url), datetime.now(UTC) + timedelta(days=1)
    return one_by_one(
        lambda: scheduler.add_job(f"{__name__}:count", "date", run_date=far), calls
    )
