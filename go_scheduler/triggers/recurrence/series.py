"""The instants of a recurrence set: its local times, put through a zone's clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple, Protocol

from go_scheduler.triggers.base import Progression, utc
from go_scheduler.triggers.instants import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MICROSECOND,
    SECOND,
    microseconds_of,
    seconds_until,
)
from go_scheduler.triggers.recurrence.far_count import FAR, FarCount
from go_scheduler.triggers.recurrence.local_times import LocalTimes
from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule
from go_scheduler.triggers.recurrence.recurrence_text import local_time
from go_scheduler.triggers.recurrence.rule_years import RuleYears, is_instant, listed
from go_scheduler.triggers.wall.local_time import next_instant, period_at
from go_scheduler.triggers.years.clock_years import ClockYears, union
from go_scheduler.triggers.years.fire_times import CountedYears, FireTimes, Tally
from go_scheduler.triggers.years.years import BoundedYears, CombinedYears, without

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from go_scheduler.triggers.recurrence.recurrence_text import Recurrence
    from go_scheduler.triggers.wall.local_time import Search
    from go_scheduler.triggers.years.years import Years

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

    def years(self, local: Years, *, elapsed: bool = False) -> Years:
        """The seconds at which local times match."""
        return ClockYears(
            local, self.zone, elapsed=elapsed, gap=self.gap, overlap=self.overlap
        )


class RecurrenceSeries:
    """The fire times of a recurrence set.

    Args:
        recurrence: The set.
        anchor: What it counts from if it does not say; that is no fire time.
        clock: How its local times become instants.
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
        self._parts: list[_Part] = [
            _Rule(
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
            if not _is_excepted(_local(each, clock.zone), exceptions)
        ]
        self._instants = [each for each in dates if each.tzinfo]
        if local := [each for each in dates if not each.tzinfo]:
            self._parts.append(_Dates(local, clock))

    @property
    def elapsed(self) -> bool:
        """Whether all of it follows elapsed time where the clocks change."""
        return all(part.elapsed for part in self._parts)

    def __call__(self, at: datetime) -> datetime | None:
        """The first local time of what does not follow elapsed time, if anything.

        It is at or after a given one, and naive.
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

    def years(self) -> Years:
        """The fire times as sets."""
        parts = [each.years() for each in self._parts]
        if self._instants:
            parts.append(listed(self._instants))
        excluded = [each for each in self._exceptions if is_instant(each)]
        years = _except(union(parts), excluded)
        if self._after == FIRST_INSTANT:
            return years
        return BoundedYears(years, seconds_until(self._after + MICROSECOND))

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


class _Part(Protocol):
    """What a set is made of, without what EXDATE excludes."""

    elapsed: bool

    def search(self, at: datetime) -> datetime | None: ...

    def next(self, after: datetime) -> datetime | None: ...

    def years(self) -> Years: ...

    def progression(self) -> Progression | None: ...


class _Dates:
    """The local times that are listed one by one."""

    elapsed = False

    def __init__(self, times: Sequence[datetime], clock: WallClock) -> None:
        self._times = times
        self._clock = clock

    def search(self, at: datetime) -> datetime | None:
        index = bisect_left(self._times, at)
        return self._times[index] if index < len(self._times) else None

    def next(self, after: datetime) -> datetime | None:
        return self._clock.next(self.search, after)

    def years(self) -> Years:
        return self._clock.years(listed(self._times))

    def progression(self) -> Progression | None:
        return None


class _Rule:
    """The times of a rule, from where it begins until it ends."""

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
        # COUNT is not reached at the one time, before which there are so many; it is
        # at the other. Both move as they become known.
        self._known = (first if self.elapsed else begin), 0
        self._over = LAST_INSTANT if self.elapsed else _LAST_TIME
        self._last = _LAST_TIME
        if rule.until is not None:
            # An hour that is repeated is shown again after UNTIL.
            until = local_time(rule.until, clock.zone)
            self._last = until + min(_DAY, _LAST_TIME - until)

    def search(self, at: datetime) -> datetime | None:
        while (found := self._listed(at)) is not None:
            if found.date() in self._exceptions:
                at = found.replace(hour=23, minute=59, second=59, microsecond=1)
            elif found in self._exceptions:
                at = found.replace(microsecond=1)
            else:
                break
        return found

    def next(self, after: datetime) -> datetime | None:
        if self.elapsed and after < self._first:
            after = self._first - MICROSECOND
        found = self._clock.next(self.search, after, elapsed=self.elapsed)
        if found is None or (self._rule.until and found > self._rule.until):
            return None
        return found if not self.elapsed or self._is_counted(found) else None

    def years(self) -> Years:
        """Its times as sets; what EXDATE excludes counts for COUNT."""
        raw: Years = RuleYears(self._times)
        excluded = [each for each in self._exceptions if not is_instant(each)]
        if self.elapsed:
            first = seconds_until(self._first)
            left = self._clock.years(_except(raw, excluded), elapsed=True)
            left = BoundedYears(left, first)
            raw = BoundedYears(self._clock.years(raw, elapsed=True), first)
            return self._until(self._counted(left, raw, self._first))
        raw = BoundedYears(raw, seconds_until(self._begin))
        left = self._counted(raw, raw, self._begin)
        return self._until(self._clock.years(_except(left, excluded)))

    def progression(self) -> Progression | None:
        """Its times as a progression: it must only count, and on an even clock."""
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

    def _counted(self, years: Years, given: Years, begin: datetime) -> Years:
        """Some of its times, until so many were given as COUNT says."""
        if self._rule.count is None:
            return years
        return CountedYears(
            years, Tally(FireTimes({0: given}), begin, self._rule.count)
        )

    def _until(self, years: Years) -> Years:
        if self._rule.until is None:
            return years
        return BoundedYears(years, 0, seconds_until(self._rule.until) + 1)

    def _listed(self, at: datetime) -> datetime | None:
        """The first time at or after another, if it is not past the last."""
        found = self._times.search(at if self.elapsed else max(at, self._begin))
        if found is None or found > self._last:
            return None
        return found if self.elapsed or self._is_counted(found) else None

    def _is_counted(self, found: datetime) -> bool:
        """Whether one of its times comes before COUNT is reached.

        Args:
            found: The instant, if it follows elapsed time, else the local time.
        """
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
        """How many of its times there are from one on and before another.

        Args:
            begin: An instant, if it follows elapsed time, else a local time.
            end: Likewise.
            most: Where to stop counting: there may be so many, or more.
        """
        if end - begin > FAR:
            far = FarCount(self._times)
            if self.elapsed:
                return far.elapsed(begin, end, self._clock.zone, most)
            return far.local(begin, end, most)
        if self.elapsed:
            return self._passed(begin, end, most)
        return self._times.count(begin, end, most)

    def _passed(self, begin: datetime, end: datetime, most: int) -> int:
        """How often it fires from one instant on and before another; see ``count``."""
        number, instant = 0, begin
        while instant < end and number < most:
            period = period_at(instant, self._clock.zone)
            until = period.closes if period.end < end else period.local(end)
            number += self._times.count(period.local(instant), until, most - number)
            instant = period.end
        return number


def _except(years: Years, moments: Collection[date]) -> Years:
    return CombinedYears(without, [years, listed(moments)]) if moments else years


def _local(moment: datetime, zone: tzinfo) -> datetime:
    return local_time(moment, zone) if moment.tzinfo else moment


def _is_excepted(time: datetime, exceptions: Collection[date]) -> bool:
    return time in exceptions or time.date() in exceptions


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """When a local time first occurs, or the first or last instant of all."""
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return FIRST_INSTANT if local.year == 1 else LAST_INSTANT
