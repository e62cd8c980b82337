"""Calendars that work out their days year by year: by a rule, or by events."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import chain
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.calendars.calendar import Calendar
from go_scheduler.triggers.fire_time_sets import bounded, days_of
from go_scheduler.triggers.recurrence.rule import RecurrenceRule
from go_scheduler.triggers.recurrence.series import LocalTimes
from go_scheduler.triggers.recurrence.text import read_rule, write_rule
from go_scheduler.triggers.recurrence.years import times_of_rule
from go_scheduler.triggers.times import DAY, MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.triggers.fire_time_sets import YearlySet

_LONGEST_RULE = 1_000
_MOST_YEARS = 128
_MIDNIGHT = time()
_END_OF_DAY = time(23, 59, 59)


class YearlyCalendar(Calendar):
    """A calendar that works out the days of a whole year when it is asked for one."""

    # What is remembered is no field: it is neither compared nor pickled.
    __slots__ = ("_known",)

    _known: dict[int, frozenset[date]]

    def includes(self, day: date) -> bool:
        """Whether a day is in the calendar."""
        try:
            years = self._known
        except AttributeError:
            years = {}
            object.__setattr__(self, "_known", years)
        days = years.get(day.year)
        if days is None:
            if len(years) >= _MOST_YEARS:
                years.clear()
            days = years[day.year] = frozenset(self._days_of(day.year))
        return day in days

    @abstractmethod
    def _days_of(self, year: int) -> set[date]:
        """The days of a year that are in the calendar, and perhaps others."""


@dataclass(frozen=True, slots=True, init=False)
class RuleCalendar(YearlyCalendar):
    """The days that an RFC 5545 rule names.

    ```python
    christmas = RuleCalendar("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25,26")
    thanksgiving = RuleCalendar("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    good_friday = RuleCalendar("FREQ=YEARLY;BYEASTER=-2")
    ```

    Attributes:
        rule: The value of the RRULE, in one of the ways to write it.
        start: The first day it may name; what INTERVAL and COUNT count from.

    Args:
        rule: The value of an RRULE. FREQ is DAILY or longer, UNTIL a date or a time in
            UTC, whose date counts. BYEASTER, which dateutil adds to the standard, lists
            days after Easter Sunday.
        start: None: the rule says all by itself, and names days of any year.

    Raises:
        InvalidTriggerError: It is no rule, or none for whole days; or it needs a start;
            or it names no day within 100 years.
    """

    rule: str
    start: date | None

    def __init__(self, rule: str, start: date | None = None) -> None:
        if start is not None and type(start) is not date:
            raise InvalidTriggerError(
                f"start must be a date, such as date(2030, 1, 1), not {shown(start)}"
            )
        try:
            parsed = _checked_rule(rule, start)
        except RefusedError as error:
            raise InvalidTriggerError(f"rule {shown(rule)}: {error}") from None
        object.__setattr__(self, "rule", write_rule(parsed))
        object.__setattr__(self, "start", start)

    def _days_of(self, year: int) -> set[date]:
        times, first, last = _series(self.rule, self.start)
        first = max(first, date(year, 1, 1))
        last = min(last, date(year, 12, 31))
        return set(_days_between(times, first, last))

    def _days(self) -> YearlySet:
        times, first, last = _series(self.rule, self.start)
        begin, end = (first.toordinal() - 1) * DAY, last.toordinal() * DAY
        if last == date.max:
            end = maxsize
        return days_of(bounded(times_of_rule(times), begin, end))


def _checked_rule(rule: object, start: date | None) -> RecurrenceRule:
    if not isinstance(rule, str) or len(rule) > _LONGEST_RULE:
        raise RefusedError(f"a rule is text of at most {_LONGEST_RULE} characters")
    text = rule.strip().upper().removeprefix("RRULE:")
    parsed = read_rule(text, end_of)
    if parsed.periods_per_day > 1 or parsed.hours or parsed.minutes or parsed.seconds:
        raise RefusedError(
            "a calendar is made of whole days; use FREQ=DAILY or longer, without"
            " BYHOUR, BYMINUTE and BYSECOND"
        )
    if start is None and (parsed.interval > 1 or parsed.count):
        raise RefusedError("INTERVAL and COUNT count from a start; give start=")
    if start is None and not parsed.names_days and parsed.frequency != "DAILY":
        raise RefusedError("it leaves the day open; add BYMONTHDAY or BYDAY, or start=")
    if not any(_days_between(*_series(write_rule(parsed), start))):
        raise RefusedError("it names no day within 100 years")
    return parsed


@lru_cache(maxsize=256)
def _series(rule: str, start: date | None) -> tuple[LocalTimes, date, date]:
    """The search for the days of a rule, and the first and last that it may name."""
    parsed = read_rule(rule, end_of)
    begin = datetime.combine(start or date.min, _MIDNIGHT)
    times = LocalTimes(parsed, begin)
    end = last_time(times, parsed.count, begin) if parsed.count else parsed.until
    return times, begin.date(), date.max if end is None else end.date()


def _days_between(times: LocalTimes, first: date, last: date) -> Iterator[date]:
    for day, _ in times.days(first.toordinal()) if first <= last else ():
        if day > last.toordinal():
            return
        yield date.fromordinal(day)


def last_time(times: LocalTimes, count: int, start: datetime) -> datetime | None:
    """When a rule has given a time as often as COUNT says; None: it never has.

    Args:
        times: What finds the times of the rule.
        count: COUNT.
        start: The first that counts.
    """
    for day, seconds in times.days(start.toordinal()):
        midnight = datetime.fromordinal(day)
        for second in seconds:
            time = midnight + timedelta(seconds=second)
            count -= time >= start
            if count == 0:
                return time
    return None


def end_of(moment: date) -> datetime:
    """The end of a day, or the time of a moment, taken as UTC: for UNTIL."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, _END_OF_DAY)
    return moment.replace(tzinfo=UTC)


_DAY = timedelta(days=1)
# The clocks of two zones are up to 26 hours apart.
_APART = timedelta(days=2)
_FIRST_LOCAL_TIME = datetime.min  # noqa: DTZ901 (local times are naive)
_LAST_LOCAL_TIME = datetime.max  # noqa: DTZ901


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
    return times, _LAST_LOCAL_TIME if end is None else end.replace(tzinfo=None)


def _moved(time: datetime, by: timedelta) -> datetime:
    """A local time moved; at most to the first or the last there is."""
    try:
        return time + by
    except OverflowError:
        return _FIRST_LOCAL_TIME if by < timedelta() else _LAST_LOCAL_TIME
