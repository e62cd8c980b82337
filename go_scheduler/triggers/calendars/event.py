"""The calendar of the days that events touch, once or again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from go_scheduler.triggers.calendars.rule_calendar import YearlyCalendar, last_time
from go_scheduler.triggers.instants import MICROSECOND
from go_scheduler.triggers.recurrence.local_times import LocalTimes
from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIDNIGHT = time()
_DAY = timedelta(days=1)
# The clocks of two zones are up to 26 hours apart.
_APART = timedelta(days=2)
_FIRST = datetime.min  # noqa: DTZ901 (local times are naive)
_LAST = datetime.max  # noqa: DTZ901


@dataclass(frozen=True, slots=True, kw_only=True)
class EventClock:
    """How the times of an event become days.

    Attributes:
        written: The zone in which they are written; None: that of whoever reads them.
        read: The zone in which days are counted; None: the one they are written in.
    """

    written: tzinfo | None
    read: tzinfo | None

    def local(self, moment: date) -> datetime:
        """A date's midnight or a time, as the event's own clock shows it; naive."""
        if not isinstance(moment, datetime):
            return datetime.combine(moment, _MIDNIGHT)
        if moment.tzinfo is not None and self.written is not None:
            moment = moment.astimezone(self.written)
        return moment.replace(tzinfo=None)

    def days(self, start: datetime, length: timedelta) -> tuple[date, date]:
        """The first and the last day that an event touches.

        Args:
            start: As the event's own clock shows it.
            length: How much later its clock shows the end; the end does not count.
        """
        end = _moved(start, max(length - MICROSECOND, timedelta()))
        return self._read(start).date(), self._read(end).date()

    def _read(self, local: datetime) -> datetime:
        if self.written is None or self.read is None:
            return local
        try:
            return local.replace(tzinfo=self.written).astimezone(self.read)
        except OverflowError:
            return local


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeries:
    """An event that happens again and again.

    Attributes:
        clock: How its times become days.
        start: When it first begins, as its own clock shows it; naive.
        length: How long it lasts.
        rule: When it begins again; UNTIL is a local time that is marked as UTC.
        exceptions: When it does not, local times; a date stands for the whole day.
    """

    clock: EventClock
    start: datetime
    length: timedelta
    rule: RecurrenceRule
    exceptions: frozenset[date]

    def days(self, first: date, last: date) -> Iterator[tuple[date, date]]:
        """The first and last days of what touches the days from one to another.

        Others may be among them.
        """
        times, end = _times(self.rule, self.start)
        begin = _moved(datetime.combine(first, _MIDNIGHT), -self.length - _APART)
        end = min(end, _moved(datetime.combine(last, _MIDNIGHT), _DAY + _APART))
        begin = max(begin, self.start)
        for day, seconds in times.days(begin.toordinal()):
            midnight = datetime.fromordinal(day)
            if midnight > end:
                break
            if midnight.date() in self.exceptions:
                continue
            starts = [midnight + timedelta(seconds=each) for each in seconds]
            starts = [each for each in starts if self._begins_at(each, end)]
            if starts:
                first, _ = self.clock.days(starts[0], self.length)
                _, last = self.clock.days(starts[-1], self.length)
                yield first, last

    def _begins_at(self, time: datetime, end: datetime) -> bool:
        return self.start <= time <= end and time not in self.exceptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCalendar(YearlyCalendar):
    """The days that the events of an iCalendar file touch; see ``read_ical``.

    Attributes:
        days: The days of what happens once.
        series: What happens again and again.
    """

    days: frozenset[date]
    series: tuple[EventSeries, ...] = ()

    def includes(self, day: date) -> bool:
        """Whether an event touches a day."""
        return day in self.days or YearlyCalendar.includes(self, day)

    def _days_of(self, year: int) -> set[date]:
        first, last = date(year, 1, 1), date(year, 12, 31)
        touched = chain.from_iterable(each.days(first, last) for each in self.series)
        found: set[date] = set()
        day = first.toordinal()
        for begin, end in sorted(touched):
            day = max(day, begin.toordinal())
            until = min(end, last).toordinal()
            found.update(map(date.fromordinal, range(day, until + 1)))
            day = max(day, until + 1)
        return found


@lru_cache(maxsize=1024)
def _times(rule: RecurrenceRule, start: datetime) -> tuple[LocalTimes, datetime]:
    """The search for the local times of a rule, and the last one there may be."""
    times = LocalTimes(rule, start)
    end = last_time(times, rule.count, start) if rule.count else rule.until
    return times, _LAST if end is None else end.replace(tzinfo=None)


def _moved(time: datetime, by: timedelta) -> datetime:
    """A local time moved; at most to the first or the last there is."""
    try:
        return time + by
    except OverflowError:
        return _FIRST if by < timedelta() else _LAST
