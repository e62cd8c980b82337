"""Sets of seconds, known year by year: made of others, within a bound of effort."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from calendar import isleap
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import MAXYEAR, date
from functools import lru_cache
from math import gcd
from sys import maxsize
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_EFFORT = 75_000
"""The most that may be spent on one question: about as many microseconds."""


class UndecidedError(InvalidTriggerError):
    """It was looked for a fire time so long that it stays open whether there is one."""


class SearchBudget:
    """The amount that is left to be spent on one question.

    Args:
        most: How much there is.
    """

    __slots__ = ("_left",)

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self._left = most

    def spend(self, amount: int) -> None:
        """Take away some of it.

        Raises:
            UndecidedError: There is nothing left.
        """
        self._left -= amount
        if self._left < 0:
            raise UndecidedError(
                "it could not be decided whether it fires: too many of its times are"
                " left out one by one"
            )


Cells: TypeAlias = Mapping[int, int]
"""Sets of seconds of a day, and to each the days of the year that have it.

Every day is in one of them, the days on which nothing fires in that of no seconds.
"""

DAY = 86_400
"""The seconds of a day."""

ALL_TIMES = (1 << DAY) - 1
"""All seconds of a day."""

MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""How many days the months have; february in a year that is no leap year."""

_PER_OPERATION = 7
_CHECKS_PER_UNIT = 16


def days_in(year: int) -> int:
    """How many days a year has."""
    return 366 if isleap(year) else 365


def first_second(year: int) -> int:
    """The number of the first second of a year; 0 is that of the year 1."""
    return (date(year, 1, 1).toordinal() - 1) * DAY


@lru_cache(maxsize=1024)
def on_days(days: int, number: int, times: int = ALL_TIMES) -> Cells:
    """Some seconds on some days, of so many, and none on the others."""
    rest = ((1 << number) - 1) ^ days
    return {each: of for each, of in ((times, days), (0, rest)) if of}


def nothing(number: int) -> Cells:
    """So many days on which nothing fires; always the same for the same number."""
    return on_days(0, number)


def is_nothing(cells: Cells) -> bool:
    """Whether nothing fires on any day."""
    return len(cells) == 1 and 0 in cells


def combined(
    one: Cells, other: Cells, operation: Callable[[int, int], int], effort: SearchBudget
) -> Cells:
    """Two years, or parts of years, put together day by day by an operation on sets."""
    found: dict[int, int] = {}
    for times, days in one.items():
        rest, cells = days, iter(other.items())
        # Every day is in one of them.
        while rest:
            others, other_days = next(cells)
            if common := rest & other_days:
                both = operation(times, others)
                found[both] = found.get(both, 0) | common
                effort.spend(_PER_OPERATION)
                rest ^= common
    effort.spend(len(one) * len(other) // _CHECKS_PER_UNIT)
    return found


def first_from(cells: Cells, begin: int) -> int | None:
    """The first second of a year from a given one on, if there is any."""
    today, second = divmod(begin, DAY)
    first: int | None = None
    for times, days in cells.items():
        left = days >> today
        if not times or not left:
            continue
        if left & 1:
            if later := times >> second:
                return begin + _lowest(later)
            left ^= 1
        if left and (first is None or today + _lowest(left) < first // DAY):
            first = (today + _lowest(left)) * DAY + _lowest(times)
    return first


def count_before(cells: Cells, end: int) -> int:
    """How many seconds of a year there are before a given one."""
    today, second = divmod(end, DAY)
    total = 0
    for times, days in cells.items():
        if not times:
            continue
        total += times.bit_count() * (days & (1 << today) - 1).bit_count()
        if days >> today & 1:
            total += (times & (1 << second) - 1).bit_count()
    return total


def within(begin: int, end: int, number: int) -> Cells:
    """The seconds from one on and before a later one, in a year of so many days."""
    first, begins = divmod(max(begin, 0), DAY)
    last, ends = divmod(min(end, number * DAY), DAY)
    after, before = ALL_TIMES >> begins << begins, (1 << ends) - 1
    if first == last:
        return on_days(1 << first, number, after & before)
    found = {0: (1 << number) - 1}
    for times, days in (
        (after, 1 << first),
        (ALL_TIMES, (1 << last) - (2 << first)),
        (before, 1 << last & found[0]),
    ):
        found[0] &= ~days
        found[times] = found.get(times, 0) | days
    return {times: days for times, days in found.items() if days}


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


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
    def cells(self, year: int, effort: SearchBudget) -> Cells:
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

    def cells(self, year: int, effort: SearchBudget) -> Cells:
        """The operation, on a year of each, as far as there is something left."""
        first, *others = self._parts
        found = first.cells(year, effort)
        for each in others:
            if self._only_takes_away and is_nothing(found):
                break
            found = self._both(found, each.cells(year, effort), effort)
        return found

    def _both(self, one: Cells, other: Cells, effort: SearchBudget) -> Cells:
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

    def cells(self, year: int, effort: SearchBudget) -> Cells:
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

    def cells(self, year: int, effort: SearchBudget) -> Cells:
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


_DAYS_PER_UNIT = 4
_PER_CELL = 8
_MOST_PHASES = 8


class ProgressionYears(Years):
    """A first second, and one after each so many more, for ever.

    Args:
        first: The first one.
        step: How many.
    """

    def __init__(self, first: int, step: int) -> None:
        self._first = first
        self._step = step
        self._known: Remembered[Cells] = Remembered(len)

    @property
    def settled(self) -> int:
        """Once it has begun, if weeks alike have the same; else it never is."""
        if 7 * DAY % self._step:
            return UNSETTLED
        return after_year_of(self._first)

    def cells(self, year: int, effort: SearchBudget) -> Cells:
        """Those of a year."""
        number = days_in(year)
        # From the beginning of the year: years alike have begun alike.
        first = self._first - first_second(year)
        if first < 0:
            first %= self._step
        first = min(first, number * DAY)
        return self._known.get(
            (first, number), lambda: self._made(first, number, effort)
        )

    def _made(self, first: int, number: int, effort: SearchBudget) -> Cells:
        by_first: dict[int, int] = {}
        for day in range(number):
            second = first - day * DAY
            if second < 0:
                second %= self._step
            second = min(second, DAY)
            by_first[second] = by_first.get(second, 0) | 1 << day
        effort.spend(number // _DAYS_PER_UNIT + _PER_CELL * len(by_first))
        multiples = comb(self._step)
        return {
            multiples << second & ALL_TIMES: days for second, days in by_first.items()
        }


@lru_cache(maxsize=64)
def comb(step: int) -> int:
    """The multiples of a step within a day."""
    number = (DAY - 1) // step + 1
    return ((1 << number * step) - 1) // ((1 << step) - 1) if number > 1 else 1


def progression(first: int, step: int, phase: int) -> Years:
    """Some of the instants at equal distances: those at whole seconds and a phase.

    Args:
        first: The first of all, in microseconds.
        step: How far they are apart, likewise.
        phase: So many microseconds after a whole second.
    """
    common = gcd(step, SECOND)
    if (phase - first) % common:
        return NEVER
    cycle = SECOND // common
    ahead = (phase - first) // common * pow(step // common, -1, cycle) % cycle
    return ProgressionYears((first + ahead * step) // SECOND, step // common)


def phases(first: int, step: int) -> frozenset[int] | None:
    """At how many microseconds after a whole second such instants are.

    Returns:
        None: at more than a few.
    """
    number = SECOND // gcd(step, SECOND)
    if number > _MOST_PHASES:
        return None
    return frozenset((first + index * step) % SECOND for index in range(number))
