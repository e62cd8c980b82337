"""The local times of a recurrence rule, found without walking there from its start."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from calendar import isleap
from datetime import MAXYEAR, date, datetime, timedelta
from math import gcd
from typing import TYPE_CHECKING

from go_scheduler.triggers.recurrence.day_times import (
    allowed_periods,
    offsets_of,
    ones,
    pick,
)
from go_scheduler.triggers.recurrence.periods import LAST_DAY, NEVER, Periods
from go_scheduler.triggers.recurrence.recurrence_rule import FREQUENCIES
from go_scheduler.triggers.years.cells import DAY, days_in

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule
    from go_scheduler.triggers.years.effort import Effort

_PATIENCE = 36_525
"""How many days it looks for the next one that has a time: a hundred years."""
_MOST_REMEMBERED = 64
_PER_TRY = 4
_MOST_IN_VAIN = 6_000
"""How many days or periods it tries; there are 5,218 weeks in a hundred years."""


class LocalTimes:
    """When a rule fires, by the clock on the wall, and as if it were never changed.

    A day is its ``toordinal()``. The search jumps between the days that INTERVAL allows
    and those that the other parts allow, until one is both.

    Args:
        rule: The rule.
        start: Where it starts, at a whole second: what the rule leaves open is taken
            from here, and INTERVAL counts from here. There are times before it, too.
    """

    def __init__(self, rule: RecurrenceRule, start: datetime) -> None:
        self._rule = rule.pinned(start)
        self._per_day = rule.periods_per_day
        self._period_length = DAY // self._per_day
        self._periods = Periods(self._rule)
        self._start = self._periods.number(start.toordinal())
        if self._per_day > 1:
            self._start += _second(start) // self._period_length
        self._allowed = allowed_periods(self._rule)
        self._offsets = offsets_of(self._rule)
        self._can_match = self._ever_picked() and self._ever_aligned()
        self._year = (0, 0, 0)
        self._days_of_year: dict[object, int] = {}
        self._times_of_day: dict[int, Sequence[int]] = {}

    def search(self, at: datetime) -> datetime | None:
        """The first time at or after a given one.

        Returns:
            None if a hundred years have none, or those left before the year 10000.
        """
        today = at.toordinal()
        for day, times in self.days(today):
            index = bisect_left(times, _second(at)) if day == today else 0
            if index < len(times):
                return _local(day, times[index])
        return None

    def count(self, begin: datetime, end: datetime, most: int) -> int:
        """How many times there are from one time on and before another.

        Args:
            begin: The first that counts.
            end: The first that does not.
            most: Where to stop counting: there may be so many, or more.
        """
        first, last, total = begin.toordinal(), end.toordinal(), 0
        for day, times in self.days(first, last):
            if total >= most:
                break
            total += bisect_left(times, _second(end)) if day == last else len(times)
            if day == first:
                total -= bisect_left(times, _second(begin))
        return total

    def days(
        self, day: int, end: int = LAST_DAY, effort: Effort | None = None
    ) -> Iterator[tuple[int, Sequence[int]]]:
        """The days that have times, from a given one on, and the seconds of these.

        It ends where a hundred years have none, or where so much was tried in vain.

        Args:
            day: The first day.
            end: The last one.
            effort: What may be spent, if that is bounded.
        """
        last = min(day + _PATIENCE, end) if self._can_match else 0
        left = _MOST_IN_VAIN
        while left and day <= last and (day := self._aligned(day)) <= last:
            left -= 1
            if effort is not None:
                effort.spend(_PER_TRY)
            if self._rule.picks_days:
                day, found = self._picked(day, last)
            else:
                day, found = self._matched(day, last)
            for match, times in found:
                if match > end:
                    return
                yield match, times
                last = min(match + _PATIENCE, end)
                left = _MOST_IN_VAIN

    @property
    def settled(self) -> bool:
        """Whether years with the same calendar have the same times."""
        if self._rule.easter_days:
            return False
        periods = {"YEARLY": 1, "MONTHLY": 12, "WEEKLY": 1}
        a_week = periods.get(self._rule.frequency, 7 * self._per_day)
        return a_week % self._rule.interval == 0

    def plain(self, year: int) -> tuple[int, Sequence[int]] | None:
        """The days of a year, as bits, and their times; None: these differ."""
        if self._rule.interval > 1 or self._rule.picks_days or not self._can_match:
            return None
        return self.days_of(year), self._times(date(year, 1, 1).toordinal())

    def cycle(self) -> array[int] | None:
        """How many times each day has, if the other parts allow it, over and over.

        It begins with the day before the first of all, whose ordinal is 0.

        Returns:
            None: INTERVAL counts months or years, or BYSETPOS picks days.
        """
        if self._rule.picks_days or self._rule.frequency in FREQUENCIES[:2]:
            return None
        interval, per_day, number = (
            self._rule.interval,
            self._per_day,
            len(self._offsets),
        )
        if self._rule.frequency == "WEEKLY":
            return array(
                "I",
                (
                    number * ((self._periods.number(day) - self._start) % interval == 0)
                    for day in range(7 * interval)
                ),
            )
        days = min(interval // gcd(interval, per_day), NEVER)
        if interval <= per_day:
            firsts = ((self._start - day * per_day) % interval for day in range(days))
            return array("I", (number * self._periods_from(each) for each in firsts))
        found = array("I", bytes(4 * days))
        for period in range(self._start % interval, days * per_day, interval):
            if self._allowed is None or self._allowed[period % per_day]:
                found[period // per_day] = number
        return found

    def _periods_from(self, first: int) -> int:
        """How many periods of a day fire, of which INTERVAL allows so many first."""
        if self._allowed is None:
            return len(range(first, self._per_day, self._rule.interval))
        return self._allowed[first :: self._rule.interval].count(1)

    def likeness(self, year: int) -> Hashable:
        """A key that two years share if they have the same times."""
        first = date(year, 1, 1)
        day = first.toordinal()
        ahead = (self._start - self._periods.number(day)) % self._rule.interval
        years = (year - 1, year, year + 1) if self._rule.picks_days else (year,)
        days = [self.days_of(each) for each in years if 1 <= each <= MAXYEAR]
        return first.weekday(), isleap(year), ahead, *days

    def _ever_picked(self) -> bool:
        """Whether a period can have as many times as BYSETPOS counts."""
        if not self._rule.picks_days:
            return bool(self._offsets)
        days = {"WEEKLY": len(self._rule.weekdays) or 7, "MONTHLY": 31, "YEARLY": 371}
        most = days[self._rule.frequency] * len(self._offsets)
        return min(map(abs, self._rule.positions)) <= most

    def _ever_aligned(self) -> bool:
        """Whether INTERVAL ever meets a time of day that the other parts allow."""
        step = gcd(self._rule.interval, self._per_day)
        return self._allowed is None or 1 in self._allowed[self._start % step :: step]

    def _aligned(self, day: int) -> int:
        """The first day from a given one on that has a period INTERVAL allows."""
        period = self._periods.number(day)
        ahead = (self._start - period) % self._rule.interval
        return self._periods.first_day(period + ahead) if ahead else day

    def _matched(
        self, day: int, last: int
    ) -> tuple[int, Sequence[tuple[int, Sequence[int]]]]:
        """Where to go on from a day, and the day with its times if it matches."""
        if (match := self._matching(day, last)) != day:
            return match, ()
        times = self._times(day)
        return day + 1, [(day, times)] if times else ()

    def _picked(
        self, day: int, last: int
    ) -> tuple[int, Sequence[tuple[int, Sequence[int]]]]:
        """Where to go on after the period of a day, and what BYSETPOS picks of it."""
        period = self._periods.number(day)
        first = self._periods.first_day(period)
        end = self._periods.first_day(period + 1)
        matching = self._days_between(first, end)
        if not matching:
            return self._matching(end, last), ()
        days = [first + each for each in _numbers(matching)]
        picked = pick(days, self._offsets, self._rule.positions)
        return end, [each for each in picked if each[0] >= day]

    def _days_between(self, first: int, end: int) -> int:
        """The days of a period that the other parts allow."""
        new_year, next_year, days = self._year_of(first)
        days >>= first - new_year
        # Three years have a part in some that are made of weeks.
        while next_year < min(end, NEVER):
            before = next_year
            _, next_year, more = self._year_of(before)
            days |= more << before - first
        return days & (1 << end - first) - 1

    def _matching(self, day: int, last: int) -> int:
        """The first day from a given one on that the parts but INTERVAL allow."""
        while day <= last:
            new_year, next_year, days = self._year_of(day)
            if left := days >> day - new_year:
                return day + next(_numbers(left))
            day = next_year
        return NEVER

    def _year_of(self, day: int) -> tuple[int, int, int]:
        """The first day of a day's year and of the next, and the days that match."""
        # Read once: another thread may be asking about another year.
        known = self._year
        if known[0] <= day < known[1]:
            return known
        year = date.fromordinal(day).year
        first = date(year, 1, 1).toordinal()
        end = first + days_in(year)
        self._year = known = first, end, self.days_of(year)
        return known

    def days_of(self, year: int) -> int:
        """The days of a year, worked out once for all years with the same calendar."""
        key = date(year, 1, 1).weekday(), isleap(year), isleap(year - 1)
        if (days := self._days_of_year.get(key)) is None:
            alike = 2000 + year % 400
            days = self._days_of_year[key] = self._rule.days_of(alike)
        if not self._rule.easter_days:
            return days
        return days & self._rule.easter_days_of(year)

    def _times(self, day: int) -> Sequence[int]:
        """The seconds of a day that INTERVAL and the other parts allow."""
        if self._per_day == 1:
            return self._offsets
        first = (self._start - day * self._per_day) % self._rule.interval
        if self._allowed is None and len(self._offsets) == 1:
            step = self._rule.interval * self._period_length
            return range(first * self._period_length + self._offsets[0], DAY, step)
        if (times := self._times_of_day.get(first)) is None:
            if len(self._times_of_day) >= _MOST_REMEMBERED:
                self._times_of_day.clear()
            times = self._times_of_day[first] = self._expanded(first)
        return times

    def _expanded(self, first: int) -> Sequence[int]:
        interval = self._rule.interval
        periods: Iterable[int] = range(first, self._per_day, interval)
        if self._allowed is not None:
            periods = [
                first + index * interval
                for index in ones(self._allowed[first::interval])
            ]
        return array(
            "I",
            (
                period * self._period_length + offset
                for period in periods
                for offset in self._offsets
            ),
        )


def _numbers(bits: int) -> Iterator[int]:
    """The numbers whose bits are set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _second(at: datetime) -> int:
    """The number of the first whole second of the day that is not before a time."""
    return at.hour * 3600 + at.minute * 60 + at.second + (at.microsecond > 0)


def _local(day: int, second: int) -> datetime:
    return datetime.fromordinal(day) + timedelta(seconds=second)
