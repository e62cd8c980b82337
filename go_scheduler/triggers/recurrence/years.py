"""The local times of a recurrence rule as sets, and how many it has over centuries."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import compress
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.triggers.local_time import changes, period_at
from go_scheduler.triggers.times import seconds_until
from go_scheduler.triggers.years.sets import (
    DAY,
    UNSETTLED,
    ListedYears,
    Remembered,
    Years,
    comb,
    days_in,
    on_days,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence
    from datetime import tzinfo

    from go_scheduler.triggers.recurrence.series import LocalTimes
    from go_scheduler.triggers.years.sets import Cells, SearchBudget

# With more times than these it is quicker to write them down one beside the other.
_MOST_ONE_BY_ONE = 32
_PER_DAY = 3


class RuleYears(Years):
    """The times of a rule, year by year.

    Args:
        times: What finds them.
    """

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._known: Remembered[Cells] = Remembered(len)
        self._seconds: Remembered[tuple[int, Sequence[int]]] = Remembered()

    @property
    def settled(self) -> int:
        """From the beginning or never, as INTERVAL counts."""
        return 0 if self._times.settled else UNSETTLED

    def cells(self, year: int, effort: SearchBudget) -> Cells:
        """Those of a year."""
        return self._known.get(
            self._times.likeness(year), lambda: self._made(year, effort)
        )

    def _made(self, year: int, effort: SearchBudget) -> Cells:
        first, number = date(year, 1, 1).toordinal(), days_in(year)
        if (plain := self._times.plain(year)) is not None:
            days, times = plain
            effort.spend(_effort(times))
            return on_days(days, number, self._bits(times))
        # Most days have the identical times, or equal steps.
        by_times: dict[object, tuple[Sequence[int], int]] = {}
        rest = (1 << number) - 1
        for day, times in self._times.days(first, first + number - 1, effort):
            bit = 1 << day - first
            key = times if isinstance(times, range) else id(times)
            days = by_times[key][1] if key in by_times else 0
            by_times[key] = times, days | bit
            rest ^= bit
            effort.spend(_PER_DAY)
        found = {0: rest} if rest else {}
        for times, days in by_times.values():
            effort.spend(_effort(times))
            seconds = self._bits(times)
            found[seconds] = found.get(seconds, 0) | days
        return found

    def _bits(self, times: Sequence[int]) -> int:
        return self._seconds.get(id(times), lambda: (_bits(times), times))[0]


def years_of_moments(moments: Collection[date]) -> Years:
    """Single moments as sets: instants, local times, and dates with all their times."""
    times = sorted(each for each in moments if isinstance(each, datetime))
    days = [each.toordinal() for each in moments if not isinstance(each, datetime)]
    return ListedYears(list(map(seconds_until, times)), days)


def is_instant(moment: date) -> bool:
    """Whether it is a time that is not local."""
    return isinstance(moment, datetime) and moment.tzinfo is not None


def _effort(times: Sequence[int]) -> int:
    return 8 if isinstance(times, range) else 8 + len(times) // _MOST_ONE_BY_ONE


def _bits(times: Sequence[int]) -> int:
    """Seconds of a day as the bits of an int."""
    if isinstance(times, range):
        return comb(times.step) << times.start & (1 << DAY) - 1 if times else 0
    if len(times) <= _MOST_ONE_BY_ONE:
        return sum(1 << each for each in times)
    digits = bytearray(b"0" * DAY)
    for each in times:
        digits[-1 - each] = ord("1")
    return int(digits, 2)


FAR = timedelta(days=1000)
"""Beyond it, times are sooner added up by the year than counted one by one."""

_CENTURY = timedelta(days=36_525)
_LONGEST_YEAR = 366


class FarCount:
    """Counts the times of a rule. Each year is like few others in all but its number.

    Args:
        times: The times.
    """

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._totals: dict[Hashable, int] = {}
        self._days_of: dict[int, int] = {}
        self._masks: dict[int, bytes] = {}
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
            total += self._on(day, following, year)
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
            total += self.local(_shown(begin, zone), _shown(until, zone), maxsize)
            total += sum(self._at_changes(begin, until, zone))
            begin = until
        return total

    def _at_changes(
        self, begin: datetime, end: datetime, zone: tzinfo
    ) -> Iterator[int]:
        """The times that a clock set back shows again; below zero: that it skips."""
        for year in range(begin.year, end.year + 1):
            for at, before, after in changes(zone, year):
                if not begin < at <= end:
                    continue
                instant = at.replace(tzinfo=None)
                first, last = sorted((instant + before, instant + after))
                if self._has(first) or self._has(last):
                    number = self._times.count(first, last, maxsize)
                    yield number if after < before else -number

    def _has(self, day: date) -> bool:
        """Whether a rule that counts hours or less has times on a day."""
        assert self._cycle is not None
        number = day.toordinal()
        passed = number - date(day.year, 1, 1).toordinal()
        return bool(
            self._days(day.year) >> passed & 1
            and self._cycle[number % len(self._cycle)]
        )

    def _on(self, first: int, end: int, year: int) -> int:
        """How many there are from one day of a year on and before another."""
        skipped = first - date(year, 1, 1).toordinal()
        if self._cycle is None:
            key: Hashable = skipped, end - first, self._times.likeness(year)
        else:
            days = self._days(year)
            begin = first % len(self._cycle)
            key = skipped, end - first, begin, days
        total = self._totals.get(key)
        if total is None:
            if self._cycle is None:
                total = sum(len(times) for _, times in self._times.days(first, end - 1))
            else:
                counts = self._cut[begin : begin + end - first]
                total = sum(compress(counts, self._mask(days)[skipped:]))
            self._totals[key] = total
        return total

    def _days(self, year: int) -> int:
        """The days of a year on which it may have times, as bits."""
        days = self._days_of.get(year)
        if days is None:
            days = self._days_of[year] = self._times.days_of(year)
        return days

    def _mask(self, days: int) -> bytes:
        """A byte for each day of a year: whether it is one of some days, as bits."""
        mask = self._masks.get(days)
        if mask is None:
            mask = bytes(days >> each & 1 for each in range(_LONGEST_YEAR))
            self._masks[days] = mask
        return mask


def _shown(instant: datetime, zone: tzinfo) -> datetime:
    return period_at(instant, zone).local(instant)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
