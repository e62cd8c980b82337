"""The instants of a recurrence set: its local times, put through a zone's clock."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, time, tzinfo
from typing import TYPE_CHECKING

from go_scheduler.triggers.base import Progression, utc
from go_scheduler.triggers.instants import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MICROSECOND,
    seconds_until,
)
from go_scheduler.triggers.recurrence.local_times import LocalTimes
from go_scheduler.triggers.recurrence.recurrence_text import as_local, local_time
from go_scheduler.triggers.recurrence.rule_years import is_instant, years_of_moments
from go_scheduler.triggers.recurrence.series_parts import (
    ListedDates,
    RuleTimes,
    SeriesPart,
    without_moments,
)
from go_scheduler.triggers.years.clock_years import union
from go_scheduler.triggers.years.years import BoundedYears

if TYPE_CHECKING:
    from collections.abc import Collection

    from go_scheduler.triggers.recurrence.recurrence_text import Recurrence
    from go_scheduler.triggers.recurrence.wall_clock import WallClock
    from go_scheduler.triggers.years.years import Years


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
        self._parts: list[SeriesPart] = [
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
            if not _is_excepted(as_local(each, clock.zone), exceptions)
        ]
        self._instants = [each for each in dates if each.tzinfo]
        if local := [each for each in dates if not each.tzinfo]:
            self._parts.append(ListedDates(local, clock))

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
            parts.append(years_of_moments(self._instants))
        excluded = [each for each in self._exceptions if is_instant(each)]
        years = without_moments(union(parts), excluded)
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


def _is_excepted(time: datetime, exceptions: Collection[date]) -> bool:
    return time in exceptions or time.date() in exceptions


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """When a local time first occurs, or the first or last instant of all."""
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return FIRST_INSTANT if local.year == 1 else LAST_INSTANT
