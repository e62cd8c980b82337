"""The local times of a recurrence rule as sets, and how many it has over centuries."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from itertools import compress
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.triggers.fire_time_sets import (
    ALL_DAY,
    NEVER_PERIODIC,
    CachedYears,
    Year,
    YearlySet,
    listed,
    multiples_of,
    on_days,
)
from go_scheduler.triggers.local_time import changes, period_at
from go_scheduler.triggers.times import DAY, days_in, seconds_until

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence
    from datetime import tzinfo

    from go_scheduler.triggers.fire_time_sets import SearchBudget
    from go_scheduler.triggers.recurrence.series import LocalTimes

_COST_OF_DAY = 3
_COST_OF_TIMES = 8
_TIMES_PER_UNIT = 32
_MOST_CACHED = 64
_FEW = 32


def times_of_rule(times: LocalTimes) -> YearlySet:
    """The local times of a rule as a set."""
    # The times are kept with their bits, so that no others get their identity.
    known: dict[int, tuple[Sequence[int], int]] = {}

    def bits(seconds: Sequence[int], budget: SearchBudget) -> int:
        if isinstance(seconds, range):
            budget.spend(_COST_OF_TIMES)
            multiples = multiples_of(seconds.step)
            return multiples << seconds.start & ALL_DAY if seconds else 0
        budget.spend(_COST_OF_TIMES + len(seconds) // _TIMES_PER_UNIT)
        if (found := known.get(id(seconds))) is None:
            found = seconds, _bits(seconds)
            if len(known) >= _MOST_CACHED:
                known.clear()
            known[id(seconds)] = found
        return found[1]

    @CachedYears
    def make(likeness: Hashable, year: int, budget: SearchBudget) -> Year:
        length = days_in(year)
        if (plain := times.plain(year)) is not None:
            days, seconds = plain
            return on_days(length, days, bits(seconds, budget))
        # Most days have the identical times, or equal steps.
        first = date(year, 1, 1).toordinal()
        found: dict[object, tuple[Sequence[int], int]] = {}
        for day, seconds in times.days(first, first + length - 1, budget):
            key = seconds if isinstance(seconds, range) else id(seconds)
            _, days = found.get(key, (seconds, 0))
            found[key] = seconds, days | 1 << day - first
            budget.spend(_COST_OF_DAY)
        return Year.of(
            length, [(bits(seconds, budget), days) for seconds, days in found.values()]
        )

    def find(year: int, budget: SearchBudget) -> Year:
        return make(times.likeness(year), year, budget)

    return YearlySet(find, 0 if times.settled else NEVER_PERIODIC)


def _bits(seconds: Sequence[int]) -> int:
    """Seconds of a day as the bits of an int."""
    if len(seconds) <= _FEW:
        return sum(1 << each for each in seconds)
    # With more of them it is quicker to write them down one beside the other.
    digits = bytearray(b"0" * DAY)
    for each in seconds:
        digits[-1 - each] = ord("1")
    return int(digits, 2)


def times_of_moments(moments: Collection[date]) -> YearlySet:
    """A set of moments: instants, local times, and dates with all their times."""
    times = sorted(each for each in moments if isinstance(each, datetime))
    days = [each.toordinal() for each in moments if not isinstance(each, datetime)]
    return listed(list(map(seconds_until, times)), days)


def is_instant(moment: date) -> bool:
    """Whether it is a time that is not local."""
    return isinstance(moment, datetime) and moment.tzinfo is not None


FAR = timedelta(days=1000)
"""Beyond it, times are sooner added up by the year than counted one by one."""

_CENTURY = timedelta(days=36_525)
_LONGEST_YEAR = 366


class FarCount:
    """Counts the times of a rule over centuries: it adds up whole years.

    Few years differ in more than their number, so that most totals are known.

    Args:
        times: The times.
    """

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._days = cache(times.days_of)
        self._totals: dict[Hashable, int] = {}
        self._cycle = cycle = times.cycle()
        if cycle is not None:
            # So that a year can be cut out of it, wherever that begins.
            more = cycle * (_LONGEST_YEAR // len(cycle) + 1)
            self._cut = cycle + more[:_LONGEST_YEAR]

    def local(self, begin: datetime, end: datetime, most: int) -> int:
        """How many there are from one local time on and before another.

        Args:
            begin: The first that counts.
            end: The first that does not.
            most: Where to stop counting: there may be so many, or more.
        """
        total = -self._times.count(_midnight(begin), begin, maxsize)
        day, last = begin.toordinal(), end.toordinal()
        for year in range(begin.year, end.year + 1):
            if total >= most:
                return total
            following = min(date(year, 1, 1).toordinal() + days_in(year), last)
            total += self._in_year(year, day, following)
            day = following
        return total + self._times.count(_midnight(end), end, maxsize)

    def elapsed(self, begin: datetime, end: datetime, zone: tzinfo, most: int) -> int:
        """How many instants there are at which a clock shows one of the times.

        Args:
            begin: The first that counts.
            end: The first that does not.
            zone: Whose clock.
            most: Where to stop counting: there may be so many, or more.
        """
        total = 0
        while begin < end and total < most:
            until = begin + min(_CENTURY, end - begin)
            first, last = (period_at(at, zone).local(at) for at in (begin, until))
            total += self.local(first, last, maxsize)
            for year in range(begin.year, until.year + 1):
                for at, before, after in changes(zone, year):
                    if begin < at <= until:
                        total += self._shown_again(at, before, after)
            begin = until
        return total

    def _shown_again(self, at: datetime, before: timedelta, after: timedelta) -> int:
        """The times that a clock set back shows again; below zero: that it skips."""
        instant = at.replace(tzinfo=None)
        first, last = sorted((instant + before, instant + after))
        if not (self._has(first) or self._has(last)):
            return 0
        number = self._times.count(first, last, maxsize)
        return number if after < before else -number

    def _has(self, day: date) -> bool:
        """Whether a rule that counts hours or less has times on a day."""
        assert self._cycle is not None
        number = day.toordinal()
        passed = number - date(day.year, 1, 1).toordinal()
        is_day = self._days(day.year) >> passed & 1
        return bool(is_day and self._cycle[number % len(self._cycle)])

    def _in_year(self, year: int, first: int, end: int) -> int:
        """How many there are from one day of a year on and before another."""
        skipped, number = first - date(year, 1, 1).toordinal(), end - first
        if self._cycle is None:
            key: Hashable = skipped, number, self._times.likeness(year)
        else:
            days, begin = self._days(year), first % len(self._cycle)
            key = skipped, number, begin, days
        if key not in self._totals:
            if self._cycle is None:
                found = self._times.days(first, end - 1)
                total = sum(len(times) for _, times in found)
            else:
                counts = self._cut[begin : begin + number]
                total = sum(compress(counts, _mask(days)[skipped:]))
            self._totals[key] = total
        return self._totals[key]


@lru_cache(maxsize=64)
def _mask(days: int) -> bytes:
    """A byte for each day of a year: whether it is one of some days, as bits."""
    return bytes(days >> each & 1 for each in range(_LONGEST_YEAR))


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
