"""The fire times of a trigger as sets: the next one, and how many there are."""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from copy import copy
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.local_time import (
    LONG_GAP,
    SETTLED,
    periods_of,
    year_alike,
)
from go_scheduler.triggers.times import MICROSECOND, SECOND
from go_scheduler.triggers.years.sets import (
    DAY,
    UNSETTLED,
    CombinedYears,
    Remembered,
    Years,
    cells_of,
    combined,
    count_before,
    days_in,
    first_from,
    nothing,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from go_scheduler.triggers.years.sets import Cells, Combined, SearchBudget

_SECOND = timedelta(seconds=1)
_EFFORT_OF_A_LOCAL_YEAR = 60
_LONG_GAP = LONG_GAP // _SECOND
_EPOCH_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 (local times are naive)


class Shift(NamedTuple):
    """A time throughout which a zone keeps one offset, in seconds of a year of UTC.

    Attributes:
        begin: Its first second.
        anew: The first one at which the clock does not repeat what it showed before.
        repeats: The first one whose local time is shown again after ``end``.
        end: The first second after it.
        offset: How far the clock is ahead of UTC.
        gap: How many local times are skipped at ``end``.
    """

    begin: int
    anew: int
    repeats: int
    end: int
    offset: int
    gap: int


class ClockYears(Years):
    """The seconds at which a clock shows certain local times.

    Attributes:
        local: The local times.

    Args:
        local: The local times.
        zone: Whose clock.
        elapsed: As for ``next_instant``.
        gap: As for ``next_instant``.
        overlap: As for ``next_instant``.
    """

    def __init__(
        self,
        local: Years,
        zone: tzinfo,
        *,
        elapsed: bool = True,
        gap: str = "next",
        overlap: str = "first",
    ) -> None:
        self.local = local
        self._zone = zone
        self._fills_gaps = gap == "next" and not elapsed
        self._overlap = "both" if elapsed else overlap
        self._known: Remembered[Combined] = Remembered(cells_of)

    @property
    def clock(self) -> Hashable:
        """The key that tells it from other clocks."""
        return self._zone, self._fills_gaps, self._overlap

    def showing(self, local: Years) -> ClockYears:
        """The same clock, with other local times."""
        found = copy(self)
        found.local = local
        found._known = Remembered(cells_of)
        return found

    @property
    def settled(self) -> int:
        """When the local times are, and the rules for the clock."""
        settled = self.local.settled
        return settled if self._zone is UTC else max(settled, SETTLED + 1)

    def cells(self, year: int, effort: SearchBudget) -> Cells:
        """Those of a year of UTC."""
        if self._zone is UTC:
            return self.local.cells(year, effort)
        local = [
            self.local.cells(each, effort) if 1 <= each <= 9999 else nothing(365)
            for each in (year - 1, year, year + 1)
        ]
        shifts = _shifts(self._zone, year)
        key = (*map(id, local), shifts)
        number = days_in(year)
        return self._known.get(
            key, lambda: (self._made(_joined(local, number), shifts, effort), local)
        )[0]

    def _made(
        self, local: Mapping[int, int], shifts: Sequence[Shift], effort: SearchBudget
    ) -> Cells:
        """A year of UTC, of the local days from the one before it on."""
        effort.spend(_EFFORT_OF_A_LOCAL_YEAR)
        number = sum(local.values()).bit_length() - 2
        found: dict[int, int] = {}
        left = (1 << number) - 1
        for shift in shifts:
            plain = _plain_days(shift) & left
            left ^= plain
            for times, days in _shifted(local, shift.offset, plain, effort):
                found[times] = found.get(times, 0) | days
        for day in range(number):
            if left >> day & 1:
                times = self._times(local, shifts, day)
                found[times] = found.get(times, 0) | 1 << day
        return found

    def _times(
        self, local: Mapping[int, int], shifts: Sequence[Shift], day: int
    ) -> int:
        """The seconds of a day on or near which the clocks change."""
        times = 0
        first, last = day * DAY, (day + 1) * DAY
        for shift in shifts:
            begin = shift.anew if self._overlap == "first" else shift.begin
            end = shift.repeats if self._overlap == "second" else shift.end
            begin, end = max(begin, first), min(end, last)
            if begin < end:
                shown = _window(local, begin + shift.offset, end - begin)
                times |= shown << begin - first
            if (
                self._fills_gaps
                and 0 < shift.gap < _LONG_GAP
                and first <= shift.end < last
                and _window(local, shift.end + shift.offset, shift.gap)
            ):
                times |= 1 << shift.end - first
        return times


def _shifts(zone: tzinfo, year: int) -> Sequence[Shift]:
    """How a zone's clock is set throughout a year; years alike have the same."""
    return _shifts_of(zone, year if year <= SETTLED else year_alike(year))


def union(parts: Sequence[Years]) -> Years:
    """The seconds that are in any of several sets.

    Those of the same clock are put together before they are read on it.
    """
    by_clock: dict[Hashable, list[ClockYears]] = {}
    found: list[Years] = []
    for each in parts:
        if isinstance(each, ClockYears):
            by_clock.setdefault(each.clock, []).append(each)
        else:
            found.append(each)
    found += [
        same[0].showing(CombinedYears(int.__or__, [each.local for each in same]))
        for same in by_clock.values()
    ]
    return found[0] if len(found) == 1 else CombinedYears(int.__or__, found)


@lru_cache(maxsize=4096)
def _shifts_of(zone: tzinfo, year: int) -> Sequence[Shift]:
    new_year, end = datetime(year, 1, 1, tzinfo=UTC), days_in(year) * DAY
    # Changes further away make no difference, and would tell alike years apart.
    low, high = -2 * DAY, end + 2 * DAY
    found = []
    for period in periods_of(zone, year):
        begin = max((period.begin - new_year) // _SECOND, low)
        finish = min(-((new_year - period.end) // _SECOND), high)
        found.append(
            Shift(
                begin,
                begin + (period.anew - period.opens) // _SECOND * (begin > low),
                finish - (period.closes - period.repeats) // _SECOND * (finish < high),
                finish,
                (period.epoch - _EPOCH_LOCAL) // _SECOND,
                max(period.resumes - period.closes, timedelta(0))
                // _SECOND
                * (finish < high),
            )
        )
    return tuple(found)


def _plain_days(shift: Shift) -> int:
    """The days throughout which the clock is set so, and repeats nothing."""
    first = max(shift.anew // DAY + 1, 0)
    return max((1 << max(shift.repeats // DAY, first)) - (1 << first), 0)


def _shifted(
    local: Mapping[int, int], offset: int, plain: int, effort: SearchBudget
) -> Iterator[tuple[int, int]]:
    """The seconds of days of UTC, of which each has parts of two local days."""
    ahead, second = divmod(offset, DAY)

    def joined(one: int, other: int) -> int:
        return one >> second | (other & (1 << second) - 1) << DAY - second

    days, following = (
        {each: on for each, those in local.items() if (on := those >> by & plain)}
        for by in (1 + ahead, 2 + ahead)
    )
    if second == 0:
        yield from days.items()
    else:
        yield from combined(days, following, joined, effort).items()


def _window(local: Mapping[int, int], begin: int, number: int) -> int:
    """So many local seconds from one on, that one as the lowest bit."""
    found = taken = 0
    while taken < number:
        day, second = divmod(begin + taken, DAY)
        # The day before the year is the first of them.
        times = next((each for each, days in local.items() if days >> day + 1 & 1), 0)
        found |= times >> second << taken
        taken += DAY - second
    return found & (1 << number) - 1


def _joined(local: Sequence[Cells], number: int) -> Mapping[int, int]:
    """The days of a local year, with the one before it and the one after."""
    before, this, after = local
    found = {times: days << 1 for times, days in this.items()}
    last_bit = sum(before.values()).bit_length() - 1
    for times, days in before.items():
        if days >> last_bit & 1:
            found[times] = found.get(times, 0) | 1
    for times, days in after.items():
        if days & 1:
            found[times] = found.get(times, 0) | 1 << number + 1
    return found


LONGEST_SEARCH = 400
"""After so many years without a fire time there is none: all calendars have passed."""

_EFFORT_OF_A_YEAR = 8


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
        effort: SearchBudget,
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
                effort.spend(_EFFORT_OF_A_YEAR)
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

    def count(self, year: int, until: int, effort: SearchBudget) -> int:
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

    def total(self, year: int, effort: SearchBudget) -> int:
        """How many there are in a whole year."""
        return sum(
            self._total(each.cells(year, effort)) for each in self._years.values()
        )

    def _total(self, cells: Cells) -> int:
        end = sum(cells.values()).bit_length() * DAY
        # The cells are kept with it, so that nothing takes over their identity.
        return self._totals.get(id(cells), lambda: (count_before(cells, end), cells))[0]

    def _first(self, start: datetime, effort: SearchBudget) -> datetime | None:
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

    def before(self, year: int, until: int, effort: SearchBudget) -> int:
        """How many there are before a microsecond of a year that is not too early."""
        found = self.before_year(year, effort)
        if found >= self.most:
            return found
        return found + self._times.count(year, until, effort)

    def before_year(self, year: int, effort: SearchBudget) -> int:
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
            effort.spend(_EFFORT_OF_A_YEAR)
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

    def cells(self, year: int, effort: SearchBudget) -> Cells:
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
