"""What a definition costs among few and among many: memory, and time."""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from resource import getpagesize
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.experiment import Call, Experiment, Figure, ours
from benchmarks.names import WHERE
from benchmarks.seeds import HOUR, LATEST, SECOND
from benchmarks.spread import Countdown
from go_scheduler import IntervalTrigger, Scheduler, TaskDefinition
from go_scheduler.stores import Claimant, Retention, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from benchmarks.sizes import Sizes
    from go_scheduler import Store

NODE = Claimant(
    node=uuid4(), queues=("default",), lease=20 * SECOND, expire_after=300 * SECOND
)
KEPT = Retention(
    ended=timedelta(days=30_000),
    failed=timedelta(days=30_000),
    remembered=timedelta(days=30_000),
)
_POLLS = 50
_BATCH = 500
_DAILY = timedelta(days=1)
_PER_DUE = Figure(name="due", text="for each that is due", unit="µs")
_CPU = Figure(name="cpu", text="CPU of the process for it", unit="µs")
_TICK = Figure(name="tick", text="a look when nothing is due", unit="µs")
_BYTES = Figure(name="bytes", text="memory of each", unit="bytes")


def many(url: str, *, definitions: int, due: int) -> dict[str, float]:
    """So many definitions, few of which are due; until the last of those is called.

    Those of a database are there already.
    """
    with closing(open_store(url)) as store:
        store.initialize()
        figures = _fill(store, definitions) if url == "memory://" else {}
        figures["tick"] = median_time(lambda: look(store)) * 1e6
        _put(store, due, store.now() - SECOND)
        calls = Countdown(due)
        scheduler = Scheduler(calls, store)
        # As a program does that has loaded what it keeps.
        gc.collect()
        gc.freeze()
        began, cpu = time.perf_counter(), time.process_time()
        with scheduler:
            calls.wait()
        gc.unfreeze()
    figures["due"] = (calls.at - began) / due * 1e6
    return figures | {"cpu": (calls.cpu - cpu) / due * 1e6}


def look(store: Store) -> None:
    """What the three loops ask of a store, and find nothing."""
    store.due_definitions(ahead=SECOND, limit=100)
    store.claim_instances(
        NODE,
        ahead=SECOND,
        lead=0 * SECOND,
        limit=100,
        lapsed=0 * SECOND,
        deadline=LATEST,
    )
    store.delete_finished(KEPT, limit=500)


def median_time(call: Callable[[], object]) -> float:
    """Seconds that a call takes as a rule."""
    took = []
    for _ in range(_POLLS):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _fill(store: Store, count: int) -> dict[str, float]:
    gc.collect()
    before = resident()
    _put(store, count, store.now() + 5 * HOUR)
    gc.collect()
    return {"bytes": (resident() - before) / count}


def _put(store: Store, count: int, at: datetime) -> None:
    for start in range(0, count, _BATCH):
        store.put_definitions(
            [
                TaskDefinition(
                    trigger=IntervalTrigger(_DAILY, anchor=at), next_fire_time=at
                )
                for _ in range(min(_BATCH, count - start))
            ]
        )


def resident() -> int:
    """The process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine not in ("memory", "postgresql"):
        return
    in_memory = engine == "memory"
    yield Experiment(
        title=f"many definitions {WHERE[engine]}, {sizes.due:,} of them due",
        noun="scale",
        figures=(_PER_DUE, _CPU, _TICK, *((_BYTES,) if in_memory else ())),
        variants=tuple(
            ours(
                Call("scale:many", {"definitions": count, "due": sizes.due}),
                engine,
                name=f"{count:,} definitions",
                prepare=None
                if in_memory
                else Call("large_tables:fill_definitions", {"count": count}),
                # Those that have fired are few beside the others, and not due again.
                reused=not in_memory,
            )
            for count in sizes.definitions
        ),
        most_rounds=2,
    )
