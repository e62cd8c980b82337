"""A set of times, known year by year, and those that are put together of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from datetime import MAXYEAR
from sys import maxsize
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from go_scheduler.triggers.years.cells import (
    DAY,
    combined,
    days_in,
    first_second,
    is_nothing,
    nothing,
    on_days,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort

Operation = Callable[[int, int], int]
"""An operation on two sets of seconds."""

UNSETTLED = MAXYEAR + 1
"""The ``settled`` of sets whose years are never alike."""

Combined: TypeAlias = "tuple[Cells, Sequence[Cells]]"
"""A year that was put together, and of what.

That is kept with it as long as it is remembered, so that nothing else takes over the
identity by which it is known.
"""

Made = TypeVar("Made")
# Ten kilobytes each at most, and few for what is common.
_MOST_CELLS = 4096


class Years(ABC):
    """A set of whole seconds, of UTC or of a clock on a wall, told year by year.

    Years that are alike are best told by the identical cells: then what is worked out
    of them is worked out once.
    """

    @property
    @abstractmethod
    def settled(self) -> int:
        """From this year on, those with the same calendar are alike."""

    @abstractmethod
    def cells(self, year: int, effort: Effort) -> Cells:
        """The seconds of a year.

        Raises:
            UndecidedError: That takes too much.
        """


class Remembered(Generic[Made]):
    """Values that were made of some keys.

    Args:
        cells: How many cells something is made of; together they are bounded.
    """

    __slots__ = ("_cells", "_known", "_left")

    def __init__(self, cells: Callable[[Made], int] = lambda made: 1) -> None:
        self._cells = cells
        self._known: dict[Hashable, Made] = {}
        self._left = _MOST_CELLS

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value that was made of a key, or is now."""
        known = self._known.get(key)
        if known is None:
            known = make()
            if self._left <= 0:
                self._known.clear()
                self._left = _MOST_CELLS
            self._left -= self._cells(known)
            self._known[key] = known
        return known


class CombinedYears(Years):
    """Several sets put together by an operation, from the first to the last.

    Args:
        operation: What becomes of two of them.
        parts: At least one.
    """

    def __init__(self, operation: Operation, parts: Sequence[Years]) -> None:
        self._operation = operation
        self._parts = parts
        self._only_takes_away = operation is not int.__or__
        self._known: Remembered[Combined] = Remembered(cells_of)

    @property
    def settled(self) -> int:
        """When all of them are."""
        return max(each.settled for each in self._parts)

    def cells(self, year: int, effort: Effort) -> Cells:
        """The operation, on a year of each, as far as there is something left."""
        first, *others = self._parts
        found = first.cells(year, effort)
        for each in others:
            if self._only_takes_away and is_nothing(found):
                break
            found = self._both(found, each.cells(year, effort), effort)
        return found

    def _both(self, one: Cells, other: Cells, effort: Effort) -> Cells:
        def make() -> Combined:
            return combined(one, other, self._operation, effort), (one, other)

        return self._known.get((id(one), id(other)), make)[0]


class BoundedYears(Years):
    """The seconds of a set from one on and before another.

    Args:
        years: The set.
        begin: The first second.
        end: The first second after it.
    """

    def __init__(self, years: Years, begin: int, end: int = maxsize) -> None:
        self._years = years
        self._begin = begin
        self._end = end

    @property
    def settled(self) -> int:
        """When the set is, and the bounds are passed."""
        bounds = [each for each in (self._begin, self._end) if each < maxsize]
        return max(self._years.settled, *map(after_year_of, bounds))

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of the set, or those in between."""
        first, number = first_second(year), days_in(year)
        begin, end = self._begin - first, self._end - first
        if end <= 0 or begin >= min(end, number * DAY):
            return nothing(number)
        cells = self._years.cells(year, effort)
        if begin <= 0 and end >= number * DAY:
            return cells
        return combined(cells, within(begin, end, number), int.__and__, effort)


class ListedYears(Years):
    """Some seconds and some whole days.

    Args:
        seconds: In order.
        days: The ordinals of dates.
    """

    def __init__(self, seconds: Sequence[int], days: Collection[int] = ()) -> None:
        self._seconds = seconds
        self._days = sorted(days)

    @property
    def settled(self) -> int:
        """After the last of them."""
        days = [(each - 1) * DAY for each in self._days[-1:]]
        return max(map(after_year_of, [*self._seconds[-1:], *days]), default=0)

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        first, number = first_second(year), days_in(year)
        end = first + number * DAY
        seconds = _between(self._seconds, first, end)
        days = _between(self._days, first // DAY + 1, end // DAY + 1)
        if not seconds and not days:
            return nothing(number)
        by_day: dict[int, int] = {}
        for each in seconds:
            day, second = divmod(each - first, DAY)
            by_day[day] = by_day.get(day, 0) | 1 << second
        whole = sum(1 << each - 1 - first // DAY for each in days)
        cells = on_days(whole, number)
        for day, times in by_day.items():
            one = on_days(1 << day, number, times)
            cells = combined(cells, one, int.__or__, effort)
        return cells


def cells_of(combined: Combined) -> int:
    """How many cells a year has that was put together."""
    return len(combined[0])


def after_year_of(second: int) -> int:
    """A year that begins after a second, so that not even its eve is near it."""
    return second // (365 * DAY) + 3


def without(times: int, others: int) -> int:
    """The seconds that are not among others."""
    return times & ~others


def _between(numbers: Sequence[int], first: int, end: int) -> Sequence[int]:
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]


NEVER: Years = ListedYears(())
"""No second at all."""
