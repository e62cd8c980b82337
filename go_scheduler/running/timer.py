"""The timer: a heap of started runs, each handed over at the instant it is due."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.held_run import HeldRun


class Timer:
    """Waits for the next due instant; it never touches the store.

    Args:
        clock: The store's time, as this node has it.
        hand_over: Takes runs that are due.
        events: Told of what fails.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        clock: StoreClock,
        *,
        hand_over: Callable[[Sequence[HeldRun]], None],
        events: Events = LOG_ALONE,
    ) -> None:
        self._clock = clock
        self._hand_over = hand_over
        self._lock = threading.Lock()
        # The sequence decides ties before the comparison reaches a run, which has no
        # order.
        self._heap: list[tuple[datetime, int, HeldRun]] = []
        self._sequence = count()
        self.ticker = Ticker(
            "timer", self.tick, interval=None, clock=clock.base, events=events
        )

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Hand these over when they are due; those that are due, at once."""
        now = self._clock.now()
        due = []
        with self._lock:
            first = self._heap[0][0] if self._heap else None
            for run in runs:
                if run.instance.due_at <= now:
                    due.append(run)
                    continue
                entry = (run.instance.due_at, next(self._sequence), run)
                heappush(self._heap, entry)
            moved = bool(self._heap) and self._heap[0][0] != first
        if moved:
            self.ticker.wake()
        self._hand_over(due)

    def tick(self) -> timedelta | None:
        """Hand over what is due; answer how long until the next one is."""
        while due := self._take_due(self._clock.now()):
            self._hand_over(due)
        with self._lock:
            return self._heap[0][0] - self._clock.now() if self._heap else None

    def _take_due(self, now: datetime) -> Sequence[HeldRun]:
        due = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heappop(self._heap)[2])
        return due
