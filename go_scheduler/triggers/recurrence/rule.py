"""One rule of a recurrence: its parts, and the days that they allow.

dateutil expands the days. Its own walk is not used: it begins at the start of the
series each time, and goes on for ever where nothing matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from dateutil.easter import easter
from dateutil.rrule import YEARLY, rrule, weekday

from go_scheduler.triggers.times import days_in

FREQUENCIES = (
    "YEARLY",
    "MONTHLY",
    "WEEKLY",
    "DAILY",
    "HOURLY",
    "MINUTELY",
    "SECONDLY",
)
_PER_DAY = {"HOURLY": 24, "MINUTELY": 1440, "SECONDLY": 86_400}


class Weekday(NamedTuple):
    """An item of BYDAY.

    Attributes:
        day: Its number; Monday is 0.
        ordinal: Which of them in the month or year, from the end if negative; 0: each.
    """

    day: int
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceRule:
    """The parts of an RRULE; an empty tuple stands for one that is not given.

    Attributes:
        frequency: FREQ, in capitals.
        interval: INTERVAL.
        count: COUNT; None: without end.
        until: UNTIL, in UTC; None: without end.
        week_start: WKST; Monday is 0.
        months: BYMONTH.
        weeks: BYWEEKNO.
        year_days: BYYEARDAY.
        month_days: BYMONTHDAY.
        weekdays: BYDAY.
        easter_days: BYEASTER, dateutil's addition: days after Easter Sunday.
        hours: BYHOUR.
        minutes: BYMINUTE.
        seconds: BYSECOND.
        positions: BYSETPOS.
    """

    frequency: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[Weekday, ...] = ()
    easter_days: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    @property
    def names_days(self) -> bool:
        """Whether it names days; else it takes the day from its start."""
        return bool(
            self.year_days or self.month_days or self.weekdays or self.easter_days
        )

    @property
    def picks_days(self) -> bool:
        """Whether BYSETPOS picks days, and not only times, of a period."""
        return bool(self.positions) and self.frequency in FREQUENCIES[:3]

    @property
    def periods_per_day(self) -> int:
        """How many of what FREQ counts make a day; 1 if it counts days or more."""
        return _PER_DAY.get(self.frequency, 1)

    @property
    def elapsed(self) -> bool:
        """Whether it follows elapsed time where the clocks change.

        A rule that fires at most once a day has a time of day, however it is written.
        """
        per_day = self.periods_per_day
        return per_day > 1 and not self.hours and self.interval < per_day

    @property
    def counts_weeks(self) -> bool:
        """Whether a year is made of whole weeks, those whose middle is in it."""
        return self.frequency == "YEARLY" and bool(self.weeks)

    def pinned(self, start: datetime) -> RecurrenceRule:
        """This rule with what it leaves open taken from where it starts.

        Args:
            start: The local time; naive.
        """
        rank = FREQUENCIES.index(self.frequency)
        rule = replace(
            self,
            hours=self.hours or ((start.hour,) if rank < 4 else ()),
            minutes=self.minutes or ((start.minute,) if rank < 5 else ()),
            seconds=self.seconds or ((start.second,) if rank < 6 else ()),
        )
        if self.names_days:
            return rule
        match self.frequency:
            case "YEARLY" if self.weeks:
                return replace(rule, weekdays=(Weekday(start.weekday()),))
            case "YEARLY":
                months = self.months or (start.month,)
                return replace(rule, months=months, month_days=(start.day,))
            case "MONTHLY":
                return replace(rule, month_days=(start.day,))
            case "WEEKLY":
                return replace(rule, weekdays=(Weekday(start.weekday()),))
        return rule

    def days_of(self, year: int) -> int:
        """The days of a year that it allows, as bits; 1 January is the lowest.

        Neither INTERVAL, BYSETPOS nor BYEASTER is looked at.
        """
        if not (self.months or self.weeks or self.names_days):
            return (1 << days_in(year)) - 1
        by_month = self.months or range(1, 13)
        found = rrule(
            YEARLY,
            datetime(year, 1, 1),  # noqa: DTZ001 (local times are naive)
            interval=9999,
            bymonth=by_month if self._is_by_month() else None,
            bymonthday=self.month_days or None,
            byyearday=self.year_days or None,
            byweekday=self._dateutil_weekdays(),
        )
        days = [each.timetuple().tm_yday for each in found]
        if self.weeks:
            days = [each for each in days if self._is_in_week(year, each)]
        return sum(1 << each - 1 for each in days)

    def easter_days_of(self, year: int) -> int:
        """The days of a year that BYEASTER names, likewise."""
        sunday = easter(year).timetuple().tm_yday
        return sum(1 << sunday - 1 + each for each in self.easter_days)

    def _is_by_month(self) -> bool:
        return bool(self.months) or self.frequency == "MONTHLY"

    def _dateutil_weekdays(self) -> list[weekday]:
        """BYDAY for dateutil: either all days have ordinals, or none has.

        If only some have, dateutil wants days that match both kinds.
        """
        if not any(each.ordinal for each in self.weekdays):
            return [weekday(each.day) for each in self.weekdays] or [
                weekday(day) for day in range(7)
            ]
        most = 5 if self._is_by_month() else 53
        return [
            weekday(each.day, ordinal)
            for each in self.weekdays
            for ordinal in ([each.ordinal] if each.ordinal else range(1, most + 1))
        ]

    def _is_in_week(self, year: int, day: int) -> bool:
        """Whether the week of a day is allowed. A week is of the year of its middle.

        dateutil assigns the first days of January to the wrong week in some years.

        Args:
            year: The day's year.
            day: Its number in the year; 1 January is 1.
        """
        first_weekday = datetime(year, 1, 1).weekday()  # noqa: DTZ001
        middle = day + 3 - (first_weekday + day - 1 - self.week_start) % 7
        length = days_in(year)
        if middle < 1:
            length = days_in(year - 1)
            middle += length
        elif middle > length:
            middle -= length
            length = days_in(year + 1)
        number, from_end = (middle - 1) // 7 + 1, (length - middle) // 7 + 1
        return number in self.weeks or -from_end in self.weeks
