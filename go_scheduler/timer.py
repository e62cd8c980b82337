"""The timer: a heap of started runs, each handed over at the instant it is due."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.run import Run


class Timer:
    """Waits for the next due instant; it never touches the store.

    Args:
        clock: The store's time, as this node has it.
        hand_over: Takes a run that is due.
        wake: Makes the timer's ticker tick.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        hand_over: Callable[[Run], None],
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._hand_over = hand_over
        self._wake = wake
        self._lock = threading.Lock()
        # The sequence decides ties before the comparison reaches a run, which has no order.
        self._heap: list[tuple[datetime, int, Run]] = []
        self._sequence = count()

    def hold(self, runs: Iterable[Run]) -> None:
        """Hand these over when they are due; those that are due, at once."""
        with self._lock:
            first = self._heap[0][0] if self._heap else None
            for run in runs:
                entry = (run.instance.due_at, next(self._sequence), run)
                heappush(self._heap, entry)
            moved = bool(self._heap) and self._heap[0][0] != first
        if moved:
            self._wake()

    def tick(self) -> timedelta | None:
        """Hand over what is due; answer how long until the next one is."""
        while True:
            now = self._clock.now()
            with self._lock:
                if not self._heap:
                    return None
                due_at, _, run = self._heap[0]
                if due_at > now:
                    return due_at - now
                heappop(self._heap)
            self._hand_over(run)
