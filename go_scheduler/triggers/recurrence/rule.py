"""One rule of a recurrence: its parts, and the days and times that they allow.

dateutil expands the days. Its own walk is not used: it begins at the start of the
series each time, and goes on for ever where nothing matches.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from datetime import MAXYEAR, date, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from dateutil.easter import easter
from dateutil.rrule import YEARLY, rrule, weekday

from go_scheduler.triggers.times import DAY, days_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LAST_DAY = date.max.toordinal()
NEVER = LAST_DAY + 1


class Periods:
    """Numbers the periods of a rule. A day is its ``toordinal()``.

    Args:
        rule: The rule.
    """

    def __init__(self, rule: RecurrenceRule) -> None:
        self._rule = rule
        self._per_day = rule.periods_per_day

    def number(self, day: int) -> int:
        """The number of the period, of the kind that FREQ counts, as a day begins."""
        match self._rule.frequency:
            case "YEARLY" if self._rule.counts_weeks:
                week = day - (day - 1 - self._rule.week_start) % 7
                return date.fromordinal(min(max(week + 3, 1), LAST_DAY)).year
            case "YEARLY":
                return date.fromordinal(day).year
            case "MONTHLY":
                first = date.fromordinal(day)
                return first.year * 12 + first.month - 1
            case "WEEKLY":
                return (day - 1 - self._rule.week_start) // 7
        return day * self._per_day

    def first_day(self, period: int) -> int:
        """The first day that has a part in a period."""
        match self._rule.frequency:
            case "YEARLY" if self._rule.counts_weeks and period <= MAXYEAR:
                # The week that the fourth of January is in.
                day = date(period, 1, 4).toordinal()
                return max(day - (day - 1 - self._rule.week_start) % 7, 1)
            case "YEARLY":
                year, month = period, 1
            case "MONTHLY":
                year, month = period // 12, period % 12 + 1
            case "WEEKLY":
                return min(max(period * 7 + 1 + self._rule.week_start, 1), NEVER)
            case _:
                return period // self._per_day
        return date(year, month, 1).toordinal() if year <= MAXYEAR else NEVER


def allowed_periods(rule: RecurrenceRule) -> bytes | None:
    """The allowed hours, minutes or seconds of a day, a byte each; None: all."""
    parts = _parts_of_day(rule)[: _depth(rule)]
    if not any(values for values, *_ in parts):
        return None
    mask = b"\1"
    for values, number, _ in reversed(parts):
        blank = bytes(len(mask))
        mask = b"".join(
            mask if not values or each in values else blank for each in range(number)
        )
    return mask


def offsets_of(rule: RecurrenceRule) -> Sequence[int]:
    """The seconds at which it fires within each hour, minute, second, or day."""
    offsets = array("I", [0])
    for values, _, length in _parts_of_day(rule)[_depth(rule) :]:
        offsets = array(
            "I", (offset + value * length for offset in offsets for value in values)
        )
    if not rule.positions or rule.picks_days:
        return offsets
    return next((times for _, times in pick([0], offsets, rule.positions)), ())


def _parts_of_day(rule: RecurrenceRule) -> Sequence[tuple[Sequence[int], int, int]]:
    """The allowed hours, minutes and seconds; how many there are; how long."""
    return (rule.hours, 24, 3600), (rule.minutes, 60, 60), (rule.seconds, 60, 1)


def _depth(rule: RecurrenceRule) -> int:
    """How many parts of the day FREQ counts, so that they limit and do not expand."""
    return {24: 1, 1440: 2, DAY: 3}.get(rule.periods_per_day, 0)


def pick(
    days: Sequence[int], offsets: Sequence[int], positions: Sequence[int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """The times of a period that BYSETPOS picks, by day."""
    total = len(days) * len(offsets)
    indexes = {each - 1 if each > 0 else total + each for each in positions}
    kept = sorted(index for index in indexes if 0 <= index < total)
    for number, group in groupby(kept, key=lambda index: index // len(offsets)):
        yield days[number], [offsets[index % len(offsets)] for index in group]


def ones(mask: bytes) -> Iterator[int]:
    """The indexes at which a mask is 1; they may be few."""
    index = mask.find(1)
    while index >= 0:
        yield index
        index = mask.find(1, index + 1)


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
        """Whether it says which days, rather than leave them to its start."""
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
        """Whether its years are made of whole weeks, each of the year of its middle."""
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
        """BYDAY as dateutil reads it rightly: without ordinals, or with nothing else.

        It takes days with and without one for those that are both.
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
        """Whether a day's week, which belongs to the year of its middle, is allowed.

        dateutil takes the first days of January for the wrong week in some years.

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
