"""The words that a description of a recurrence is made of."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.recurrence.recurrence_rule import FREQUENCIES
from go_scheduler.triggers.wall.wall_clock_trigger import clock_time
from go_scheduler.triggers.words import MONTHS, WEEKDAYS, listed, ordinal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule, Weekday

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_NTH = ("first", "second", "third", "fourth", "fifth")


def unit_of(rule: RecurrenceRule) -> str:
    """The unit that FREQ counts."""
    return _UNITS[FREQUENCIES.index(rule.frequency)]


def week_start(rule: RecurrenceRule) -> str:
    """Where weeks begin, if that is not on monday and may matter."""
    several = rule.frequency == "WEEKLY" and len(rule.weekdays) != 1
    if not rule.week_start or not (
        rule.weeks or (several and (rule.interval > 1 or rule.positions))
    ):
        return ""
    return f", of weeks that begin on {WEEKDAYS[rule.week_start]}"


def day_parts(rule: RecurrenceRule) -> tuple[str, ...]:
    """Which of the parts that name days a rule has."""
    kinds = {
        "weeks": rule.weeks,
        "year_days": rule.year_days,
        "month_days": rule.month_days,
        "weekdays": rule.weekdays,
        "easter_days": rule.easter_days,
    }
    return tuple(name for name, values in kinds.items() if values)


def has_ordinals(rule: RecurrenceRule) -> bool:
    """Whether BYDAY has numbers."""
    return any(each.ordinal for each in rule.weekdays)


def months_of(rule: RecurrenceRule) -> str:
    """Such as ``january and july``; empty if every month is meant."""
    return listed([MONTHS[each - 1] for each in rule.months]) if rule.months else ""


def in_months(rule: RecurrenceRule) -> str:
    """Such as `` in january and july``; empty if every month is meant."""
    return f" in {months_of(rule)}" if rule.months else ""


def weekday_names(rule: RecurrenceRule) -> Sequence[str]:
    """Such as ``monday`` and ``friday``, or ``weekday``, where there are no numbers."""
    days = [each.day for each in rule.weekdays]
    match days:
        case [0, 1, 2, 3, 4]:
            return ["weekday"]
        case [5, 6]:
            return ["weekend"]
        case [0, 1, 2, 3, 4, 5, 6]:
            return ["day"]
    return [WEEKDAYS[day] for day in days]


def weekdays_of(rule: RecurrenceRule) -> str:
    """Such as ``the second tuesday of the month and friday``."""
    by_month = rule.frequency == "MONTHLY" or rule.months
    whole = f" of the {'month' if by_month else 'year'}"
    words = [
        f"the {weekday(each)}{whole}" if each.ordinal else WEEKDAYS[each.day]
        for each in rule.weekdays
    ]
    return listed(words)


def weekday(day: Weekday) -> str:
    """Such as ``second tuesday``."""
    return f"{nth(day.ordinal)} {WEEKDAYS[day.day]}"


def day_of_month(day: int) -> str:
    """Such as ``1st`` and ``last day``."""
    return ordinal(day) if day > 0 else f"{nth(day)} day"


def easter_day(days: int) -> str:
    """Such as ``the 2nd day before easter sunday``."""
    if not days:
        return "easter sunday"
    side = "after" if days > 0 else "before"
    return f"the {ordinal(abs(days))} day {side} easter sunday"


def nths(numbers: Sequence[int]) -> str:
    """Such as ``first, second and last``."""
    return listed([nth(each) for each in numbers])


def nth(number: int) -> str:
    """Such as ``first``, ``20th``, ``last`` and ``second to last``."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{nth(-number)} to last"
    return _NTH[number - 1] if number <= len(_NTH) else ordinal(number)


def numbered(unit: str, numbers: Sequence[int]) -> str:
    """Such as ``minute 30`` and ``hours 9 to 17``."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"{unit} {first}"
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{unit}s {first} to {last}"
    return f"{unit}s {listed([str(each) for each in numbers])}"


def clock_at(hour: int, minute: int, second: int = 0) -> str:
    """Such as ``09:30``."""
    return clock_time(datetime(1, 1, 1, hour, minute, second))  # noqa: DTZ001
