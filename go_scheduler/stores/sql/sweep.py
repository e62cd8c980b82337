"""How far back a scan of an index by time has to look.

What has been dealt with leaves traces at the head of such an index, on CockroachDB for
hours, and a scan from its beginning walks over all of them. New rows, however, are
never written below the present time. So a scan looks back a little further than to the
last one that left nothing behind; and now and then much further, for what was invisible
then: written in a transaction that took long, or locked by a node that did not keep it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

LATE = timedelta(seconds=10)
"""What lies further back than this when it is written is marked as late."""

_OVERLAP = timedelta(seconds=30)
_WIDE = timedelta(minutes=15)
_WIDE_EVERY = timedelta(seconds=20)
_ALL = timedelta(days=36_525 * 20)
_ALL_EVERY = timedelta(minutes=5)


class Sweep:
    """One scan, repeated for ever.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._began: timedelta | None = None
        self._back = ZERO
        self._last = self._next_wide = self._next_all = ZERO
        self._next_all = elapsed()
        self.position: datetime | None = None

    @property
    def back(self) -> timedelta:
        """How far to look back, unless there is a ``position`` to go on from."""
        if self._began is None:
            self._began = now = self._elapsed()
            if now >= self._next_all:
                self._back = _ALL
            else:
                self._back = now - self._last + _OVERLAP
                if now >= self._next_wide:
                    self._back = max(self._back, _WIDE)
        # The bound stays where it was while there is more above it.
        return self._back + self._elapsed() - self._began

    def go_on(self, position: datetime) -> None:
        """Note that there is more, from a position on."""
        self.position = position

    def finish(self) -> None:
        """Note that nothing was left behind."""
        if self._began is None:
            return
        self._last = self._began
        if self._back >= _WIDE:
            self._next_wide = self._began + _WIDE_EVERY
        if self._back >= _ALL:
            self._next_all = self._began + _ALL_EVERY
        self._began = self.position = None

    def start_over(self) -> None:
        """Look at everything the next time."""
        self._next_all = self._elapsed()
        self._began = self.position = None
