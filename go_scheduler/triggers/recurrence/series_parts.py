"""The parts of a recurrence set: the times of a rule, and those listed one by one."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from go_scheduler.triggers.base import Progression
from go_scheduler.triggers.instants import (
    LAST_INSTANT,
    MICROSECOND,
    SECOND,
    microseconds_of,
    seconds_until,
)
from go_scheduler.triggers.recurrence.far_count import FAR, FarCount
from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule
from go_scheduler.triggers.recurrence.recurrence_text import local_time
from go_scheduler.triggers.recurrence.rule_years import (
    RuleYears,
    is_instant,
    years_of_moments,
)
from go_scheduler.triggers.wall.local_time import period_at
from go_scheduler.triggers.years.fire_times import CountedYears, FireTimes, Tally
from go_scheduler.triggers.years.years import BoundedYears, CombinedYears, without

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from go_scheduler.triggers.recurrence.local_times import LocalTimes
    from go_scheduler.triggers.recurrence.wall_clock import WallClock
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


class SeriesPart(Protocol):
    """One part of a set; the instants that EXDATE excludes are not left out yet."""

    elapsed: bool

    def search(self, at: datetime) -> datetime | None:
        """The first local time at or after a given one."""

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant."""

    def years(self) -> Years:
        """Its fire times as sets."""

    def progression(self) -> Progression | None:
        """Its fire times as a progression, if they are one."""


class ListedDates:
    """The local times that are listed one by one.

    Args:
        times: In order.
        clock: How they become instants.
    """

    elapsed = False

    def __init__(self, times: Sequence[datetime], clock: WallClock) -> None:
        self._times = times
        self._clock = clock

    def search(self, at: datetime) -> datetime | None:
        """The first of them at or after a given one."""
        index = bisect_left(self._times, at)
        return self._times[index] if index < len(self._times) else None

    def next(self, after: datetime) -> datetime | None:
        """The first one strictly later than an instant."""
        return self._clock.next(self.search, after)

    def years(self) -> Years:
        """The instants at which the clock shows them, as sets."""
        return self._clock.years(years_of_moments(self._times))

    def progression(self) -> Progression | None:
        """None: whatever they are, they end."""
        return None


class RuleTimes:
    """The times of a rule, from where it begins until it ends.

    Args:
        rule: The rule.
        times: The local times that it gives.
        begin: The first local time that counts.
        first: The first instant that counts.
        clock: How they become instants.
        exceptions: What EXDATE excludes.
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
        """The first local time at or after a given one that EXDATE leaves."""
        while (found := self._listed(at)) is not None:
            if found.date() in self._exceptions:
                at = found.replace(hour=23, minute=59, second=59, microsecond=1)
            elif found in self._exceptions:
                at = found.replace(microsecond=1)
            else:
                break
        return found

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant, up to the end."""
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
            left = self._clock.years(without_moments(raw, excluded), elapsed=True)
            left = BoundedYears(left, first)
            raw = BoundedYears(self._clock.years(raw, elapsed=True), first)
            return self._until(self._counted(left, raw, self._first))
        raw = BoundedYears(raw, seconds_until(self._begin))
        left = self._counted(raw, raw, self._begin)
        return self._until(self._clock.years(without_moments(left, excluded)))

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


def without_moments(years: Years, moments: Collection[date]) -> Years:
    """Sets of times, but for some instants, local times or days."""
    return (
        CombinedYears(without, [years, years_of_moments(moments)]) if moments else years
    )
