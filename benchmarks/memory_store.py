"""The scheduler over a memory store, beside a bare heap feeding the same kind of pool.

Run it on a quiet machine: ``python benchmarks/memory_store.py`` takes about three
minutes, ``--quick`` one. Judge the ratios: both columns are measured alternately in one
run.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import multiprocessing
import statistics
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from resource import getpagesize
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    MemoryStore,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.stores.messages import Claimant, Firing, Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler import TaskInstance

WORKERS = 32
Result = TypeVar("Result")


class Floor:
    """A heap and a condition variable, a queue, and threads that call a function."""

    def __init__(self, call: Callable[[datetime], None]) -> None:
        self._call = call
        self._heap: list[tuple[datetime, int]] = []
        self._condition = threading.Condition()
        self._queue: SimpleQueue[datetime | None] = SimpleQueue()
        self._stopped = False

    def run(self, times: Sequence[datetime]) -> None:
        """Call the function at each of these times; return when all have been."""
        self._heap = [(due, number) for number, due in enumerate(times)]
        heapq.heapify(self._heap)
        threads = [threading.Thread(target=self._work) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        with self._condition:
            while self._heap:
                due = self._heap[0][0]
                wait = (due - datetime.now(UTC)).total_seconds()
                if wait > 0:
                    self._condition.wait(wait)
                    continue
                heapq.heappop(self._heap)
                self._queue.put(due)
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while (due := self._queue.get()) is not None:
            self._call(due)


def stored_at(times: Sequence[datetime]) -> MemoryStore:
    """A store with one pending instance for each of these times."""
    store = MemoryStore()
    for due in times:
        definition = TaskDefinition(trigger=ExecuteOnceTrigger(due))
        stored = store.put_definitions([replace(definition, next_fire_time=due)])[0]
        store.fire_definitions([Firing(definition=stored, fire_times=(due,))])
    return store


def drain_scheduler(count: int) -> float:
    """Instances per second that a scheduler claims, calls and records."""
    store = stored_at([datetime.now(UTC)] * count)
    left = iter(range(count - 1, -1, -1))
    finished = threading.Event()

    def handler(_: TaskInstance) -> None:
        if next(left) == 0:
            finished.set()

    scheduler = Scheduler(handler, store, max_workers=WORKERS)
    # What was stored beforehand is not what is measured, so nothing walks it meanwhile.
    gc.collect()
    gc.freeze()
    began = time.perf_counter()
    scheduler.start()
    finished.wait()
    scheduler.stop()
    gc.unfreeze()
    return count / (time.perf_counter() - began)


def drain_floor(count: int) -> float:
    """Calls per second of the floor."""
    times = [datetime.now(UTC)] * count
    began = time.perf_counter()
    Floor(lambda _: None).run(times)
    return count / (time.perf_counter() - began)


def evenly(rate: int, seconds: int) -> list[datetime]:
    """Times from two seconds from now on, so many a second."""
    begin = datetime.now(UTC) + timedelta(seconds=2)
    step = timedelta(seconds=1) / rate
    return [begin + step * number for number in range(rate * seconds)]


def lateness_scheduler(rate: int, seconds: int) -> list[float]:
    """How late each handler is called, in milliseconds."""
    times = evenly(rate, seconds)
    late: list[float] = []
    finished = threading.Event()

    def handler(instance: TaskInstance) -> None:
        late.append((datetime.now(UTC) - instance.execute_at).total_seconds() * 1000)
        if len(late) == len(times):
            finished.set()

    with Scheduler(handler, stored_at(times), max_workers=WORKERS):
        finished.wait()
    return late


def lateness_floor(rate: int, seconds: int) -> list[float]:
    """How late each call of the floor is, in milliseconds."""
    late: list[float] = []

    def call(due: datetime) -> None:
        late.append((datetime.now(UTC) - due).total_seconds() * 1000)

    Floor(call).run(evenly(rate, seconds))
    return late


def many_definitions(count: int) -> tuple[float, float, float]:
    """What a definition takes: bytes, schedule() calls a second, microseconds a tick.

    The tick is what all three loops ask of the store when nothing is due.
    """
    gc.collect()
    before = resident()
    store = MemoryStore()
    scheduler = Scheduler(None, store)
    began = time.perf_counter()
    for _ in range(count):
        scheduler.schedule(TaskDefinition(trigger=IntervalTrigger(timedelta(days=1))))
    rate = count / (time.perf_counter() - began)
    gc.collect()
    size = (resident() - before) / count
    claimant = Claimant(
        node=uuid4(),
        queues=("default",),
        lease=timedelta(seconds=20),
        expire_after=timedelta(minutes=5),
    )
    ahead, lead = timedelta(seconds=3), timedelta(milliseconds=20)
    kept = Retention(ended=ahead, failed=ahead, remembered=ahead)
    ticks = 2000
    began = time.perf_counter()
    for _ in range(ticks):
        store.due_definitions(ahead=ahead, limit=100)
        store.claim_instances(
            claimant, ahead=ahead, lead=lead, limit=32, lapsed=timedelta(0)
        )
        store.delete_finished(kept, limit=500)
    tick = (time.perf_counter() - began) / ticks * 1e6
    return size, rate, tick


def heap_of(count: int) -> tuple[float, float]:
    """The floor of that: bytes for each entry of a heap, and microseconds to look."""
    gc.collect()
    before = resident()
    now = datetime.now(UTC)
    heap: list[tuple[datetime, int]] = []
    for number in range(count):
        heapq.heappush(heap, (now + timedelta(seconds=number), number))
    gc.collect()
    size = (resident() - before) / count
    looks = 2000
    began = time.perf_counter()
    for _ in range(looks):
        _ = heap[0][0] <= datetime.now(UTC)
    return size, (time.perf_counter() - began) / looks * 1e6


def alone(measure: Callable[[int], Result], size: int) -> Result:
    """Measure in a process of its own: memory freed before would hide what is taken."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measure, size).result()


def resident() -> int:
    """The process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def spread(late: Sequence[float]) -> str:
    """Median, 99th percentile and maximum."""
    ordered = sorted(late)
    p99 = ordered[len(ordered) * 99 // 100]
    return f"{statistics.median(ordered):8.3f} {p99:8.3f} {ordered[-1]:8.3f}"


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter and smaller")
    quick = parser.parse_args().quick
    count, rounds, seconds = (50_000, 1, 5) if quick else (100_000, 3, 20)

    print(f"drain of {count} due instances, per second")
    for _ in range(rounds):
        ours, floor = drain_scheduler(count), drain_floor(count)
        print(
            f"  scheduler {ours:9.0f}   floor {floor:9.0f}   ratio {ours / floor:.2f}"
        )

    print("lateness in ms:        p50      p99      max")
    for rate in (200, 1000):
        late, bare = lateness_scheduler(rate, seconds), lateness_floor(rate, seconds)
        print(f"  {rate:5}/s scheduler {spread(late)}   earliest {min(late):.3f}")
        print(f"  {rate:5}/s floor     {spread(bare)}")

    print(
        "definitions: bytes each, schedule() per second, tick in us; heap: bytes, look"
    )
    for size in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000):
        each, rate_, tick = alone(many_definitions, size)
        entry, look = alone(heap_of, size)
        print(
            f"  {size:9} scheduler {each:6.0f} B {rate_:8.0f}/s {tick:7.1f} us"
            f"   heap {entry:5.0f} B {look:5.2f} us"
        )


if __name__ == "__main__":
    main()
