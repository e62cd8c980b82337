"""Repeats: on a store that settles, what is new may not be found by the first look."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from go_scheduler.clock import Clock

_AFTER = tuple(timedelta(milliseconds=each) for each in (20, 50, 100, 200))


class Repeats:
    """When a look that was asked for is to be repeated; never, if nothing settles.

    Args:
        clock: Measures elapsed time.
        settling: How long the store's scans may leave out what has been committed.
    """

    def __init__(self, clock: Clock, *, settling: timedelta) -> None:
        self._clock = clock
        self._after = _AFTER if settling > ZERO else ()
        self._due: deque[timedelta] = deque()

    def begin(self) -> None:
        """Repeat the look that is taken now, and none before it."""
        elapsed = self._clock.elapsed()
        self._due = deque(elapsed + each for each in self._after)

    def take(self) -> bool:
        """Whether a repeat is due, which is then taken."""
        elapsed = self._clock.elapsed()
        due = False
        while self._due and self._due[0] <= elapsed:
            self._due.popleft()
            due = True
        return due

    @property
    def wait(self) -> timedelta | None:
        """How long until the next one; None: there is none."""
        return max(ZERO, self._due[0] - self._clock.elapsed()) if self._due else None
