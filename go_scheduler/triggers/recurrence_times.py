"""The fire times of a recurrence set: local times of its rules, and their instants."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from calendar import isleap
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, tzinfo
from functools import cache, lru_cache
from itertools import compress, groupby
from math import gcd
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.base import Progression, utc
from go_scheduler.triggers.fire_time_sets import (
    ALL_DAY,
    NEVER_PERIODIC,
    CachedYears,
    RunningCount,
    Year,
    YearlySet,
    at_one_microsecond,
    bounded,
    combine,
    counted,
    difference,
    in_zone,
    listed,
    multiples_of,
    on_days,
    union,
)
from go_scheduler.triggers.local_time import (
    changes,
    local_time,
    next_instant,
    period_at,
)
from go_scheduler.triggers.recurrence_rules import FREQUENCIES, RecurrenceRule
from go_scheduler.triggers.times import (
    DAY,
    FIRST_INSTANT,
    LAST_INSTANT,
    MICROSECOND,
    SECOND,
    days_in,
    microseconds_of,
    seconds_until,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from go_scheduler.triggers.fire_time_sets import SearchBudget
    from go_scheduler.triggers.local_time import Search
    from go_scheduler.triggers.recurrence_rules import Recurrence


_DAY = timedelta(days=1)
_SECONDS = {
    "WEEKLY": 604_800,
    "DAILY": 86_400,
    "HOURLY": 3600,
    "MINUTELY": 60,
    "SECONDLY": 1,
}
_LAST_TIME = datetime.max  # noqa: DTZ901 (local times are naive)


class WallClock(NamedTuple):
    """How local times become instants; see ``WallClockTrigger``."""

    zone: tzinfo
    gap: str = "next"
    overlap: str = "first"

    def next(
        self, search: Search, after: datetime, *, elapsed: bool = False
    ) -> datetime | None:
        """The first instant strictly later than another at which a time matches."""
        return next_instant(
            search,
            after,
            self.zone,
            elapsed=elapsed,
            gap=self.gap,
            overlap=self.overlap,
        )

    def times(self, local: YearlySet, *, elapsed: bool = False) -> YearlySet:
        """The seconds at which local times match."""
        return in_zone(
            local, self.zone, elapsed=elapsed, gap=self.gap, overlap=self.overlap
        )


LAST_DAY = date.max.toordinal()
NEVER = LAST_DAY + 1
_PATIENCE = 36_525
"""The search ends after so many days without a time: a hundred years."""
_MOST_REMEMBERED = 64
_PER_TRY = 4
_MOST_IN_VAIN = 6_000
"""The search ends after so many days or periods; a hundred years have 5,218 weeks."""


class LocalTimes:
    """The local times of a rule, on a clock that never changes.

    A day is a number, its ``toordinal()``. The search jumps between the days that
    INTERVAL allows and the days that the other parts allow, until a day is both.

    Args:
        rule: The rule.
        start: Where it starts, at a whole second: what the rule leaves open is taken
            from here, and INTERVAL counts from here. The rule has earlier times, too.
    """

    def __init__(self, rule: RecurrenceRule, start: datetime) -> None:
        self._rule = rule.pinned(start)
        self._per_day = rule.periods_per_day
        self._period_length = DAY // self._per_day
        self._start = self._period_of(start.toordinal())
        if self._per_day > 1:
            self._start += _second(start) // self._period_length
        self._allowed, self._offsets = _times_of(self._rule)
        self._can_match = self._can_ever_match()
        self._year = (0, 0, 0)
        self._days_of_year: dict[object, int] = {}
        self._times_of_day: dict[int, Sequence[int]] = {}

    def search(self, at: datetime) -> datetime | None:
        """The first time at or after a given one.

        Returns:
            None if the next hundred years have no time, or the year 10000 comes first.
        """
        today = at.toordinal()
        for day, times in self.days(today):
            index = bisect_left(times, _second(at)) if day == today else 0
            if index < len(times):
                return datetime.fromordinal(day) + timedelta(seconds=times[index])
        return None

    def count(self, begin: datetime, end: datetime, most: int) -> int:
        """Count the times from one on and before another, up to a maximum."""
        first, last, total = begin.toordinal(), end.toordinal(), 0
        for day, times in self.days(first, last):
            if total >= most:
                break
            total += bisect_left(times, _second(end)) if day == last else len(times)
            if day == first:
                total -= bisect_left(times, _second(begin))
        return total

    def days(
        self, day: int, end: int = LAST_DAY, effort: SearchBudget | None = None
    ) -> Iterator[tuple[int, Sequence[int]]]:
        """The days that have times, from a given day on, each with its seconds.

        It ends after a hundred years without a time, or after 6,000 vain steps.
        """
        last = min(day + _PATIENCE, end) if self._can_match else 0
        left = _MOST_IN_VAIN
        while left and day <= last and (day := self._aligned(day)) <= last:
            left -= 1
            if effort is not None:
                effort.spend(_PER_TRY)
            found: Iterable[tuple[int, Sequence[int]]] = ()
            if self._rule.picks_days:
                day, found = self._picked(day, last)
            elif (match := self._matching(day, last)) > day:
                day = match
            else:
                if times := self._times(day):
                    found = [(day, times)]
                day += 1
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
        """The days of a year, as bits, and the times of each; None: the days differ."""
        if self._rule.interval > 1 or self._rule.picks_days or not self._can_match:
            return None
        return self.days_of(year), self._times(date(year, 1, 1).toordinal())

    def cycle(self) -> array[int] | None:
        """The number of times of each day that INTERVAL allows, as a cycle of days.

        The first item is for the day with the ordinal 0.

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
                    number * ((self._period_of(day) - self._start) % interval == 0)
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
        """The number of periods of a day that fire, from the first that is allowed."""
        if self._allowed is None:
            return len(range(first, self._per_day, self._rule.interval))
        return self._allowed[first :: self._rule.interval].count(1)

    def likeness(self, year: int) -> Hashable:
        """A key that two years share if they have the same times."""
        first = date(year, 1, 1)
        day = first.toordinal()
        ahead = (self._start - self._period_of(day)) % self._rule.interval
        years = (year - 1, year, year + 1) if self._rule.picks_days else (year,)
        days = [self.days_of(each) for each in years if 1 <= each <= MAXYEAR]
        return first.weekday(), isleap(year), ahead, *days

    def _period_of(self, day: int) -> int:
        """The number of the period, such as a year, in which a day begins."""
        rule = self._rule
        if rule.counts_weeks:
            week = day - (day - 1 - rule.week_start) % 7
            return date.fromordinal(min(max(week + 3, 1), LAST_DAY)).year
        match rule.frequency:
            case "YEARLY":
                return date.fromordinal(day).year
            case "MONTHLY":
                first = date.fromordinal(day)
                return first.year * 12 + first.month - 1
            case "WEEKLY":
                return (day - 1 - rule.week_start) // 7
        return day * self._per_day

    def _first_day(self, period: int) -> int:
        """The first day of a period, whole or in part."""
        rule = self._rule
        year, month = period, 0
        match rule.frequency:
            case "YEARLY" if rule.counts_weeks and period <= MAXYEAR:
                # The week that the fourth of January is in.
                day = date(period, 1, 4).toordinal()
                return max(day - (day - 1 - rule.week_start) % 7, 1)
            case "YEARLY":
                pass
            case "MONTHLY":
                year, month = divmod(period, 12)
            case "WEEKLY":
                return min(max(period * 7 + 1 + rule.week_start, 1), NEVER)
            case _:
                return period // self._per_day
        return date(year, month + 1, 1).toordinal() if year <= MAXYEAR else NEVER

    def _can_ever_match(self) -> bool:
        """Whether BYSETPOS can pick a time, and INTERVAL can meet an allowed one."""
        rule = self._rule
        days = {"WEEKLY": len(rule.weekdays) or 7, "MONTHLY": 31, "YEARLY": 371}
        most = days.get(rule.frequency, 1) * len(self._offsets)
        if not most or (rule.picks_days and min(map(abs, rule.positions)) > most):
            return False
        step = gcd(rule.interval, self._per_day)
        return self._allowed is None or 1 in self._allowed[self._start % step :: step]

    def _aligned(self, day: int) -> int:
        """The first day from a given one on that has a period INTERVAL allows."""
        period = self._period_of(day)
        ahead = (self._start - period) % self._rule.interval
        return self._first_day(period + ahead) if ahead else day

    def _picked(
        self, day: int, last: int
    ) -> tuple[int, Sequence[tuple[int, Sequence[int]]]]:
        """The next day to look at, and the days of this period that BYSETPOS picks."""
        period = self._period_of(day)
        first = self._first_day(period)
        end = self._first_day(period + 1)
        matching = self._days_between(first, end)
        if not matching:
            return self._matching(end, last), ()
        days = [first + each for each in _numbers(matching)]
        picked = _pick(days, self._offsets, self._rule.positions)
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
        """The first day from a given one on that all parts but INTERVAL allow."""
        while day <= last:
            new_year, next_year, days = self._year_of(day)
            if left := days >> day - new_year:
                return day + next(_numbers(left))
            day = next_year
        return NEVER

    def _year_of(self, day: int) -> tuple[int, int, int]:
        """The first days of this year and of the next one, and the days that match."""
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
        """The days of a year, as bits, computed once for years that are alike."""
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
                for index in _ones(self._allowed[first::interval])
            ]
        return array(
            "I",
            (
                period * self._period_length + offset
                for period in periods
                for offset in self._offsets
            ),
        )


def _times_of(rule: RecurrenceRule) -> tuple[bytes | None, Sequence[int]]:
    """The times of day that a rule allows.

    Returns:
        The allowed hours, minutes or seconds of a day, whatever FREQ counts, a byte
        each; None: all. And the seconds at which it fires within each, or within a day.
    """
    parts = (rule.hours, 24, 3600), (rule.minutes, 60, 60), (rule.seconds, 60, 1)
    # So many of them limit what FREQ counts; the others expand it.
    depth = {24: 1, 1440: 2, DAY: 3}.get(rule.periods_per_day, 0)
    allowed = None
    if any(values for values, *_ in parts[:depth]):
        allowed = b"\1"
        for values, number, _ in reversed(parts[:depth]):
            blank = bytes(len(allowed))
            allowed = b"".join(
                allowed if not values or each in values else blank
                for each in range(number)
            )
    offsets: Sequence[int] = array("I", [0])
    for values, _, length in parts[depth:]:
        offsets = array(
            "I", (offset + value * length for offset in offsets for value in values)
        )
    if rule.positions and not rule.picks_days:
        offsets = next((times for _, times in _pick([0], offsets, rule.positions)), ())
    return allowed, offsets


def _pick(
    days: Sequence[int], offsets: Sequence[int], positions: Sequence[int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """The times of a period that BYSETPOS picks, by day."""
    total = len(days) * len(offsets)
    indexes = {each - 1 if each > 0 else total + each for each in positions}
    kept = sorted(index for index in indexes if 0 <= index < total)
    for number, group in groupby(kept, key=lambda index: index // len(offsets)):
        yield days[number], [offsets[index % len(offsets)] for index in group]


def _ones(mask: bytes) -> Iterator[int]:
    """The indexes at which a mask is 1; fast also if they are few."""
    index = mask.find(1)
    while index >= 0:
        yield index
        index = mask.find(1, index + 1)


def _numbers(bits: int) -> Iterator[int]:
    """The numbers whose bits are set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _second(at: datetime) -> int:
    """The number of the first whole second of the day that is not before a time."""
    return at.hour * 3600 + at.minute * 60 + at.second + (at.microsecond > 0)


class ListedDates:
    """Local times that RDATE lists, in order."""

    elapsed = False

    def __init__(self, times: Sequence[datetime], clock: WallClock) -> None:
        self._times = times
        self._clock = clock

    def search(self, at: datetime) -> datetime | None:
        """The first local time at or after a given one."""
        index = bisect_left(self._times, at)
        return self._times[index] if index < len(self._times) else None

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant."""
        return self._clock.next(self.search, after)

    def times(self) -> YearlySet:
        """The instants at which the clock shows them, as a set."""
        return self._clock.times(times_of_moments(self._times))

    def progression(self) -> Progression | None:
        """None: the list ends, and a progression does not."""
        return None


class RuleTimes:
    """The fire times of one rule, from its start to UNTIL or COUNT.

    Args:
        rule: The rule.
        times: The local times of the rule.
        begin: The first local time that counts.
        first: The first instant that counts.
        clock: Converts local times to instants.
        exceptions: The times and days that EXDATE excludes.
    """

    def __init__(
        self,
        rule: RecurrenceRule,
        times: LocalTimes,
        *,
        begin: datetime,
        first: datetime,
        clock: WallClock,
        exceptions: Collection[date],
    ) -> None:
        self.elapsed = rule.elapsed
        self._rule = rule
        self._times = times
        self._begin = begin
        self._first = first
        self._clock = clock
        self._exceptions = exceptions
        # Before the time in _known there are so many times, fewer than COUNT. At _over,
        # COUNT has been reached. Both move with each question.
        self._known = (first if self.elapsed else begin), 0
        self._over = LAST_INSTANT if self.elapsed else _LAST_TIME
        self._last = _LAST_TIME
        if rule.until is not None:
            # An hour that is repeated is shown again after UNTIL.
            until = local_time(rule.until, clock.zone)
            self._last = until + min(_DAY, _LAST_TIME - until)

    def search(self, at: datetime) -> datetime | None:
        """The first local time at or after a given one that EXDATE does not exclude."""
        while True:
            found = self._times.search(at if self.elapsed else max(at, self._begin))
            if found is None or found > self._last:
                return None
            if not self.elapsed and not self._is_counted(found):
                return None
            if found.date() in self._exceptions:
                at = found.replace(hour=23, minute=59, second=59, microsecond=1)
            elif found in self._exceptions:
                at = found.replace(microsecond=1)
            else:
                return found

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant; None after the end."""
        if self.elapsed and after < self._first:
            after = self._first - MICROSECOND
        found = self._clock.next(self.search, after, elapsed=self.elapsed)
        if found is None or (self._rule.until and found > self._rule.until):
            return None
        return found if not self.elapsed or self._is_counted(found) else None

    def times(self) -> YearlySet:
        """The fire times as a set. COUNT also counts the times that EXDATE excludes."""
        rule, begin = self._rule, self._begin
        excluded = [each for each in self._exceptions if not is_instant(each)]
        given = times_of_rule(self._times)
        if self.elapsed:
            begin = self._first
            kept, given = (
                bounded(self._clock.times(each, elapsed=True), seconds_until(begin))
                for each in (without_moments(given, excluded), given)
            )
        else:
            kept = given = bounded(given, seconds_until(begin))
        if rule.count is not None:
            count = RunningCount(at_one_microsecond(given), begin, rule.count)
            kept = counted(kept, count)
        if not self.elapsed:
            kept = self._clock.times(without_moments(kept, excluded))
        if rule.until is not None:
            kept = bounded(kept, 0, seconds_until(rule.until) + 1)
        return kept

    def progression(self) -> Progression | None:
        """The fire times as a progression: of FREQ and INTERVAL alone, and in UTC."""
        rule = self._rule
        only_counts = RecurrenceRule(
            frequency=rule.frequency,
            interval=rule.interval,
            week_start=rule.week_start,
        )
        seconds = _SECONDS.get(rule.frequency)
        if rule != only_counts or seconds is None:
            return None
        step = rule.interval * seconds * SECOND
        if step == SECOND:
            return Progression(seconds_until(self._first) * SECOND, SECOND)
        first = self._times.search(self._begin)
        if self._clock.zone is not UTC or first is None:
            return None
        return Progression(microseconds_of(first), step)

    def _is_counted(self, found: datetime) -> bool:
        """Whether a local time, or an instant if ``elapsed``, comes before COUNT."""
        # Read once: another thread may be moving it.
        known, number = self._known
        if self._rule.count is None or found <= known:
            return True
        if found >= self._over:
            return False
        number += self._count(known, found, self._rule.count - number)
        if number < self._rule.count:
            self._known = found, number
            return True
        self._over = found
        return False

    def _count(self, begin: datetime, end: datetime, most: int) -> int:
        """Count the times from one on and before another, up to a maximum."""
        if end - begin > FAR:
            far = FarCount(self._times)
            if self.elapsed:
                return far.elapsed(begin, end, self._clock.zone, most)
            return far.local(begin, end, most)
        if not self.elapsed:
            return self._times.count(begin, end, most)
        number, instant = 0, begin
        while instant < end and number < most:
            period = period_at(instant, self._clock.zone)
            until = period.closes if period.end < end else period.local(end)
            number += self._times.count(period.local(instant), until, most - number)
            instant = period.end
        return number


def without_moments(times: YearlySet, moments: Collection[date]) -> YearlySet:
    """A set of times, but for some instants, local times or days."""
    return combine(difference, [times, times_of_moments(moments)]) if moments else times


class RecurrenceSeries:
    """The fire times of a recurrence set.

    Args:
        recurrence: The set.
        anchor: Where it starts if it has no DTSTART; never a fire time itself.
        clock: Converts local times to instants.
    """

    def __init__(
        self, recurrence: Recurrence, anchor: datetime, clock: WallClock
    ) -> None:
        exceptions = frozenset(recurrence.exceptions)
        self._exceptions = exceptions
        self._zone = clock.zone
        if recurrence.start is not None:
            self._after = FIRST_INSTANT
            begin = start = recurrence.start
            first = _instant(start, clock.zone)
        else:
            self._after = anchor
            start = local_time(anchor, clock.zone)
            begin = start.replace(microsecond=1)
            first = anchor + min(MICROSECOND, LAST_INSTANT - anchor)
        self._parts: list[RuleTimes | ListedDates] = [
            RuleTimes(
                rule,
                LocalTimes(rule, start),
                begin=begin,
                first=first,
                clock=clock,
                exceptions=exceptions,
            )
            for rule in recurrence.rules
        ]
        dates = [
            each
            for each in recurrence.dates
            if not _is_excepted(local_time(each, clock.zone), exceptions)
        ]
        self._instants = [each for each in dates if each.tzinfo]
        if local := [each for each in dates if not each.tzinfo]:
            self._parts.append(ListedDates(local, clock))

    @property
    def elapsed(self) -> bool:
        """Whether all rules follow elapsed time where the clocks change."""
        return all(part.elapsed for part in self._parts)

    def __call__(self, at: datetime) -> datetime | None:
        """The first local time at or after a given one; naive.

        If some rules do not follow elapsed time, only these rules count.
        """
        elapsed = self.elapsed
        found = [part.search(at) for part in self._parts if part.elapsed == elapsed]
        return min(filter(None, found), default=None)

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant."""
        found = self._earliest(max(utc(after, name="after"), self._after))
        while found is not None and found in self._exceptions:
            found = self._earliest(found)
        return found

    def times(self) -> YearlySet:
        """The fire times as a set."""
        parts = [each.times() for each in self._parts]
        if self._instants:
            parts.append(times_of_moments(self._instants))
        excluded = [each for each in self._exceptions if is_instant(each)]
        times = without_moments(union(parts), excluded)
        if self._after == FIRST_INSTANT:
            return times
        return bounded(times, seconds_until(self._after + MICROSECOND))

    def progression(self) -> Progression | None:
        """The fire times as a progression, if they are one."""
        if self._instants or self._exceptions or len(self._parts) > 1:
            return None
        return self._parts[0].progression()

    def fires(self, moment: date) -> bool:
        """Whether it fires at an instant, at a local time, or on a date."""
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return self._next_from(moment) == moment
        local = (
            moment if isinstance(moment, datetime) else datetime.combine(moment, time())
        )
        found = self._next_from(_instant(local, self._zone))
        return found is not None and _is_excepted(
            local_time(found, self._zone), [moment]
        )

    def _next_from(self, instant: datetime) -> datetime | None:
        return self.next(max(instant, FIRST_INSTANT + MICROSECOND) - MICROSECOND)

    def _earliest(self, after: datetime) -> datetime | None:
        found = [part.next(after) for part in self._parts]
        found += self._instants[bisect_right(self._instants, after) :][:1]
        return min(filter(None, found), default=None)


def _is_excepted(time: datetime, exceptions: Collection[date]) -> bool:
    return time in exceptions or time.date() in exceptions


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """The instant at which a local time first occurs, within the range of datetime."""
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return FIRST_INSTANT if local.year == 1 else LAST_INSTANT


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
