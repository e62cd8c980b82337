"""Recurrence sets in English, and warnings about those that people get wrong."""

from __future__ import annotations

from datetime import datetime, time
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from go_scheduler.triggers.recurrence.rule import FREQUENCIES
from go_scheduler.triggers.recurrence.text import local_time, write_moment, write_rule
from go_scheduler.triggers.times import MONTH_LENGTHS
from go_scheduler.triggers.wall.wall_clock_trigger import clock_time
from go_scheduler.triggers.wall.zones import load_zone
from go_scheduler.triggers.words import MONTHS, WEEKDAYS, counted, listed, ordinal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date, tzinfo

    from go_scheduler.triggers.recurrence.rule import RecurrenceRule, Weekday
    from go_scheduler.triggers.recurrence.series import RecurrenceSeries
    from go_scheduler.triggers.recurrence.text import Recurrence

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


_GROUPS = ("weekday", "weekend")
_END_OF_DAY = time(23, 59, 59)
# The most times of day, or moments, that are listed.
_MOST_LISTED = 6


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
    if len(moments) > _MOST_LISTED:
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
    if not 1 <= prod(map(len, parts)) <= _MOST_LISTED:
        return None
    return [clock_at(*each) for each in product(*parts)]


def _days(rule: RecurrenceRule) -> str | None:
    match day_parts(rule):
        case ():
            return _repeated(rule) if not rule.positions else None
        case ("weekdays",) if not rule.positions and not has_ordinals(rule):
            return _of_week(rule)
        case ("weekdays",) | ("month_days",):
            return _of_month(rule)
    return None


def _repeated(rule: RecurrenceRule) -> str:
    """Such as ``every 2 days``."""
    return f"every {counted(unit_of(rule), rule.interval)}{in_months(rule)}"


def _of_week(rule: RecurrenceRule) -> str | None:
    """Such as ``every other tuesday``."""
    names = weekday_names(rule)
    if rule.interval == 1:
        return f"every {listed(names)}{in_months(rule)}"
    if rule.frequency not in ("WEEKLY", "DAILY"):
        return None
    if rule.frequency == "WEEKLY" and rule.interval == 2 and len(rule.weekdays) == 1:
        return f"every other {names[0]}{in_months(rule)}"
    if names == ["day"]:
        names = _GROUPS
    days = listed([f"{name}s" if name in _GROUPS else name for name in names])
    every = counted(unit_of(rule), rule.interval)
    return f"every {every} on {days}{in_months(rule)}{week_start(rule)}"


def _of_month(rule: RecurrenceRule) -> str | None:
    """Such as ``the 1st of every month`` and ``every year on 25 december``."""
    days = _days_of_month(rule)
    if days is None or rule.frequency not in ("MONTHLY", "YEARLY", "DAILY"):
        return None
    yearly = rule.frequency == "YEARLY"
    if yearly and len(rule.months) == len(rule.month_days) == 1 <= rule.month_days[0]:
        date = f"{rule.month_days[0]} {months_of(rule)}"
        return f"every {counted('year', rule.interval)} on {date}"
    if rule.interval == 1:
        whole = "year" if yearly and rule.weekdays and not rule.months else "month"
        return f"the {days} of {months_of(rule) or f'every {whole}'}"
    if yearly and rule.months:
        return f"every {rule.interval} years on the {days} of {months_of(rule)}"
    if yearly:
        return None
    every = counted(unit_of(rule), rule.interval)
    return f"every {every} on the {days}{in_months(rule)}"


def _days_of_month(rule: RecurrenceRule) -> str | None:
    """Such as ``1st and last day`` and ``first weekday``."""
    if not rule.positions:
        if rule.month_days:
            return listed([day_of_month(each) for each in rule.month_days])
        if all(each.ordinal for each in rule.weekdays):
            return listed([weekday(each) for each in rule.weekdays])
        return None
    if rule.frequency != "MONTHLY" or rule.month_days or has_ordinals(rule):
        return None
    which = listed([nth(each) for each in rule.positions])
    names = weekday_names(rule)
    if names == ["weekend"]:
        names = ["saturday", "sunday"]
    return f"{which} {' or '.join(names)}"


def _within_days(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """Such as ``every 15 minutes between 09:00 and 17:45 on weekdays``."""
    if rule.positions or day_parts(rule) not in ((), ("weekdays",)):
        return None
    window = _window(rule, start)
    if window is None:
        return None
    unit = unit_of(rule)
    phrase = f"every {counted(unit, rule.interval)}{window}"
    names = weekday_names(rule)
    if names and names != ["day"]:
        phrase += f" on {listed([f'{name}s' for name in names])}"
    return f"{phrase}{in_months(rule)}"


def _window(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """When within a day it fires; empty: all day; None: there is no phrase for it."""
    if rule.frequency == "SECONDLY":
        return None if rule.hours or rule.minutes or rule.seconds else ""
    if rule.seconds not in ((), (0,)):
        return None
    if rule.frequency == "HOURLY":
        step, minutes = 60 * rule.interval, rule.minutes
        if not rule.hours and minutes and minutes != (0,):
            return f" at {numbered('minute', minutes)}"
        minute = minutes[0] if len(minutes) == 1 else None
    else:
        step = rule.interval
        minute = None if rule.minutes else _first_minute(step, start)
    if not rule.hours:
        return "" if rule.frequency == "HOURLY" or not rule.minutes else None
    first, last = rule.hours[0], rule.hours[-1]
    if minute is None or 60 % step or last - first != len(rule.hours) - 1:
        return None
    return (
        f" between {clock_at(first, minute)} and {clock_at(last, minute + 60 - step)}"
    )


def _first_minute(step: int, start: datetime | None) -> int | None:
    if start is not None:
        return start.minute % step
    return 0 if step == 1 else None


def _part_by_part(rule: RecurrenceRule) -> str:
    """Such as ``every year, on friday, on the 13th of the month, at 09:00``."""
    unit = unit_of(rule)
    phrases = [f"every {counted(unit, rule.interval)}"]
    if rule.months:
        phrases.append(f"in {months_of(rule)}")
    if rule.weeks:
        phrases.append(f"in the {nths(rule.weeks)} week of the year")
    if rule.year_days:
        phrases.append(f"on the {nths(rule.year_days)} day of the year")
    if rule.month_days:
        days = listed([day_of_month(each) for each in rule.month_days])
        phrases.append(f"on the {days} of the month")
    if rule.weekdays:
        phrases.append(f"on {weekdays_of(rule)}")
    if rule.easter_days:
        phrases.append(f"on {listed([easter_day(each) for each in rule.easter_days])}")
    phrases += _clock_parts(rule)
    if rule.positions:
        phrases.append(f"only the {nths(rule.positions)} time of each {unit}")
    return ", ".join(phrases) + week_start(rule)


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
            yield f"at {numbered(unit, numbers)}"


# Each of them is asked for its times.
_MOST_EXCEPTIONS = 100


def passed_over(rule: RecurrenceRule) -> Iterator[str]:
    """The days that a rule names and that some months, or years, do not have.

    Args:
        rule: With what it leaves open taken from where it starts.
    """
    months = rule.months or range(1, 13)
    shortest = min(MONTH_LENGTHS[month - 1] for month in months)
    for day in rule.month_days:
        # The days before it stand for the end of the month, as in the last friday.
        if day > shortest and day - 1 not in rule.month_days and not rule.positions:
            yield (
                f"{write_rule(rule)} passes over each month that has no day {day};"
                " BYMONTHDAY=-1 is the last day of every month"
            )
    by_month = rule.frequency == "MONTHLY" or rule.months
    for each in rule.weekdays:
        if abs(each.ordinal) == (5 if by_month else 53):
            yield (
                f"{write_rule(rule)} passes over each {'month' if by_month else 'year'}"
                f" that has only {abs(each.ordinal) - 1} of that day; -1 instead of"
                f" {each.ordinal} is the last one"
            )


def idle_exceptions(
    exceptions: Sequence[date], series: RecurrenceSeries
) -> Iterator[str]:
    """The first of the exceptions, if any, that excludes nothing.

    Args:
        exceptions: Each EXDATE.
        series: What they are excluded from.
    """
    for moment in exceptions[:_MOST_EXCEPTIONS]:
        if not series.fires(moment):
            yield (
                f"EXDATE {write_moment(moment)} excludes nothing: it would not fire"
                " then; VALUE=DATE excludes a whole day"
            )
            return
