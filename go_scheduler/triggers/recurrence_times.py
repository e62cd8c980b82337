"""The fire times of a recurrence set: local times of its rules, and their instants."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from calendar import isleap
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import compress
from math import gcd
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.triggers import fire_time_sets as sets
from go_scheduler.triggers.base import Progression, utc, worked_out
from go_scheduler.triggers.local_time import (
    WallClock,
    changes_between,
    local_time,
    next_instant,
    period_at,
)
from go_scheduler.triggers.recurrence_rules import Recurrence, RecurrenceRule
from go_scheduler.triggers.times import (
    DAY,
    FIRST_INSTANT,
    LAST_INSTANT,
    LAST_LOCAL_TIME,
    MICROSECOND,
    SECOND,
    days_in,
    microseconds_of,
    seconds_until,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )


_DAY = timedelta(days=1)
_SECONDS = {
    "WEEKLY": 604_800,
    "DAILY": 86_400,
    "HOURLY": 3600,
    "MINUTELY": 60,
    "SECONDLY": 1,
}


LAST_DAY = date.max.toordinal()
NEVER = LAST_DAY + 1
_PATIENCE = 36_525
"""The search ends after so many days without a time: a hundred years."""
_MOST_REMEMBERED = 64
_LONGEST_YEAR = 366
_CENTURY = timedelta(days=36_525)
_COST_OF_DAY = 3
_COST_OF_TIMES = 8
_PER_TRY = 4
_MOST_IN_VAIN = 6_000
"""The search ends after so many days or periods; a hundred years have 5,218 weeks."""


class LocalTimes:
    """The local times of a rule, on a clock that never changes.

    A day is a number, its ``toordinal()``. Its times are the seconds of the day, as the
    bits of an int. The search jumps between the days that INTERVAL allows and the days
    that the other parts allow, until a day is both.

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
        self._begins, self._offsets = _times_of(self._rule)
        # Those of a day that BYSETPOS picks from.
        is_picked = self._rule.picks_days
        self._seconds = list(sets.numbers_of(self._offsets)) if is_picked else []
        self._can_match = self._can_ever_match()
        self._year = (0, 0, 0)
        self._days_of_year: dict[object, int] = {}
        self._times_of_day: dict[int, int] = {}
        self._totals: dict[Hashable, int] = {}

    def search(self, at: datetime) -> datetime | None:
        """The first time at or after a given one.

        Returns:
            None if the next hundred years have no time, or the year 10000 comes first.
        """
        today = at.toordinal()
        for day, times in self.days(today):
            begin = _second(at) if day == today else 0
            if later := times >> begin:
                seconds = begin + sets.lowest(later)
                return datetime.fromordinal(day) + timedelta(seconds=seconds)
        return None

    def count(self, begin: datetime, end: datetime, most: int = maxsize) -> int:
        """Count the times from one on and before another, up to a maximum or more.

        Whole years are added up by their totals. If the end is earlier than the begin,
        the result is below zero.
        """
        if end < begin:
            return -self.count(end, begin)
        total = -self._number_before(begin)
        day, last = begin.toordinal(), end.toordinal()
        while day < last and total < most:
            new_year, next_year, _ = self._year_of(day)
            until = min(next_year, last)
            if until - day == next_year - new_year:
                total += self._total(date.fromordinal(day).year)
            else:
                found = self.days(day, until - 1)
                total += sum(times.bit_count() for _, times in found)
            day = until
        return total + self._number_before(end)

    def _number_before(self, at: datetime) -> int:
        """How many times there are on the day of a time, and before it."""
        day = at.toordinal()
        _, times = next(self.days(day, day), (day, 0))
        return (times & (1 << _second(at)) - 1).bit_count()

    def _total(self, year: int) -> int:
        """How many times a year has; few years differ in more than their number."""
        key = self.likeness(year)
        if key not in self._totals:
            first = date(year, 1, 1).toordinal()
            if self._per_day == 1:
                found = self.days(first, first + days_in(year) - 1)
                self._totals[key] = sum(times.bit_count() for _, times in found)
            else:
                length, numbers = self._cycle
                begin = first % length
                days = numbers[begin : begin + days_in(year)]
                self._totals[key] = sum(compress(days, _mask(self.days_of(year))))
        return self._totals[key]

    @worked_out
    def _cycle(self) -> tuple[int, array[int]]:
        """How many times INTERVAL leaves of each day, if FREQ counts less than a day.

        Returns:
            After how many days that repeats, and the numbers of as many days, of which
            the first one has the ordinal 0, and of a year more.
        """
        interval, per_day = self._rule.interval, self._per_day
        number = self._offsets.bit_count()
        begins = f"{self._begins:0{DAY}b}"[:: -self._period_length]
        length = min(interval // gcd(interval, per_day), NEVER)
        found = array("I", bytes(4 * length))
        for period in range(self._start % interval, length * per_day, interval):
            if begins[period % per_day] == "1":
                found[period // per_day] += number
        return length, found + (found * (_LONGEST_YEAR // length + 1))[:_LONGEST_YEAR]

    def days(
        self, day: int, end: int = LAST_DAY, effort: sets.SearchBudget | None = None
    ) -> Iterator[tuple[int, int]]:
        """The days that have times, from a given day on, each with its times.

        It ends after a hundred years without a time, or after 6,000 vain steps.
        """
        last = min(day + _PATIENCE, end) if self._can_match else 0
        left = _MOST_IN_VAIN
        while left and day <= last and (day := self._aligned(day)) <= last:
            left -= 1
            if effort is not None:
                effort.spend(_PER_TRY)
            found: Iterable[tuple[int, int]] = ()
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

    def plain(self, year: int) -> tuple[int, int] | None:
        """The days of a year, as bits, and the times of each; None: the days differ."""
        if self._rule.interval > 1 or self._rule.picks_days or not self._can_match:
            return None
        return self.days_of(year), self._times(date(year, 1, 1).toordinal())

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
        most = days.get(rule.frequency, 1) * self._offsets.bit_count()
        if not most or (rule.picks_days and min(map(abs, rule.positions)) > most):
            return False
        step = gcd(rule.interval, self._per_day)
        return self._begins_from(self._start % step, step) != 0

    def _begins_from(self, first: int, step: int) -> int:
        """The begins of periods that may fire, so many periods apart, as bits."""
        length = self._period_length
        return sets.multiples_of(step * length) << first * length & self._begins

    def _aligned(self, day: int) -> int:
        """The first day from a given one on that has a period INTERVAL allows."""
        period = self._period_of(day)
        ahead = (self._start - period) % self._rule.interval
        return self._first_day(period + ahead) if ahead else day

    def _picked(self, day: int, last: int) -> tuple[int, Iterable[tuple[int, int]]]:
        """The next day to look at, and the days of this period that BYSETPOS picks."""
        period = self._period_of(day)
        first = self._first_day(period)
        end = self._first_day(period + 1)
        matching = self._days_between(first, end)
        if not matching:
            return self._matching(end, last), ()
        days = [first + each for each in sets.numbers_of(matching)]
        picked = _pick(days, self._seconds, self._rule.positions)
        return end, [each for each in picked.items() if each[0] >= day]

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
                return day + sets.lowest(left)
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

    def _times(self, day: int) -> int:
        """The times of a day that INTERVAL and the other parts allow."""
        if self._per_day == 1:
            return self._offsets
        first = (self._start - day * self._per_day) % self._rule.interval
        if (times := self._times_of_day.get(first)) is None:
            if len(self._times_of_day) >= _MOST_REMEMBERED:
                self._times_of_day.clear()
            # Each period has the same offsets, and none goes on into the next one.
            times = self._begins_from(first, self._rule.interval) * self._offsets
            self._times_of_day[first] = times
        return times


def _times_of(rule: RecurrenceRule) -> tuple[int, int]:
    """The times of day that a rule allows, as the bits of seconds.

    Returns:
        The begins of the hours, minutes or seconds of a day, whatever FREQ counts, that
        may fire; midnight if it counts days or more. And the seconds at which it fires
        after each of them.
    """
    parts = (
        (rule.hours, range(24)),
        (rule.minutes, range(60)),
        (rule.seconds, range(60)),
    )
    # So many of them limit what FREQ counts; the others expand it.
    depth = {24: 1, 1440: 2, DAY: 3}.get(rule.periods_per_day, 0)
    limits = [values or every for values, every in parts[:depth]]
    begins = sets.times_of_day(*limits, *[(0,)] * (3 - depth))
    expanded = [values for values, _ in parts[depth:]]
    offsets = sets.times_of_day(*[(0,)] * depth, *expanded)
    if rule.positions and not rule.picks_days:
        picked = _pick([0], list(sets.numbers_of(offsets)), rule.positions)
        offsets = picked.get(0, 0)
    return begins, offsets


def _pick(
    days: Sequence[int], seconds: Sequence[int], positions: Sequence[int]
) -> Mapping[int, int]:
    """The times of a period that BYSETPOS picks, by day."""
    total = len(days) * len(seconds)
    indexes = {each - 1 if each > 0 else total + each for each in positions}
    found: dict[int, int] = {}
    for index in sorted(indexes):
        if 0 <= index < total:
            number, second = divmod(index, len(seconds))
            found[days[number]] = found.get(days[number], 0) | 1 << seconds[second]
    return found


@lru_cache(maxsize=64)
def _mask(days: int) -> bytes:
    """A byte for each day of a year: whether it is one of some days, as bits."""
    return bytes(days >> each & 1 for each in range(_LONGEST_YEAR))


def _second(at: datetime) -> int:
    """The number of the first whole second of the day that is not before a time."""
    return at.hour * 3600 + at.minute * 60 + at.second + (at.microsecond > 0)


class RuleTimes:
    """The fire times of one rule, from its start to UNTIL or COUNT.

    Args:
        rule: The rule.
        start: Where it starts: see ``LocalTimes``.
        begin: The first local time that counts.
        first: The first instant that counts.
        clock: Converts local times to instants.
        exceptions: The times and days that EXDATE excludes.
    """

    def __init__(
        self,
        rule: RecurrenceRule,
        start: datetime,
        *,
        begin: datetime,
        first: datetime,
        clock: WallClock,
        exceptions: Collection[date],
    ) -> None:
        # In UTC no clock changes: local times are instants.
        self.elapsed = rule.elapsed and clock.zone is not UTC
        self._rule = rule
        self._times = LocalTimes(rule, start)
        self._begin = begin
        self._first = first
        self._clock = clock.following_elapsed_time() if self.elapsed else clock
        self._exceptions = exceptions
        # Before the time in _known there are so many times, fewer than COUNT. At _over,
        # COUNT has been reached. Both move with each question.
        self._known = (first if self.elapsed else begin), 0
        self._over = LAST_INSTANT if self.elapsed else LAST_LOCAL_TIME
        self._last = LAST_LOCAL_TIME
        if rule.until is not None:
            self._last = local_time(rule.until, clock.zone)
            if clock.zone is not UTC:
                # An hour that is repeated is shown again after UNTIL.
                self._last += min(_DAY, LAST_LOCAL_TIME - self._last)

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
        found = next_instant(self.search, after, self._clock)
        if found is None or (self._rule.until and found > self._rule.until):
            return None
        return found if not self.elapsed or self._is_counted(found) else None

    def times(self) -> sets.YearlySet:
        """The fire times as a set. COUNT also counts the times that EXDATE excludes."""
        rule, begin = self._rule, self._begin
        excluded = [each for each in self._exceptions if not is_instant(each)]
        given = times_of_rule(self._times)
        if self.elapsed:
            begin = self._first
            kept, given = (
                sets.bounded(sets.on_clock(each, self._clock), seconds_until(begin))
                for each in (without_moments(given, excluded), given)
            )
        else:
            kept = given = sets.bounded(given, seconds_until(begin))
        if rule.count is not None:
            count = sets.RunningCount(sets.at_one_microsecond(given), begin, rule.count)
            kept = sets.counted(kept, count)
        if not self.elapsed:
            kept = sets.on_clock(without_moments(kept, excluded), self._clock)
        if rule.until is not None:
            kept = sets.bounded(kept, 0, seconds_until(rule.until) + 1)
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
        """Count local times, or instants if ``elapsed``, up to a maximum or more."""
        if not self.elapsed:
            return self._times.count(begin, end, most)
        zone, total = self._clock.zone, 0
        while begin < end and total < most:
            until = begin + min(_CENTURY, end - begin)
            first, last = (period_at(at, zone).local(at) for at in (begin, until))
            total += self._times.count(first, last)
            for at, before, after in changes_between(zone, begin, until):
                # What a clock that is set back shows again comes twice.
                local = at.replace(tzinfo=None)
                total += self._times.count(local + after, local + before)
            begin = until
        return total


def in_utc(
    rule: RecurrenceRule, start: datetime, exceptions: Collection[date] = ()
) -> RuleTimes:
    """The times of one rule on a clock that never changes, from its start on."""
    return RuleTimes(
        rule,
        start,
        begin=start,
        first=start.replace(tzinfo=UTC),
        clock=WallClock(UTC),
        exceptions=exceptions,
    )


def without_moments(times: sets.YearlySet, moments: Collection[date]) -> sets.YearlySet:
    """A set of times, but for some instants, local times or days."""
    if not moments:
        return times
    return sets.combine(sets.difference, [times, times_of_moments(moments)])


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
        self._clock = clock
        if recurrence.start is not None:
            self._after = FIRST_INSTANT
            begin = start = recurrence.start
            first = _instant(start, clock.zone)
        else:
            self._after = anchor
            start = local_time(anchor, clock.zone)
            begin = start.replace(microsecond=1)
            first = anchor + min(MICROSECOND, LAST_INSTANT - anchor)
        self._rules = [
            RuleTimes(
                rule,
                start,
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
        self._local_times = [each for each in dates if not each.tzinfo]

    @property
    def elapsed(self) -> bool:
        """Whether all of it follows elapsed time where the clocks change."""
        return not self._local_times and all(each.elapsed for each in self._rules)

    def __call__(self, at: datetime) -> datetime | None:
        """The first local time at or after a given one; naive.

        If some rules do not follow elapsed time, only these rules count.
        """
        elapsed = self.elapsed
        found = [each.search(at) for each in self._rules if each.elapsed == elapsed]
        return min(filter(None, [*found, self._listed(at)]), default=None)

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant."""
        found = self._earliest(max(utc(after, name="after"), self._after))
        while found is not None and found in self._exceptions:
            found = self._earliest(found)
        return found

    def times(self) -> sets.YearlySet:
        """The fire times as a set."""
        parts = [each.times() for each in self._rules]
        if self._local_times:
            local = times_of_moments(self._local_times)
            parts.append(sets.on_clock(local, self._clock))
        if self._instants:
            parts.append(times_of_moments(self._instants))
        excluded = [each for each in self._exceptions if is_instant(each)]
        times = without_moments(sets.union(parts), excluded)
        if self._after == FIRST_INSTANT:
            return times
        return sets.bounded(times, seconds_until(self._after + MICROSECOND))

    def progression(self) -> Progression | None:
        """The fire times as a progression, if they are one."""
        if self._instants or self._local_times or self._exceptions:
            return None
        return self._rules[0].progression() if len(self._rules) == 1 else None

    def fires(self, moment: date) -> bool:
        """Whether it fires at an instant, at a local time, or on a date."""
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return self._next_from(moment) == moment
        local = (
            moment if isinstance(moment, datetime) else datetime.combine(moment, time())
        )
        zone = self._clock.zone
        found = self._next_from(_instant(local, zone))
        return found is not None and _is_excepted(local_time(found, zone), [moment])

    def _next_from(self, instant: datetime) -> datetime | None:
        return self.next(max(instant, FIRST_INSTANT + MICROSECOND) - MICROSECOND)

    def _earliest(self, after: datetime) -> datetime | None:
        found = [each.next(after) for each in self._rules]
        found += self._instants[bisect_right(self._instants, after) :][:1]
        if self._local_times:
            found.append(next_instant(self._listed, after, self._clock))
        return min(filter(None, found), default=None)

    def _listed(self, at: datetime) -> datetime | None:
        """The first of the local times that RDATE lists at or after a given one."""
        index = bisect_left(self._local_times, at)
        return self._local_times[index] if index < len(self._local_times) else None


def _is_excepted(time: datetime, exceptions: Collection[date]) -> bool:
    return time in exceptions or time.date() in exceptions


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """The instant at which a local time first occurs, within the range of datetime."""
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return FIRST_INSTANT if local.year == 1 else LAST_INSTANT


def times_of_rule(times: LocalTimes) -> sets.YearlySet:
    """The local times of a rule as a set."""

    @sets.CachedYears
    def make(likeness: Hashable, year: int, budget: sets.SearchBudget) -> sets.Year:
        length = days_in(year)
        if (plain := times.plain(year)) is not None:
            budget.spend(_COST_OF_TIMES)
            return sets.on_days(length, *plain)
        # Most days have the identical times, which are slow to hash.
        first = date(year, 1, 1).toordinal()
        found: dict[int, tuple[int, int]] = {}
        for day, seconds in times.days(first, first + length - 1, budget):
            _, days = found.get(id(seconds), (seconds, 0))
            found[id(seconds)] = seconds, days | 1 << day - first
            budget.spend(_COST_OF_DAY)
        budget.spend(_COST_OF_TIMES * len(found))
        return sets.Year.of(length, found.values())

    def find(year: int, budget: sets.SearchBudget) -> sets.Year:
        return make(times.likeness(year), year, budget)

    return sets.YearlySet(find, 0 if times.settled else sets.NEVER_PERIODIC)


def times_of_moments(moments: Collection[date]) -> sets.YearlySet:
    """A set of moments: instants, local times, and dates with all their times."""
    times = sorted(each for each in moments if isinstance(each, datetime))
    days = [each.toordinal() for each in moments if not isinstance(each, datetime)]
    return sets.listed(list(map(seconds_until, times)), days)


def is_instant(moment: date) -> bool:
    """Whether it is a time that is not local."""
    return isinstance(moment, datetime) and moment.tzinfo is not None
