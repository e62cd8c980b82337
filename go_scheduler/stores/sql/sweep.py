"""How far back a scan of an index by time has to look.

What has been dealt with leaves traces at the head of such an index, on CockroachDB for
hours, and a scan from its beginning walks over all of them. New rows, however, are
never written below the present time, so that a scan need not look much further back
than to what the one before has reached.

That one may have left out what was there: locked for a moment, or for as long as a user
kept a transaction open; committed, but not settled; not committed yet. Nobody says so.
Therefore what has been out of sight for some time is looked for again and again, after
pauses of a small part of that time: rarely enough for all that such a look walks over,
and soon enough for what has waited.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

LATE = timedelta(seconds=10)
"""What lies further back than this when it is written is marked as late."""

_LEAST = timedelta(seconds=1)
_DEEPER = [2**number * _LEAST for number in range(2, 11)]
_PART = 16
_ALL = timedelta(days=36_525 * 20)
_ALL_EVERY = timedelta(minutes=5)


class Sweep:
    """One scan, repeated for ever.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._reached = ZERO
        self._next = dict.fromkeys(_DEEPER, ZERO)
        self.start_over()

    def start_over(self) -> None:
        """Look at everything the next time, and soon again."""
        self._began: timedelta | None = None
        self._next_all = self._elapsed()
        self._pause = _LEAST

    @property
    def back(self) -> timedelta:
        """How far to look back now; what is noted next is of this look."""
        now = self._elapsed()
        if self._began is None:
            self._began = now
        # The bound stays where it was while there is more above it.
        return now - self._reached + self._depth(self._began)

    def go_on(self, age: timedelta) -> None:
        """Note that there is more.

        Args:
            age: How long ago that was which was found last; below zero if it is to
                come.
        """
        # Below what is to come, something new may have been written since.
        self._reach(max(age, ZERO))

    def finish(self) -> None:
        """Note that nothing more was found."""
        self._reach(ZERO)

    def _reach(self, age: timedelta) -> None:
        if (began := self._began) is None:
            return
        depth = self._depth(began)
        for each in _DEEPER:
            if each <= depth:
                self._next[each] = began + each / _PART
        if depth == _ALL:
            self._next_all = began + self._pause
            self._pause = min(2 * self._pause, _ALL_EVERY)
        self._reached, self._began = began - age, None

    def _depth(self, began: timedelta) -> timedelta:
        """How far below what was reached a look has to begin."""
        if began >= self._next_all:
            return _ALL
        due = (depth for depth in _DEEPER if began >= self._next[depth])
        return max(due, default=_LEAST)
