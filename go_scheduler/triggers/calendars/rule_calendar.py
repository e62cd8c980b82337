"""Calendars that work out their days year by year, such as those of a rule."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import dropwhile, islice
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.calendars.calendar import Calendar
from go_scheduler.triggers.fire_time_sets import bounded, days_of
from go_scheduler.triggers.recurrence.series import LocalTimes
from go_scheduler.triggers.recurrence.text import read_rule, write_rule
from go_scheduler.triggers.recurrence.years import times_of_rule
from go_scheduler.triggers.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.triggers.fire_time_sets import YearlySet
    from go_scheduler.triggers.recurrence.rule import RecurrenceRule

_LONGEST_RULE = 1_000
_MOST_YEARS = 128
_MIDNIGHT = time()
_END_OF_DAY = time(23, 59, 59)
LAST_LOCAL_TIME = datetime.max  # noqa: DTZ901 (local times are naive)


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
    begin = start or date.min
    times, last = times_of(read_rule(rule, end_of), datetime.combine(begin, _MIDNIGHT))
    return times, begin, last.date()


def _days_between(times: LocalTimes, first: date, last: date) -> Iterator[date]:
    for day, _ in times.days(first.toordinal()) if first <= last else ():
        if day > last.toordinal():
            return
        yield date.fromordinal(day)


@lru_cache(maxsize=1024)
def times_of(rule: RecurrenceRule, start: datetime) -> tuple[LocalTimes, datetime]:
    """The search for the local times of a rule, and the last one there may be."""
    times = LocalTimes(rule, start)
    if rule.count is None:
        last = LAST_LOCAL_TIME if rule.until is None else rule.until
        return times, last.replace(tzinfo=None)
    found = (
        datetime.fromordinal(day) + timedelta(seconds=second)
        for day, seconds in times.days(start.toordinal())
        for second in seconds
    )
    counted = dropwhile(lambda time: time < start, found)
    return times, next(islice(counted, rule.count - 1, None), LAST_LOCAL_TIME)


def end_of(moment: date) -> datetime:
    """The end of a day, or the time of a moment, taken as UTC: for UNTIL."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, _END_OF_DAY)
    return moment.replace(tzinfo=UTC)
