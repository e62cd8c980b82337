"""How long each page of the dashboard takes, where there is much, on PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from benchmarks.experiment import Call, Experiment, Figure, ours
from benchmarks.large_tables import execute
from go_scheduler import CronTrigger, IntervalTrigger, Scheduler, TaskDefinition
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes

_DENSE = UUID(int=1)
_TASK = UUID(int=2)
_BATCH = 500
_TIMES = 5
_HOUR = timedelta(hours=1)
_SHOW = {
    "overview": "/",
    "strip": "/strip",
    "strip_dense": f"/strip?of={_DENSE}&zoom=month",
    "definitions": "/definitions",
    "soonest": "/definitions?order=soonest&state=active",
    "by_name": "/definitions?name=job-7",
    "by_metadata": '/definitions?metadata={"team":7}',
    "definition": f"/definitions/{_DENSE}?zoom=day",
    "task": f"/definitions/{_TASK}",
    "pending": "/instances?state=pending",
    "running": "/instances?state=running",
    "failures": "/instances?state=failed",
    "completed": "/instances?state=completed",
    "cancelled": "/instances?state=cancelled",
    "instance": "/instances/FAILED",
    "search": "/search?q=job-77",
    "nodes": "/nodes",
}
_FIGURES = tuple(
    Figure(name=name, text=name.replace("_", ", "), unit="ms") for name in _SHOW
)

_ENDED = """
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, attempt, runs,
        claimed_by, started_at, completed_at, outcome, ended_attempt)
SELECT gen_random_uuid(), key, queue, at, at, at, 1, 1, gen_random_uuid(), at,
       at + interval '1 second',
       CASE WHEN n % 100 = 1 THEN 'failed' ELSE 'completed' END, 1
  FROM (SELECT key, queue, n, now() - n * interval '{every} seconds' AS at
          FROM task_definitions, generate_series(1, {each}) AS n
         WHERE {which}) AS x"""
_BY_HAND = """
INSERT INTO task_instances
       (id, definition_key, queue, execute_at, due_at, claimable_at)
SELECT gen_random_uuid(), key, queue, at, at, at
  FROM (SELECT key, queue, now() - n * interval '1 second' AS at
          FROM task_definitions, generate_series(1, {count}) AS n
         WHERE id = '{task}') AS x"""
_CLAIMED = """
UPDATE task_instances
   SET claimable_at = NULL, claimed_by = gen_random_uuid(), attempt = 1, runs = 1,
       started_at = now(), expires_at = now() + interval '1 hour'
 WHERE id IN (SELECT id FROM task_instances WHERE claimable_at IS NOT NULL LIMIT 500)"""


def fill(url: str, *, definitions: int, ended: int, waiting: int) -> dict[str, float]:
    """So many definitions, of which one fires every second, and their instances."""
    with closing(open_store(url)) as store:
        store.initialize()
        next_fire_time = store.now() + _HOUR
        for start in range(0, definitions, _BATCH):
            store.put_definitions(
                [
                    _definition(number, next_fire_time)
                    for number in range(start, min(start + _BATCH, definitions))
                ]
            )
    several = f"id NOT IN ('{_DENSE}', '{_TASK}')"
    each = max(1, ended // 2 // definitions)
    execute(
        url,
        _ENDED.format(every=3600, each=each, which=several),
        _ENDED.format(every=1, each=ended // 2, which=f"id = '{_DENSE}'"),
        _BY_HAND.format(count=waiting, task=_TASK),
        _CLAIMED,
        "VACUUM ANALYZE",
    )
    return {}


def show(url: str) -> dict[str, float]:
    """Ask for each page, a few times."""
    return asyncio.run(_show(url))


async def _show(url: str) -> dict[str, float]:
    import httpx

    from go_scheduler.dashboard import create_dashboard

    with closing(open_store(url)) as store:
        client = Scheduler(None, store)
        [failed] = client.list_ended("failed", limit=1)
        app = create_dashboard(client)
        figures = {}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
        ) as calls:
            for name, path in _SHOW.items():
                path = path.replace("FAILED", str(failed.id))
                took = []
                for _ in range(_TIMES):
                    began = time.perf_counter()
                    (await calls.get(path)).raise_for_status()
                    took.append(time.perf_counter() - began)
                figures[name] = statistics.median(took) * 1000
        return figures


def _definition(number: int, at: datetime) -> TaskDefinition:
    made = TaskDefinition(
        trigger=CronTrigger("0 * * * *", timezone="Europe/Berlin"),
        name=f"job-{number % 100}",
        metadata={"team": number % 1000},
        queue=f"queue-{number % 5}",
        next_fire_time=at + timedelta(seconds=number),
    )
    if number == 0:
        every = IntervalTrigger(
            timedelta(seconds=1), anchor=datetime(2020, 1, 1, tzinfo=UTC)
        )
        return replace(made, id=_DENSE, trigger=every)
    return replace(made, id=_TASK, next_fire_time=None) if number == 1 else made


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine != "postgresql":
        return
    definitions = min(100_000, max(10, sizes.ended // 10))
    filled = Call(
        "dashboard:fill",
        {"definitions": definitions, "ended": sizes.ended, "waiting": sizes.to_come},
    )
    yield Experiment(
        title=f"pages on PostgreSQL, of {definitions:,} definitions and"
        f" {sizes.to_come:,} instances to come, {sizes.ended:,} ended",
        noun="dashboard",
        figures=_FIGURES,
        variants=(ours(Call("dashboard:show"), engine, prepare=filled, reused=True),),
        most_rounds=1,
    )
