"""How fast what is due is claimed, called and recorded by one scheduler."""

from __future__ import annotations

import gc
import time
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks.experiment import RATE, Call, Experiment, Figure, floor, ours, peer
from benchmarks.names import SHARDS, WHERE
from benchmarks.peers import on_redis
from benchmarks.seeds import put_due
from benchmarks.spread import Countdown
from go_scheduler import Scheduler
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Variant
    from benchmarks.sizes import Sizes
    from go_scheduler.events import Listener

FIGURES = (RATE, Figure(name="cpu", text="CPU of the process for each", unit="µs"))
_SHARED = 100


def drain(
    url: str, *, instances: int, listeners: Sequence[Listener] = ()
) -> dict[str, float]:
    """Have all that is due run; until the last handler is called."""
    with closing(open_store(url)) as store:
        store.initialize()
        if url == "memory://":
            put_due(store, instances=instances)
        calls = Countdown(instances)
        scheduler = Scheduler(calls, store, listeners=listeners)
        # What was stored beforehand is not what is measured: nothing walks it now.
        gc.collect()
        gc.freeze()
        began, cpu = time.perf_counter(), time.process_time()
        with scheduler:
            calls.wait()
        gc.unfreeze()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine == "memory":
        yield _in_memory(sizes.drained_in_memory)
    else:
        yield _on_server(engine, sizes)
    if engine == "postgresql":
        yield _on_server(engine, sizes, per_definition=_SHARED)


def _in_memory(count: int) -> Experiment:
    some, few = {"instances": count}, {"instances": count // 10}
    return Experiment(
        title=f"drain in memory, {count:,} one-off definitions",
        noun="drain",
        figures=FIGURES,
        variants=(
            ours(Call("drain:drain", some), "memory"),
            floor("ThreadPoolExecutor(8)", Call("floors.memory:drain", some)),
            peer(
                "APScheduler 4",
                Call("peers.apscheduler4:drain", few),
                settings="4.0.0a6, in memory, async jobs, 100 at once",
                python="apscheduler4",
            ),
            peer(
                "APScheduler 3",
                Call("peers.apscheduler3:drain", some),
                "memory",
                settings="memory job store, 20 threads, no grace time",
            ),
        ),
    )


def _on_server(engine: str, sizes: Sizes, *, per_definition: int = 1) -> Experiment:
    count = sizes.drained // (4 if engine == "cockroachdb" else 1)
    some = {"instances": count}
    seeds = Call("seeds:due", some | {"per_definition": per_definition})
    what = "one-off definitions"
    if per_definition > 1:
        what = f"instances, {per_definition} of each definition"
    return Experiment(
        title=f"drain {WHERE[engine]}, {count:,} {what}",
        noun="drain",
        figures=FIGURES,
        variants=(
            ours(Call("drain:drain", some), engine, prepare=seeds),
            _floor(engine, some, seeds),
            *(_peers(engine, sizes) if per_definition == 1 else ()),
        ),
    )


def _floor(engine: str, some: dict[str, int], seeds: Call) -> Variant:
    if engine == "redis":
        return floor(
            "raw loop",
            Call("floors.redis:drain", some),
            engine,
            settings="two sorted sets and a hash for each, batches of 500",
        )
    if engine == "sqlite":
        return floor(
            "raw loop",
            Call("floors.sqlite:drain", some),
            engine,
            prepare=seeds,
            settings="the package's tables and plain statements, batches of 500, WAL"
            " and synchronous=FULL",
        )
    return floor(
        "pool, two connections",
        Call("floors.postgresql:drain", some | {"shards": SHARDS[engine]}),
        engine,
        prepare=seeds,
        settings="the package's tables and plain statements, batches of 500, one"
        " connection claims and one records, 8 threads call",
    )


def _peers(engine: str, sizes: Sizes) -> Sequence[Variant]:
    count, slowly = sizes.drained, sizes.drained_slowly
    apscheduler = peer(
        "APScheduler 3",
        Call("peers.apscheduler3:drain", {"instances": slowly}),
        engine,
        settings=f"{slowly:,} jobs, SQLAlchemy job store, 20 threads, no grace time",
    )
    if engine == "redis":
        return on_redis("drain", {"instances": count})
    if engine == "sqlite":
        huey = peer(
            "huey",
            Call("peers.huey:drain", {"instances": count}),
            engine,
            settings="fsync, one thread, no results; it keeps nothing of a job that is"
            " taken",
        )
        return (huey, apscheduler)
    if engine == "postgresql":
        pgqueuer = peer(
            "pgqueuer",
            Call("peers.pgqueuer:drain", {"instances": count}),
            engine,
            settings="asyncpg, batches of 100, one manager, drain mode, table analysed",
        )
        procrastinate = peer(
            "procrastinate",
            Call("peers.procrastinate:drain", {"instances": slowly}),
            engine,
            settings=f"{slowly:,} jobs, three workers of 20 in one process, async task,"
            " table analysed",
        )
        return (pgqueuer, apscheduler, procrastinate)
    # Nothing was found that is in Python and runs on CockroachDB.
    return ()
