"""How far back a scan of an index by time has to look.

Rows that were deleted or moved leave traces at the head of such an index, for hours on
CockroachDB, and a scan from its beginning walks over all of them. New rows, however,
are never written below the present time, so that a scan need not look much further back
than to the place that the one before has reached.

That one may have left out rows that were there: locked for a moment, or for as long as
a user kept a transaction open; committed, but not settled; not committed yet. Nobody
says so. Therefore rows that have been out of sight for some time are looked for again
and again, after pauses of a small part of that time: rarely enough for all that such a
look walks over, and soon enough for a row that has waited.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

LATE_AFTER = timedelta(seconds=10)
"""A fire time that lies further back than this when it is written is marked as late."""

_LEAST_DEPTH = timedelta(seconds=1)
_GREATER_DEPTHS = [2**number * _LEAST_DEPTH for number in range(2, 11)]
_LOOKS_PER_DEPTH = 16
_WHOLE_DEPTH = timedelta(days=36_525 * 20)
_LONGEST_PAUSE = timedelta(minutes=5)


class Sweep:
    """One scan, repeated for ever.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._reached = ZERO
        self._next = dict.fromkeys(_GREATER_DEPTHS, ZERO)
        self.start_over()

    def start_over(self) -> None:
        """Look at everything the next time, and soon again."""
        self._began: timedelta | None = None
        self._next_whole = self._elapsed()
        self._pause = _LEAST_DEPTH

    @property
    def back(self) -> timedelta:
        """How far to look back now; the next note is of this look."""
        now = self._elapsed()
        if self._began is None:
            self._began = now
        # The bound stays where it was while there is more above it.
        return now - self._reached + self._depth(self._began)

    def go_on(self, age: timedelta) -> None:
        """Note that there is more.

        Args:
            age: How long ago the time of the last row was; below zero if it is to come.
        """
        # New rows may have been written since below a time that is still to come.
        self._reach(max(age, ZERO))

    def finish(self) -> None:
        """Note that nothing more was found."""
        self._reach(ZERO)

    def _reach(self, age: timedelta) -> None:
        if (began := self._began) is None:
            return
        depth = self._depth(began)
        for each in _GREATER_DEPTHS:
            if each <= depth:
                self._next[each] = began + each / _LOOKS_PER_DEPTH
        if depth == _WHOLE_DEPTH:
            self._next_whole = began + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._reached, self._began = began - age, None

    def _depth(self, began: timedelta) -> timedelta:
        """How far below the place that was reached a look has to begin."""
        if began >= self._next_whole:
            return _WHOLE_DEPTH
        due = (depth for depth in _GREATER_DEPTHS if began >= self._next[depth])
        return max(due, default=_LEAST_DEPTH)
