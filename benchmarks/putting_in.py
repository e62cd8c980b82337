"""How fast work is put in: definitions, and instances of tasks; nothing is due."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, make_url

from benchmarks.experiment import P50, P99, RATE, Call, Experiment, floor, ours, peer
from benchmarks.names import WHERE
from benchmarks.spread import spread
from go_scheduler import (
    ExecuteOnceTrigger,
    OnDemandTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import URL

    from benchmarks.experiment import Variant
    from benchmarks.sizes import Sizes

THREADS = 8
_WARM = 10
_TASK = "send"
_ONE = "one insert by psycopg, committed"
_MANY = "psycopg, arrays of 1,000 rows a statement"


def schedule(url: str, *, calls: int) -> dict[str, float]:
    """``schedule()`` of a new definition, one after the other."""
    with _client(url) as client:
        return one_by_one(lambda: client.schedule(_far()), calls)


def schedule_by_threads(url: str, *, calls: int) -> dict[str, float]:
    """The same, by threads."""
    with _client(url) as client:
        return by_threads([lambda: client.schedule(_far())] * THREADS, calls)


def schedule_all(url: str, *, count: int) -> dict[str, float]:
    """``schedule_all()`` of new definitions, in one call."""
    new = [_far() for _ in range(count)]
    with _client(url) as client:
        began = time.perf_counter()
        client.schedule_all(new)
        return {"rate": count / (time.perf_counter() - began)}


def schedule_all_joined(url: str, *, count: int) -> dict[str, float]:
    """The same in a transaction of the user's, until that has committed."""
    new = [_far() for _ in range(count)]
    engine = create_engine(_of_sqlalchemy(url))
    with _client(url) as client:
        began = time.perf_counter()
        with engine.begin() as connection:
            client.schedule_all(new, connection=connection)
        took = time.perf_counter() - began
    engine.dispose()
    return {"rate": count / took}


def _of_sqlalchemy(url: str) -> URL:
    parsed = make_url(url)
    if parsed.drivername == "sqlite":
        return parsed
    return parsed.set(drivername=f"{parsed.drivername}+psycopg")


def enqueue(url: str, *, calls: int) -> dict[str, float]:
    """``enqueue()`` of one instance, one after the other."""
    with _client(url) as client:
        return one_by_one(lambda: client.enqueue(_TASK, order=7), calls)


def enqueue_all(url: str, *, count: int) -> dict[str, float]:
    """``enqueue_all()`` in one call."""
    with _client(url) as client:
        began = time.perf_counter()
        client.enqueue_all(_TASK, [{"order": number} for number in range(count)])
        return {"rate": count / (time.perf_counter() - began)}


@contextmanager
def _client(url: str) -> Iterator[Scheduler]:
    """One that runs nothing, and whose store knows the task."""
    with closing(open_store(url)) as store:
        client = Scheduler(None, store)
        task = TaskDefinition(
            id=TaskDefinition.id_for(f"task {_TASK}"),
            name=_TASK,
            trigger=OnDemandTrigger(),
        )
        client.schedule(task)
        yield client


def _far() -> TaskDefinition:
    at = datetime.now(UTC) + timedelta(days=1)
    return TaskDefinition(trigger=ExecuteOnceTrigger(at))


def one_by_one(call: Callable[[], object], calls: int) -> dict[str, float]:
    """How long each call takes, and how many that makes a second."""
    for _ in range(_WARM):
        call()
    took, began = [], time.perf_counter()
    for _ in range(calls):
        before = time.perf_counter()
        call()
        took.append(time.perf_counter() - before)
    return spread(took) | {"rate": calls / (time.perf_counter() - began)}


def by_threads(work: Sequence[Callable[[], object]], calls: int) -> dict[str, float]:
    """How many calls a second several threads make together, each of its own."""
    # As many connections as there will be are there when it begins.
    _together(work, _WARM)
    return {"rate": calls * len(work) / _together(work, calls)}


def _together(work: Sequence[Callable[[], object]], calls: int) -> float:
    def repeat(call: Callable[[], object]) -> None:
        for _ in range(calls):
            call()

    threads = [threading.Thread(target=repeat, args=[each]) for each in work]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return time.perf_counter() - began


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    calls = {"calls": sizes.put_in * (10 if engine == "memory" else 1)}
    count = {"count": sizes.put_in_bulk // (4 if engine == "cockroachdb" else 1)}
    yield Experiment(
        title=f"`schedule()` of one new definition {WHERE[engine]}, one by one",
        noun="putting_in",
        figures=(P50, P99, RATE),
        variants=(
            ours(Call("putting_in:schedule", calls), engine),
            *_floors("insert_definitions", calls, engine, _ONE),
            *_apscheduler(engine, calls),
        ),
    )
    yield Experiment(
        title=f"`schedule_all()` of {count['count']:,} new definitions {WHERE[engine]}",
        noun="putting_in",
        figures=(RATE,),
        variants=(
            ours(Call("putting_in:schedule_all", count), engine),
            *_floors("insert_many_definitions", count, engine, _MANY),
        ),
    )
    if engine == "memory":
        return
    if engine != "redis":
        yield Experiment(
            title=f"`schedule_all()` {WHERE[engine]}, in a transaction of the user's",
            noun="putting_in",
            figures=(RATE,),
            variants=(ours(Call("putting_in:schedule_all_joined", count), engine),),
        )
    each = {"calls": sizes.put_in // 4}
    yield Experiment(
        title=f"`schedule()` of one new definition {WHERE[engine]},"
        f" by {THREADS} threads",
        noun="putting_in",
        figures=(RATE,),
        variants=(
            ours(Call("putting_in:schedule_by_threads", each), engine),
            *_floors("insert_definitions_by_threads", each, engine, _ONE),
        ),
    )
    yield Experiment(
        title=f"`enqueue()` {WHERE[engine]}, one by one",
        noun="putting_in",
        figures=(P50, P99, RATE),
        variants=(
            ours(Call("putting_in:enqueue", calls), engine),
            *_floors("insert_instances", calls, engine, _ONE),
            *_enqueuers("enqueue", engine, calls),
        ),
    )
    yield Experiment(
        title=f"`enqueue_all()` of {count['count']:,} {WHERE[engine]}",
        noun="putting_in",
        figures=(RATE,),
        variants=(
            ours(Call("putting_in:enqueue_all", count), engine),
            *_floors("insert_many_instances", count, engine, _MANY),
            *_enqueuers("enqueue_all", engine, count),
        ),
    )


def _floors(
    function: str, arguments: dict[str, int], engine: str, settings: str
) -> Sequence[Variant]:
    if engine not in ("postgresql", "cockroachdb"):
        return ()
    call = Call(f"floors.postgresql:{function}", arguments)
    return (floor("psycopg", call, engine, settings=settings),)


def _apscheduler(engine: str, calls: dict[str, int]) -> Sequence[Variant]:
    if engine in ("cockroachdb", "redis"):
        return ()
    store = "memory" if engine == "memory" else "SQLAlchemy"
    call = Call("peers.apscheduler3:add", calls)
    return (
        peer("APScheduler 3", call, engine, settings=f"add_job, {store} job store"),
    )


def _enqueuers(
    function: str, engine: str, arguments: dict[str, int]
) -> Sequence[Variant]:
    if engine == "postgresql":
        call = Call(f"peers.pgqueuer:{function}", arguments)
        many = ", 1,000 a call" if function == "enqueue_all" else ""
        return (peer("pgqueuer", call, engine, settings=f"asyncpg{many}"),)
    if engine == "sqlite" and function == "enqueue":
        call = Call("peers.huey:enqueue", arguments)
        return (peer("huey", call, engine, settings="fsync, no results"),)
    return ()
