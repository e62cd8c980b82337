"""The fire times of a trigger as sets: the next one, and how many there are."""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from datetime import MAXYEAR, date, datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.instants import MICROSECOND, SECOND
from go_scheduler.triggers.years.cells import (
    DAY,
    combined,
    count_before,
    days_in,
    first_from,
    nothing,
    within,
)
from go_scheduler.triggers.years.years import UNSETTLED, Remembered, Years

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort

LONGEST_SEARCH = 400
"""After so many years without a fire time there is none: all calendars have passed."""

_PER_YEAR = 8


class FireTimes:
    """All fire times of a trigger; those of one year at a time are worked out.

    Args:
        years: Its whole seconds, by the microseconds that follow each of them.
    """

    def __init__(self, years: Mapping[int, Years]) -> None:
        self._years = years
        self._totals: Remembered[tuple[int, Cells]] = Remembered()

    def next(
        self,
        start: datetime,
        leap: Callable[[datetime], datetime | None],
        effort: Effort,
    ) -> datetime | None:
        """The first one at or after an instant.

        Args:
            start: The instant.
            leap: Tells before which instant there is none, asked about the beginning
                of a year; None: nothing comes any more.
            effort: What may be spent.

        Returns:
            None: there is none, or none for 400 years.

        Raises:
            UndecidedError: That takes too much.
        """
        settled = max((each.settled for each in self._years.values()), default=0)
        last = _last_year(start.year, settled)
        tried: set[Hashable] = set()
        is_whole = False
        while True:
            likeness = _likeness(start.year)
            if is_new := likeness not in tried:
                effort.spend(_PER_YEAR)
                if (found := self._first(start, effort)) is not None:
                    return found
                if is_whole and start.year >= settled:
                    tried.add(likeness)
            if start.year >= last:
                return None
            start, is_whole = _new_year(start).replace(year=start.year + 1), True
            if is_new:
                if (following := leap(start)) is None:
                    return None
                # There is nothing before it, so that its year is whole without that.
                start = max(start, following)

    def count(self, year: int, until: int, effort: Effort) -> int:
        """How many there are in a year.

        Args:
            year: The year.
            until: Before this microsecond of it.
            effort: What may be spent.
        """
        return sum(
            count_before(each.cells(year, effort), -((phase - until) // SECOND))
            for phase, each in self._years.items()
        )

    def total(self, year: int, effort: Effort) -> int:
        """How many there are in a whole year."""
        return sum(
            self._total(each.cells(year, effort)) for each in self._years.values()
        )

    def _total(self, cells: Cells) -> int:
        end = sum(cells.values()).bit_length() * DAY
        # The cells are kept with it, so that nothing takes over their identity.
        return self._totals.get(id(cells), lambda: (count_before(cells, end), cells))[0]

    def _first(self, start: datetime, effort: Effort) -> datetime | None:
        """The first one at or after an instant and within its year."""
        begin = microsecond_of(start)
        found = []
        for phase, each in self._years.items():
            cells = each.cells(start.year, effort)
            first = first_from(cells, -((phase - begin) // SECOND))
            if first is not None:
                found.append(first * SECOND + phase)
        return start + (min(found) - begin) * MICROSECOND if found else None


class Tally:
    """How many fire times there are from an instant on; they are counted once.

    Attributes:
        most: Where it stops counting: there may be so many, or more.

    Args:
        times: The fire times.
        begin: The instant; or a local time, if they are local.
        most: Where to stop.
    """

    def __init__(self, times: FireTimes, begin: datetime, most: int) -> None:
        self._times = times
        self._begin = begin
        self.most = most
        # Before each year that has been counted up to.
        self._before: dict[int, int] = {}

    @property
    def first_year(self) -> int:
        """The first year of which something may count."""
        return self._begin.year

    def before(self, year: int, until: int, effort: Effort) -> int:
        """How many there are before a microsecond of a year that is not too early."""
        found = self.before_year(year, effort)
        if found >= self.most:
            return found
        return found + self._times.count(year, until, effort)

    def before_year(self, year: int, effort: Effort) -> int:
        """How many there are before a year that is not too early."""
        if not self._before:
            passed = self._times.count(
                self._begin.year, microsecond_of(self._begin), effort
            )
            self._before[self._begin.year] = -passed
        last = max(self._before)
        for each in range(last, year):
            if self._before[each] >= self.most:
                return self._before[each]
            effort.spend(_PER_YEAR)
            total = self._before[each] + self._times.total(each, effort)
            self._before[each + 1] = total
        return self._before[year]


class CountedYears(Years):
    """The seconds of a set until so many have been counted.

    Args:
        years: The set.
        tally: What counts, up to a limit.
        phase: So many microseconds after its seconds its instants are.
    """

    def __init__(self, years: Years, tally: Tally, *, phase: int = 0) -> None:
        self._years = years
        self._tally = tally
        self._phase = phase

    @property
    def settled(self) -> int:
        """Never, as a count is its own in each year."""
        return UNSETTLED

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""

        def passed(second: int) -> bool:
            until = second * SECOND + self._phase
            return self._tally.before(year, until, effort) >= self._tally.most

        number = days_in(year)
        if (
            year < self._tally.first_year
            or self._tally.before_year(year, effort) >= self._tally.most
        ):
            return nothing(number)
        cells = self._years.cells(year, effort)
        if self._tally.before_year(year + 1, effort) <= self._tally.most:
            return cells
        end = bisect_left(range(number * DAY), True, key=passed)
        return combined(cells, within(0, end, number), int.__and__, effort)


def microsecond_of(moment: datetime) -> int:
    """The number of a microsecond in its year."""
    return (moment - _new_year(moment)) // MICROSECOND


def _new_year(moment: datetime) -> datetime:
    return moment.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)


def _last_year(first: int, settled: int) -> int:
    """The last year that a search from a first one on looks at."""
    begin = first if settled > MAXYEAR else max(first, settled)
    return min(begin + LONGEST_SEARCH, MAXYEAR)


def _likeness(year: int) -> Hashable:
    """A key that years share which have, with those around them, the same calendars."""
    # The year 2000 is as good as the year 10000.
    year = 2000 + year % 400
    leap_years = [isleap(each) for each in (year - 1, year, year + 1)]
    return date(year, 1, 1).weekday(), *leap_years
