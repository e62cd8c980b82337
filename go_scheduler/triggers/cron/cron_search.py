"""The search for the local times that a cron expression matches."""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from datetime import MAXYEAR, date, datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.cron.cron_days import Month
from go_scheduler.triggers.cron.fields import numbers
from go_scheduler.triggers.years.cells import MONTH_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.triggers.cron.fields import CronFields


# A year has one of fourteen calendars: by the day of the week it begins with, and leap
# or not. They recur every 400 years.
_CALENDARS = tuple(
    7 * isleap(year) + date(year, 1, 1).isoweekday() % 7 for year in range(2000, 2400)
)
# The days of a year are numbered as if each month had so many, which tells the month.
_MONTH = 32


class CronSearch:
    """Finds the local times that match, in a bounded number of steps.

    Args:
        fields: What to match.
    """

    __slots__ = (
        "_days",
        "_fields",
        "_first_time",
        "_hours",
        "_last_year",
        "_minutes",
        "_seconds",
    )

    def __init__(self, fields: CronFields) -> None:
        self._fields = fields
        self._last_year = max(fields.years, default=MAXYEAR)
        self._seconds = _following(fields.seconds, 60)
        self._minutes = _following(fields.minutes, 60)
        self._hours = _following(fields.hours, 24)
        self._first_time = self._hours[0], self._minutes[0], self._seconds[0]
        self._days: dict[int, Sequence[int]] = {}

    def __call__(self, start: datetime) -> datetime | None:
        """The first local time that matches.

        Args:
            start: The local time to begin at, itself included; naive.

        Returns:
            A naive local time; None if there is none before the year 10000.
        """
        year, today = start.year, start.month * _MONTH + start.day
        days = self._days_of(year)
        found = bisect_left(days, today)
        if found < len(days) and days[found] == today:
            hour, minute, second = self._time(start)
            if hour >= 0:
                return datetime(year, start.month, start.day, hour, minute, second)  # noqa: DTZ001
            found += 1
        while found == len(days):
            if year >= self._last_year:
                return None
            year, found = year + 1, 0
            days = self._days_of(year)
        month, day = divmod(days[found], _MONTH)
        return datetime(year, month, day, *self._first_time)  # noqa: DTZ001

    def calendar(self, year: int) -> int:
        """The number of the calendar of a year, which says which of its days match."""
        return _CALENDARS[year % 400]

    def days_as_bits(self, year: int) -> int:
        """The days of a year that match; 1 January is the lowest bit."""
        january = date(year, 1, 1).toordinal()
        return sum(
            1 << date(year, *divmod(each, _MONTH)).toordinal() - january
            for each in self._days_of(year)
        )

    def ever_matches(self) -> bool:
        """Whether any date matches."""
        return any(map(self._days_of, self._fields.years or range(2000, 2400)))

    def _time(self, start: datetime) -> tuple[int, int, int]:
        """The first time of day that matches from one on; hour -1 if there is none."""
        hour, minute = start.hour, start.minute
        second = self._seconds[start.second + (start.microsecond > 0)]
        if second < 0:
            minute += 1
        found = self._minutes[minute]
        if found < 0:
            hour += 1
        if self._hours[hour] != hour:
            return self._hours[hour], self._first_time[1], self._first_time[2]
        if found != start.minute:
            second = self._first_time[2]
        return hour, found if found >= 0 else self._first_time[1], second

    def _days_of(self, year: int) -> Sequence[int]:
        """The days of a year that match, by their numbers."""
        if self._fields.years and year not in self._fields.years:
            return ()
        calendar = self.calendar(year)
        days = self._days.get(calendar)
        if days is None:
            days = self._days[calendar] = tuple(self._days_by(calendar))
        return days

    def _days_by(self, calendar: int) -> Iterator[int]:
        leap, weekday = divmod(calendar, 7)
        for number, length in enumerate(MONTH_LENGTHS, start=1):
            month = Month(weekday, length + leap * (number == 2))
            if self._fields.months >> number & 1:
                for day in numbers(self._fields.days.within(month)):
                    yield number * _MONTH + day
            weekday = month.weekday(month.length + 1)


def _following(numbers: int, size: int) -> Sequence[int]:
    """For each number up to the size, the first of a set from it on; -1: none."""
    following = [-1] * (size + 1)
    for number in reversed(range(size)):
        following[number] = number if numbers >> number & 1 else following[number + 1]
    return tuple(following)
