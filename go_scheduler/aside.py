"""What a loop could not write: left aside, so that it keeps nothing else waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BUSY = timedelta(milliseconds=100), timedelta(seconds=1)
_FAILED = timedelta(seconds=1), timedelta(seconds=10)
_TELLING = 4

Row = TypeVar("Row")


class Aside(Generic[Row]):
    """Rows that are tried again later: soon at first, then less and less often."""

    def __init__(self) -> None:
        self._due: dict[Row, timedelta] = {}
        # How often, and for how long last; kept until a row is forgotten.
        self._left: dict[Row, tuple[int, timedelta]] = {}

    def __contains__(self, row: Row) -> bool:
        return row in self._due

    def __len__(self) -> int:
        return len(self._due)

    def leave_busy(self, row: Row, elapsed: timedelta) -> bool:
        """Leave aside what somebody else has locked.

        Returns:
            Whether that is worth a word: it has been tried for about a second.
        """
        self._leave(row, elapsed, *_BUSY)
        return self._left[row][0] == _TELLING

    def leave_failed(self, row: Row, elapsed: timedelta) -> timedelta:
        """Leave aside what cannot be written alone; answer for how long."""
        return self._leave(row, elapsed, *_FAILED)

    def take(self, elapsed: timedelta) -> Sequence[Row]:
        """What is to be tried again now; ``forget`` what can be written."""
        due = [row for row, at in self._due.items() if at <= elapsed]
        for row in due:
            del self._due[row]
        return due

    def forget(self, row: Row) -> None:
        """Try a row no more."""
        self._due.pop(row, None)
        self._left.pop(row, None)

    def forget_unless(self, wanted: Callable[[Row], bool]) -> None:
        """Try those no more that are not wanted any more."""
        for row in [each for each in self._left if not wanted(each)]:
            self.forget(row)

    def next(self, elapsed: timedelta) -> timedelta | None:
        """How long until something is to be tried again; None: nothing is."""
        return min(self._due.values()) - elapsed if self._due else None

    def _leave(
        self, row: Row, elapsed: timedelta, first: timedelta, longest: timedelta
    ) -> timedelta:
        times, last = self._left.get(row, (0, ZERO))
        delay = min(max(first, 2 * last), longest)
        self._left[row] = times + 1, delay
        self._due[row] = elapsed + delay
        return delay
