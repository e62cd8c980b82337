"""The seconds of a year, by days that have the same: sets, as the bits of ints."""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from go_scheduler.triggers.years.effort import Effort

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
    one: Cells, other: Cells, operation: Callable[[int, int], int], effort: Effort
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
