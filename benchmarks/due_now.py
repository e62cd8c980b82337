"""How long what is due at once takes from the call that schedules it to its handler."""

from __future__ import annotations

import random
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import go_scheduler
from benchmarks.experiment import P50, P99, Call, Experiment, ours, peer
from benchmarks.names import WHERE
from benchmarks.processes import start
from benchmarks.spread import ENOUGH, Lateness, spread
from go_scheduler import ExecuteOnceTrigger, Scheduler, TaskDefinition
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Variant
    from benchmarks.sizes import Sizes
    from go_scheduler import TaskInstance

_WARM = 5
_PAUSE = 0.03


def same_process(url: str, *, times: int, settled: float) -> dict[str, float]:
    """Scheduled by the scheduler that runs it."""
    called = threading.Semaphore(0)
    at, took = 0.0, []

    def handler(_: TaskInstance) -> None:
        nonlocal at
        at = time.perf_counter()
        called.release()

    with closing(open_store(url)) as store, Scheduler(handler, store) as scheduler:
        time.sleep(settled)
        for _ in range(_WARM + times):
            began = time.perf_counter()
            scheduler.schedule(_due())
            assert called.acquire(timeout=ENOUGH)
            took.append(at - began)
            time.sleep(_PAUSE * random.uniform(0.5, 1.5))
    return spread(took[_WARM:])


def another_process(url: str, *, times: int, settled: float) -> dict[str, float]:
    """Scheduled by a process that runs nothing, on the same machine."""
    late = Lateness(times)

    def handler(instance: TaskInstance) -> None:
        late.add(float(str(instance.definition.metadata["began"])))

    with closing(open_store(url)) as store, Scheduler(handler, store):
        time.sleep(settled)
        other = start(
            Call("due_now:only_schedule", {"times": times, "pause": _PAUSE * 3}),
            url,
            tree=Path(go_scheduler.__file__).parents[1],
            python=sys.executable,
        )
        other.communicate()
        return late.spread()


def only_schedule(url: str, *, times: int, pause: float) -> dict[str, float]:
    """Schedule so many, with pauses that are no window's."""
    with closing(open_store(url)) as store:
        client = Scheduler(None, store)
        client.check()
        for _ in range(times):
            time.sleep(pause * random.uniform(0.5, 1.5))
            client.schedule(_due(began=repr(time.time())))
    return {}


def _due(**metadata: str) -> TaskDefinition:
    trigger = ExecuteOnceTrigger(datetime.now(UTC))
    return TaskDefinition(trigger=trigger, metadata=metadata)


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    times = {"times": sizes.due_now, "settled": sizes.settled}
    peers = _peers(engine, times)
    yield Experiment(
        title=f"`schedule()` due now {WHERE[engine]}, to the call of its handler",
        noun="due_now",
        figures=(P50, P99),
        variants=(ours(Call("due_now:same_process", times), engine), *peers),
    )
    if engine == "memory":
        return
    yield Experiment(
        title=f"`schedule()` due now {WHERE[engine]}, to its handler in another"
        " process",
        noun="due_now",
        figures=(P50, P99),
        variants=(ours(Call("due_now:another_process", times), engine), *peers),
    )


def _peers(engine: str, times: dict[str, float]) -> Sequence[Variant]:
    if engine != "postgresql":
        return ()
    call = Call("peers.pgqueuer:due_now", times)
    settings = "asyncpg; enqueued by another connection of the same process"
    return (peer("pgqueuer", call, engine, settings=settings),)
