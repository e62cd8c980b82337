"""Recurrence sets in English."""

from __future__ import annotations

from datetime import datetime, time
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from go_scheduler.triggers.cron_description import MONTHS, listed
from go_scheduler.triggers.local_time import load_zone
from go_scheduler.triggers.recurrence_rule import FREQUENCIES
from go_scheduler.triggers.recurrence_text import local_time
from go_scheduler.triggers.wall_clock import clock_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, tzinfo

    from go_scheduler.triggers.recurrence_rule import RecurrenceRule, Weekday
    from go_scheduler.triggers.recurrence_text import Recurrence

_WEEKDAYS = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_NTH = ("first", "second", "third", "fourth", "fifth")
_END_OF_DAY = time(23, 59, 59)
# So many times of day, or moments, are listed.
_SOME = 6


def describe(recurrence: Recurrence) -> str:
    """When a recurrence set fires, as a phrase, without its time zone and its start."""
    zone = load_zone(recurrence.timezone)
    phrases = [_rule(rule, recurrence.start, zone) for rule in recurrence.rules]
    if recurrence.dates:
        phrases.append(_moments(recurrence.dates, zone))
    phrase = ", and ".join(phrases)
    if recurrence.exceptions:
        phrase += f", except {_moments(recurrence.exceptions, zone)}"
    return phrase


def _moments(moments: Sequence[date], zone: tzinfo) -> str:
    if len(moments) > _SOME:
        return f"at {len(moments)} listed times"
    return f"on {listed([_moment(each, zone) for each in moments])}"


def _moment(moment: date, zone: tzinfo) -> str:
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = local_time(moment, zone)
    text = f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"
    return f"{text} at {clock_time(moment)}" if isinstance(moment, datetime) else text


def _rule(rule: RecurrenceRule, start: datetime | None, zone: tzinfo) -> str:
    if start is not None:
        rule = rule.pinned(start)
    phrase = _as_people_say(rule, start) or _part_by_part(rule)
    if rule.until is not None:
        until = local_time(rule.until, zone)
        ends_day = until.time() == _END_OF_DAY
        phrase += f" until {_moment(until.date() if ends_day else until, zone)}"
    if rule.count is not None:
        phrase += ", once" if rule.count == 1 else f", {rule.count} times"
    return phrase


def _as_people_say(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """The rule as a common phrase; None if there is none for it."""
    if rule.periods_per_day > 1:
        return _within_days(rule, start)
    times = _times(rule)
    if times is None or (rule.positions and len(times) > 1):
        return None
    days = _days(rule)
    return f"{days} at {listed(times)}" if days and times else days


def _times(rule: RecurrenceRule) -> Sequence[str] | None:
    """The times of day; none if they are left open, None if they cannot be listed."""
    if not (rule.hours or rule.minutes or rule.seconds):
        return []
    parts = rule.hours, rule.minutes, rule.seconds or (0,)
    if not 1 <= prod(map(len, parts)) <= _SOME:
        return None
    return [_clock(*each) for each in product(*parts)]


def _days(rule: RecurrenceRule) -> str | None:
    match _kinds(rule):
        case ():
            return _repeated(rule) if not rule.positions else None
        case ("weekdays",) if not rule.positions and not _has_ordinals(rule):
            return _of_week(rule)
        case ("weekdays",) | ("month_days",):
            return _of_month(rule)
    return None


def _repeated(rule: RecurrenceRule) -> str | None:
    """Such as ``every 2 days``."""
    unit = _UNITS[FREQUENCIES.index(rule.frequency)]
    if not rule.months:
        return f"every {_counted(unit, rule.interval)}"
    if rule.interval == 1 and unit == "day":
        return f"every day in {_months(rule)}"
    return None


def _of_week(rule: RecurrenceRule) -> str | None:
    """Such as ``every other tuesday``."""
    names = _weekday_names(rule)
    if rule.interval == 1:
        return f"every {listed(names)}{_in_months(rule)}"
    if rule.frequency != "WEEKLY" or rule.months:
        return None
    if rule.interval == 2 and len(names) == 1 and names != ["weekday"]:
        return f"every other {names[0]}"
    days = listed(["weekdays" if name == "weekday" else name for name in names])
    return f"every {rule.interval} weeks on {days}"


def _of_month(rule: RecurrenceRule) -> str | None:
    """Such as ``the 1st of every month`` and ``every year on 25 december``."""
    days = _days_of_month(rule)
    if days is None or rule.frequency not in ("MONTHLY", "YEARLY", "DAILY"):
        return None
    yearly = rule.frequency == "YEARLY"
    if yearly and len(rule.months) == len(rule.month_days) == 1 <= rule.month_days[0]:
        date = f"{rule.month_days[0]} {_months(rule)}"
        return f"every {_counted('year', rule.interval)} on {date}"
    if rule.interval == 1:
        whole = "year" if yearly and rule.weekdays and not rule.months else "month"
        return f"the {days} of {_months(rule) or f'every {whole}'}"
    if yearly and rule.months:
        return f"every {rule.interval} years on the {days} of {_months(rule)}"
    if rule.frequency == "MONTHLY" and not rule.months:
        return f"every {rule.interval} months on the {days}"
    return None


def _days_of_month(rule: RecurrenceRule) -> str | None:
    """Such as ``1st and last day`` and ``first weekday``."""
    if not rule.positions:
        if rule.month_days:
            return listed([_day_of_month(each) for each in rule.month_days])
        if all(each.ordinal for each in rule.weekdays):
            return listed([_weekday(each) for each in rule.weekdays])
        return None
    if rule.frequency != "MONTHLY" or rule.month_days or _has_ordinals(rule):
        return None
    which = listed([_nth(each) for each in rule.positions])
    return f"{which} {' or '.join(_weekday_names(rule))}"


def _within_days(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """Such as ``every 15 minutes between 09:00 and 17:45 on weekdays``."""
    if rule.positions or _has_ordinals(rule) or _kinds(rule) not in ((), ("weekdays",)):
        return None
    window = _window(rule, start)
    if window is None:
        return None
    unit = _UNITS[FREQUENCIES.index(rule.frequency)]
    phrase = f"every {_counted(unit, rule.interval)}{window}"
    if rule.weekdays:
        phrase += f" on {listed([f'{name}s' for name in _weekday_names(rule)])}"
    return f"{phrase}{_in_months(rule)}"


def _window(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """When within a day it fires; empty: all day; None: there is no phrase for it."""
    if rule.frequency == "SECONDLY":
        return None if rule.hours or rule.minutes or rule.seconds else ""
    if rule.seconds not in ((), (0,)):
        return None
    if rule.frequency == "HOURLY":
        step, minutes = 60 * rule.interval, rule.minutes
        if not rule.hours and minutes and minutes != (0,):
            return f" at {_numbered('minute', minutes)}"
        minute = minutes[0] if len(minutes) == 1 else None
    else:
        step = rule.interval
        minute = None if rule.minutes else _first_minute(step, start)
    if not rule.hours:
        return "" if rule.frequency == "HOURLY" or not rule.minutes else None
    first, last = rule.hours[0], rule.hours[-1]
    if minute is None or 60 % step or last - first != len(rule.hours) - 1:
        return None
    return f" between {_clock(first, minute)} and {_clock(last, minute + 60 - step)}"


def _first_minute(step: int, start: datetime | None) -> int | None:
    if start is not None:
        return start.minute % step
    return 0 if step == 1 else None


def _part_by_part(rule: RecurrenceRule) -> str:
    """Such as ``every year, on friday, on the 13th of the month, at 09:00``."""
    unit = _UNITS[FREQUENCIES.index(rule.frequency)]
    phrases = [f"every {_counted(unit, rule.interval)}"]
    if rule.months:
        phrases.append(f"in {_months(rule)}")
    if rule.weeks:
        phrases.append(f"in the {_nths(rule.weeks)} week of the year")
    if rule.year_days:
        phrases.append(f"on the {_nths(rule.year_days)} day of the year")
    if rule.month_days:
        days = listed([_day_of_month(each) for each in rule.month_days])
        phrases.append(f"on the {days} of the month")
    if rule.weekdays:
        phrases.append(f"on {_weekdays(rule)}")
    if rule.easter_days:
        phrases.append(f"on {listed([_easter(each) for each in rule.easter_days])}")
    phrases += _clock_parts(rule)
    if rule.positions:
        phrases.append(f"only the {_nths(rule.positions)} time of each {unit}")
    return ", ".join(phrases)


def _clock_parts(rule: RecurrenceRule) -> Iterable[str]:
    if rule.periods_per_day == 1 and (times := _times(rule)):
        yield f"at {listed(times)}"
        return
    for unit, numbers in (
        ("hour", rule.hours),
        ("minute", rule.minutes),
        ("second", rule.seconds if rule.seconds != (0,) else ()),
    ):
        if numbers:
            yield f"at {_numbered(unit, numbers)}"


def _kinds(rule: RecurrenceRule) -> tuple[str, ...]:
    """Which of the parts that name days a rule has."""
    kinds = {
        "weeks": rule.weeks,
        "year_days": rule.year_days,
        "month_days": rule.month_days,
        "weekdays": rule.weekdays,
        "easter_days": rule.easter_days,
    }
    return tuple(name for name, values in kinds.items() if values)


def _has_ordinals(rule: RecurrenceRule) -> bool:
    return any(each.ordinal for each in rule.weekdays)


def _months(rule: RecurrenceRule) -> str:
    return listed([MONTHS[each - 1] for each in rule.months]) if rule.months else ""


def _in_months(rule: RecurrenceRule) -> str:
    return f" in {_months(rule)}" if rule.months else ""


def _weekday_names(rule: RecurrenceRule) -> Sequence[str]:
    """The names of days that have no ordinals."""
    days = [each.day for each in rule.weekdays]
    match days:
        case [0, 1, 2, 3, 4]:
            return ["weekday"]
        case [0, 1, 2, 3, 4, 5, 6]:
            return ["day"]
    return [_WEEKDAYS[day] for day in days]


def _weekdays(rule: RecurrenceRule) -> str:
    by_month = rule.frequency == "MONTHLY" or rule.months
    whole = f" of the {'month' if by_month else 'year'}"
    words = [
        f"the {_weekday(each)}{whole}" if each.ordinal else _WEEKDAYS[each.day]
        for each in rule.weekdays
    ]
    return listed(words)


def _weekday(day: Weekday) -> str:
    return f"{_nth(day.ordinal)} {_WEEKDAYS[day.day]}"


def _day_of_month(day: int) -> str:
    return _ordinal(day) if day > 0 else f"{_nth(day)} day"


def _easter(days: int) -> str:
    if not days:
        return "easter sunday"
    side = "after" if days > 0 else "before"
    return f"the {_ordinal(abs(days))} day {side} easter sunday"


def _nths(numbers: Sequence[int]) -> str:
    return listed([_nth(each) for each in numbers])


def _nth(number: int) -> str:
    """Such as ``first``, ``20th``, ``last`` and ``second to last``."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{_nth(-number)} to last"
    return _NTH[number - 1] if number <= len(_NTH) else _ordinal(number)


def _ordinal(number: int) -> str:
    """Such as ``1st``."""
    tens, ones = divmod(number % 100, 10)
    suffix = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{suffix}"


def _numbered(unit: str, numbers: Sequence[int]) -> str:
    """Such as ``minute 30`` and ``hours 9 to 17``."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"{unit} {first}"
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{unit}s {first} to {last}"
    return f"{unit}s {listed([str(each) for each in numbers])}"


def _counted(unit: str, count: int) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return clock_time(datetime(1, 1, 1, hour, minute, second))  # noqa: DTZ001
