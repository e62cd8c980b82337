"""The two day fields of a cron expression: which days of a month they match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# The first day of each week of a month that begins on a Sunday, as bits.
_WEEKS = sum(1 << 7 * week for week in range(6))


@dataclass(frozen=True, slots=True)
class Month:
    """A month, as far as it tells which of its days match.

    Attributes:
        first_weekday: The day of the week of its first day; Sunday is 0.
        length: How many days it has.
    """

    first_weekday: int
    length: int

    def weekday(self, day: int) -> int:
        """The day of the week of one of its days; Sunday is 0."""
        return (self.first_weekday + day - 1) % 7


@dataclass(frozen=True, slots=True)
class LastDay:
    """The last day of the month, or so many days before it: ``L``, ``L-3``."""

    before: int

    def day(self, month: Month) -> int:
        """The day; less than 1 if the month is too short."""
        return month.length - self.before


@dataclass(frozen=True, slots=True)
class NearestWeekday:
    """The day from Monday to Friday nearest to a day, in the same month: ``15W``.

    Attributes:
        to: The day of the month; None is the last one, ``LW``.
    """

    to: int | None

    def day(self, month: Month) -> int:
        """The day; 0 if the month is too short."""
        day = month.length if self.to is None else self.to
        if day > month.length:
            return 0
        match month.weekday(day):
            case 0:
                return day + 1 if day < month.length else day - 2
            case 6:
                return day - 1 if day > 1 else day + 2
        return day


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """A day of the week, the first to fifth in the month or the last: ``5#3``, ``5L``.

    Attributes:
        weekday: The day of the week; Sunday is 0.
        nth: Which one, from 1 to 5; None is the last one.
    """

    weekday: int
    nth: int | None

    def day(self, month: Month) -> int:
        """The day; beyond the end of the month if it has no fifth one."""
        first = (self.weekday - month.first_weekday) % 7 + 1
        if self.nth is None:
            return first + (month.length - first) // 7 * 7
        return first + 7 * (self.nth - 1)


SpecialDay: TypeAlias = LastDay | NearestWeekday | NthWeekday


@dataclass(frozen=True, slots=True, kw_only=True)
class CronDays:
    """The days that day-of-month and day-of-week match; sets are the bits of an int.

    Attributes:
        of_month: Numbers of day-of-month.
        special_of_month: What else it matches.
        of_week: Numbers of day-of-week; Sunday is 0.
        special_of_week: What else it matches.
        either: Whether it is enough that one of the two fields matches.
    """

    of_month: int
    special_of_month: tuple[SpecialDay, ...] = ()
    of_week: int
    special_of_week: tuple[SpecialDay, ...] = ()
    either: bool

    def within(self, month: Month) -> int:
        """The days of a month that match, as bits."""
        by_month = self.of_month | _bits(self.special_of_month, month)
        by_week = self.of_week * _WEEKS >> month.first_weekday << 1
        by_week |= _bits(self.special_of_week, month)
        days = by_week | by_month if self.either else by_week & by_month
        return days & ((2 << month.length) - 2)


def _bits(special: tuple[SpecialDay, ...], month: Month) -> int:
    bits = 0
    for each in special:
        bits |= 1 << max(each.day(month), 0)
    return bits
