"""The whole scheduler on one store: drain, lateness, due now to called, recovery.

``python benchmarks/scheduler.py URL`` takes some four minutes, ``--quick`` less than
half of that; the database at the URL must be empty. The machine's clock and the
server's must agree: run both on one machine. What it prints are times of that machine
and that day, so compare stores by running it for each of them there.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import statistics
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores import open_store
from go_scheduler.stores.messages import Firing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Event

    from go_scheduler import Store

SECOND = timedelta(seconds=1)
ENOUGH = 300.0
BATCH = 500
RATE = 200
RUNNING = 20


def drain(store: Store, instances: int) -> float:
    """Instances per second that one scheduler claims, calls and records."""
    seed(store, instances)
    numbers = count(1)
    finished = threading.Event()

    def handler(_: TaskInstance) -> None:
        if next(numbers) == instances:
            finished.set()

    scheduler = Scheduler(handler, store)
    began = time.perf_counter()
    with scheduler:
        assert finished.wait(ENOUGH)
    return instances / (time.perf_counter() - began)


def seed(store: Store, instances: int) -> None:
    """One-offs whose instances are there and due."""
    due = store.now() - SECOND
    for _ in range(0, instances, BATCH):
        new = [
            TaskDefinition(trigger=ExecuteOnceTrigger(due), next_fire_time=due)
            for _ in range(min(BATCH, instances))
        ]
        stored = store.put_definitions(new)
        firings = [Firing(definition=each, fire_times=(due,)) for each in stored]
        assert len(store.fire_definitions(firings).done) == len(new)


def lateness(store: Store, seconds: int) -> Sequence[float]:
    """How many seconds late each run began, at so many a second, evenly spread."""
    late: list[float] = []

    def handler(instance: TaskInstance) -> None:
        late.append((datetime.now(UTC) - instance.execute_at).total_seconds())

    begin = store.now() + 3 * SECOND
    new = [
        TaskDefinition(
            trigger=IntervalTrigger(SECOND, anchor=begin + number * SECOND / RATE)
        )
        for number in range(RATE)
    ]
    with Scheduler(handler, store) as scheduler:
        for each in new:
            scheduler.schedule(each)
        # Those that were scheduled while others fired already are not what is measured.
        time.sleep(5)
        late.clear()
        time.sleep(seconds)
        measured = list(late)
    scheduler.delete_definitions(ids=[each.id for each in new])
    return measured


def due_now(store: Store, times: int) -> Sequence[float]:
    """Seconds from ``schedule()`` of a one-off that is due to its handler's call."""
    called: dict[object, float] = {}
    met = threading.Semaphore(0)

    def handler(instance: TaskInstance) -> None:
        called[instance.definition.id] = time.perf_counter()
        met.release()

    took = []
    with Scheduler(handler, store) as scheduler:
        time.sleep(2)
        for _ in range(times):
            began = time.perf_counter()
            new = TaskDefinition(trigger=ExecuteOnceTrigger(datetime.now(UTC)))
            scheduler.schedule(new)
            assert met.acquire(timeout=ENOUGH)
            took.append(called[new.id] - began)
            time.sleep(0.2)
    return took


def run_until_killed(url: str, begun: Event) -> None:
    """A node whose handlers never return."""

    def handler(_: TaskInstance) -> None:
        begun.set()
        threading.Event().wait()

    Scheduler(handler, open_store(url)).run()


def recovery(store: Store, url: str) -> Sequence[float]:
    """Seconds from the end of a killed node until its work runs on another one."""
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Event()
    node = spawn.Process(target=run_until_killed, args=(url, begun), daemon=True)
    again: list[float] = []
    finished = threading.Event()

    def handler(_: TaskInstance) -> None:
        again.append(time.perf_counter())
        if len(again) == RUNNING:
            finished.set()

    seed(store, RUNNING)
    node.start()
    assert begun.wait(ENOUGH)
    time.sleep(2)
    with Scheduler(handler, store):
        # Longer than a lease: the second node has settled in.
        time.sleep(25)
        assert node.pid is not None
        os.kill(node.pid, signal.SIGKILL)
        killed = time.perf_counter()
        assert finished.wait(ENOUGH)
    return [each - killed for each in again]


def report(name: str, seconds: Sequence[float]) -> None:
    """One line: how many, the median, the 99th percentile and the most."""
    ordered = sorted(each * 1000 for each in seconds)
    p99 = ordered[len(ordered) * 99 // 100]
    print(
        f"{name:30} {len(ordered):7,} times   p50 {statistics.median(ordered):9,.1f} ms"
        f"   p99 {p99:9,.1f} ms   most {ordered[-1]:9,.1f} ms",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    # Takeovers are what is measured, and not news.
    logging.disable(logging.WARNING)
    store = open_store(options.url)
    store.initialize()
    rounds, instances, seconds = (1, 5_000, 10) if options.quick else (3, 10_000, 60)
    rates = [drain(store, instances) for _ in range(rounds)]
    print(f"{'drain':30} {statistics.median(rates):7,.0f} a second", flush=True)
    report("late, at 200 a second", lateness(store, seconds))
    report("schedule() due now to called", due_now(store, 20 if options.quick else 300))
    report("killed to running elsewhere", recovery(store, options.url))
    store.close()


if __name__ == "__main__":
    main()
