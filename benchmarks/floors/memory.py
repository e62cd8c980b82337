"""Floors without a store: threads, a heap and a condition."""

from __future__ import annotations

import heapq
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from benchmarks.spread import Countdown, Lateness, evenly

_THREADS = 8
_HEAD = 0.5


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Hand over to a pool what a heap says is due."""
    calls, now = Countdown(instances), time.time()
    heap = [(now, number) for number in range(instances)]
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(_THREADS) as pool:
        while heap and heap[0][0] <= time.time():
            pool.submit(calls, heapq.heappop(heap))
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """Hand over to threads, through a queue, what a heap says falls due."""
    # Nothing is stored, so nothing takes that time.
    times = evenly(count, rate, min(head, _HEAD))
    late = Lateness(count)
    queue: SimpleQueue[float | None] = SimpleQueue()

    def work() -> None:
        while (due := queue.get()) is not None:
            late.add(due)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    for each in threads:
        each.start()
    _hand_over(times, queue)
    for _ in threads:
        queue.put(None)
    return late.spread()


def _hand_over(times: list[float], queue: SimpleQueue[float | None]) -> None:
    heap = [(due, number) for number, due in enumerate(times)]
    heapq.heapify(heap)
    condition = threading.Condition()
    with condition:
        while heap:
            wait = heap[0][0] - time.time()
            if wait > 0:
                condition.wait(wait)
            else:
                queue.put(heapq.heappop(heap)[0])
