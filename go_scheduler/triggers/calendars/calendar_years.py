"""The days of calendars as sets: all the seconds of each."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from go_scheduler.triggers.years.cells import days_in, on_days
from go_scheduler.triggers.years.years import UNSETTLED, Remembered, Years

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort

_DAY = timedelta(days=1)
_DAYS_PER_UNIT = 4


class AskedYears(Years):
    """The days that a calendar says are in it, of which each is asked for.

    Args:
        includes: Tells whether a day is.
    """

    def __init__(self, includes: Callable[[date], bool]) -> None:
        self._includes = includes
        self._known: Remembered[Cells] = Remembered(len)

    @property
    def settled(self) -> int:
        """Never: what it says of each year is its own."""
        return UNSETTLED

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""

        def make() -> Cells:
            number, first = days_in(year), date(year, 1, 1)
            effort.spend(number // _DAYS_PER_UNIT)
            return on_days(
                sum(
                    1 << day
                    for day in range(number)
                    if self._includes(first + day * _DAY)
                ),
                number,
            )

        return self._known.get(year, make)


class WeekdayYears(Years):
    """Some days of the week.

    Args:
        weekdays: Monday is 0.
    """

    def __init__(self, weekdays: Collection[int]) -> None:
        self._weekdays = weekdays

    @property
    def settled(self) -> int:
        """From the beginning."""
        return 0

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        number, first = days_in(year), date(year, 1, 1).weekday()
        days = (day for day in range(number) if (first + day) % 7 in self._weekdays)
        return on_days(sum(1 << day for day in days), number)


class WholeDays(Years):
    """The days on which there is any time of a set.

    Args:
        years: The set.
    """

    def __init__(self, years: Years) -> None:
        self._years = years

    @property
    def settled(self) -> int:
        """When the set is."""
        return self._years.settled

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        cells = self._years.cells(year, effort)
        return on_days(
            sum(days for times, days in cells.items() if times), days_in(year)
        )
