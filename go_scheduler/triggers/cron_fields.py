"""What a cron expression matches, and the search for the next local time that does."""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SUNDAYS = sum(1 << 7 * week for week in range(6))
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """The fields of a cron expression; each set of numbers is the bits of an int.

    Attributes:
        minutes: Minutes of the hour.
        hours: Hours of the day.
        days_of_month: Days of the month.
        months: Months of the year.
        days_of_week: Days of the week; Sunday is 0.
        either: Whether it is enough that one of the two day fields matches.
        elapsed: Whether it follows elapsed time where the clocks change.
    """

    minutes: int
    hours: int
    days_of_month: int
    months: int
    days_of_week: int
    either: bool
    elapsed: bool

    def search(self, start: datetime) -> datetime | None:
        """The first local time that matches, day by day and then by the time of day.

        Args:
            start: The local time to begin at, itself included; naive.

        Returns:
            A naive local time; None if there is none before the year 10000.
        """
        at = start.replace(second=0, microsecond=0)
        try:
            if at < start:
                at += _MINUTE
            today = at.date()
            found = self._time(at.hour, at.minute)
            day = self._day(today + _DAY if found is None else today)
        except OverflowError:
            return None
        if day is None:
            return None
        if found is None or day != today:
            found = _lowest(self.hours, 0), _lowest(self.minutes, 0)
        return datetime.combine(day, time(*found))

    def days(self, *, first_weekday: int, length: int) -> int:
        """The days of a month that match, as bits.

        Args:
            first_weekday: The day of the week of its first day; Sunday is 0.
            length: How many days it has.
        """
        by_week = self.days_of_week * _SUNDAYS >> first_weekday << 1
        by_month = self.days_of_month
        days = by_week | by_month if self.either else by_week & by_month
        return days & ((2 << length) - 2)

    def ever_match(self) -> bool:
        """Whether any date matches, in whatever year."""
        return any(
            self.days(first_weekday=weekday, length=29 if month == 2 else length)
            for month, length in enumerate(_LENGTHS)
            for weekday in range(7)
            if self.months >> month & 1
        )

    def _day(self, start: date) -> date | None:
        year, month, day = start.year, start.month, start.day
        while year <= MAXYEAR:
            if (found := _lowest(self.months, month)) < 0:
                year, month, day = year + 1, 1, 1
                continue
            if found != month:
                month, day = found, 1
            days = self.days(
                first_weekday=date(year, month, 1).isoweekday() % 7,
                length=_LENGTHS[month] + (month == 2 and isleap(year)),
            )
            if (found := _lowest(days, day)) > 0:
                return date(year, month, found)
            month, day = month + 1, 1
        return None

    def _time(self, hour: int, minute: int) -> tuple[int, int] | None:
        if self.hours >> hour & 1 and (found := _lowest(self.minutes, minute)) >= 0:
            return hour, found
        if (hour := _lowest(self.hours, hour + 1)) < 0:
            return None
        return hour, _lowest(self.minutes, 0)


def _lowest(bits: int, start: int) -> int:
    """The first number from ``start`` on that is in the set; -1 if there is none."""
    rest = bits >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1
