"""How long many things took, in few numbers; and how many were counted."""

from __future__ import annotations

import statistics
import threading
import time
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ENOUGH = 60.0
"""Seconds after which nothing that is waited for will come."""


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum, in milliseconds; how many were early."""
    ordered = sorted(each * 1000 for each in seconds)
    return {
        "p50": statistics.median(ordered),
        "p99": ordered[len(ordered) * 99 // 100],
        "most": ordered[-1],
        "early": sum(each < 0 for each in ordered),
    }


class Countdown:
    """A handler that counts its calls, and notes when the last one came.

    Args:
        calls: So many are expected.
    """

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._numbers = count(1)
        self._done = threading.Event()
        self.at = 0.0
        self.cpu = 0.0

    def __call__(self, _: object = None) -> None:
        """Count one."""
        if next(self._numbers) == self._calls:
            self.at, self.cpu = time.perf_counter(), time.process_time()
            self._done.set()

    def is_over(self) -> bool:
        """Whether all have come."""
        return self._done.is_set()

    def wait(self) -> None:
        """Wait until the last one has come."""
        assert self._done.wait(ENOUGH), "not everything was called"

    def rate_since(self, began: float) -> dict[str, float]:
        """How many came a second."""
        return {"rate": self._calls / (self.at - began)}


class Lateness:
    """A handler's part that notes how late each call is.

    Args:
        calls: So many are expected.
    """

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._seconds: list[float] = []
        self._done = threading.Event()

    def add(self, due: float) -> None:
        """Note a call that was due then, in seconds since 1970."""
        self._seconds.append(time.time() - due)
        if len(self._seconds) == self._calls:
            self._done.set()

    def is_over(self) -> bool:
        """Whether all have come."""
        return self._done.is_set()

    def spread(self) -> dict[str, float]:
        """How late they were, when the last one has come."""
        assert self._done.wait(ENOUGH), f"{len(self._seconds)} of {self._calls} called"
        return spread(self._seconds)


def evenly(count: int, rate: int | None, head: float) -> list[float]:
    """When each is due, in seconds since 1970.

    Args:
        count: So many.
        rate: So many a second; None: all at one whole second.
        head: How many seconds from now the first is due, at least.
    """
    first = time.time() + head
    if rate is None:
        return [float(int(first) + 1)] * count
    return [first + number / rate for number in range(count)]
