"""An agenda: runs by the times at which they are due."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from go_scheduler.running.held_run import HeldRun


class Agenda:
    """A heap of runs that several threads add to; the one that is due first is first.

    The starter and the timer have one each: a run stands in the one until its start is
    recorded, and then in the other until it is due.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of what is due at one instant a smaller priority is first. The sequence
        # decides ties before the comparison reaches a run, which has no order.
        self._heap: list[tuple[datetime, int, int, HeldRun]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> datetime | None:
        """When the first is due; None: there is none."""
        with self._lock:
            return self._first()

    def add(self, runs: Iterable[HeldRun]) -> bool:
        """Add runs; true if one of them is due before all others."""
        with self._lock:
            first = self._first()
            for run in runs:
                due_at, priority = run.instance.due_at, run.instance.definition.priority
                heappush(self._heap, (due_at, priority, next(self._sequence), run))
            return self._first() != first

    def take(self, until: datetime, most: int | None = None) -> Sequence[HeldRun]:
        """Take out those that are due by then, earliest first.

        Args:
            until: Up to when.
            most: So many at most; None: all.
        """
        runs: list[HeldRun] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= until and len(runs) != most:
                runs.append(heappop(self._heap)[3])
        return runs

    def _first(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None
