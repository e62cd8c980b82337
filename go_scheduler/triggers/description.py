"""Cron expressions and recurrence sets in English, with warnings about usual mistakes.

A schedule is described by days and times. Common schedules have the phrase that people
use. All others are described part by part.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

from go_scheduler.triggers.local_time import local_time
from go_scheduler.triggers.times import DAY, MONTH_LENGTHS
from go_scheduler.triggers.words import (
    MONTHS,
    WEEKDAYS,
    clock_at,
    clock_time,
    counted,
    every,
    listed,
    month_name,
    nth,
    ordinal,
    spans,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from go_scheduler.triggers.cron import CronExpression
    from go_scheduler.triggers.recurrence_rules import (
        Recurrence,
        RecurrenceRule,
        Weekday,
    )

_MINUTE, _HOUR = 60, 3600
_GROUPS = {(0, 1, 2, 3, 4): "weekday", (5, 6): "weekend", (*range(7),): "day"}


def _weekdays(days: Sequence[int], *, plural: str = "") -> Sequence[str]:
    """Such as ``monday`` and ``friday``, or ``weekday``; monday is 0."""
    group = _GROUPS.get(tuple(days))
    names = [group] if group else [WEEKDAYS[day] for day in days]
    return [f"{name}{plural}" for name in names]


# With more times of day than these, only a step from second 0 on is told as a step.
_MOST_ODD_TIMES = 24 * 60
# The most times of day that are listed: if they go on round the clock at one pace, if
# they are a step from hour to hour, and if they are neither or several in an hour.
_MOST_ROUND_THE_CLOCK, _MOST_STEPS, _MOST_LISTED = 3, 6, 24


def describe_cron(fields: CronExpression) -> str:
    """When a cron expression fires, as a phrase, without its time zone."""
    hours, minutes, seconds = fields.hours, fields.minutes, fields.seconds
    number = len(hours) * len(minutes) * len(seconds)
    first, last = (
        hours[end] * _HOUR + minutes[end] * _MINUTE + seconds[end] for end in (0, -1)
    )
    step = _step(hours, minutes, seconds)
    if number > _MOST_ODD_TIMES and seconds[0]:
        step = None
    goes_on = step is not None and not first and last + step == DAY
    if step is None:
        most = _MOST_LISTED
    elif len(minutes) > 1:
        # An expression that follows elapsed time is a step, be there few times or many.
        most = 0 if fields.elapsed else _MOST_LISTED
    else:
        most = _MOST_ROUND_THE_CLOCK if goes_on else _MOST_STEPS
    if number <= most:
        days = _cron_days(fields, leading=True) or "every day"
        phrase = f"{days} at {listed(_times(hours, minutes, seconds))}"
    else:
        days = _cron_days(fields, leading=False)
        if step is not None and goes_on:
            phrase = every(timedelta(seconds=step))
        elif step is not None and (step > _HOUR or step * number != DAY):
            phrase = every(timedelta(seconds=step))
            phrase += f" between {clock_at(first)} and {clock_at(last)}"
        elif len(hours) == 24 and seconds == (0,):
            phrase = f"every hour at {listed(f':{minute:02}' for minute in minutes)}"
        else:
            phrase = _field_by_field(fields)
        if days:
            phrase += f" {days}"
        elif goes_on and not fields.years:
            # Not from when it is scheduled on, as an interval is.
            phrase += " on the hour" if phrase == "every hour" else " on the clock"
    if fields.years:
        phrase += f" in {listed(spans(sorted(fields.years)))}"
    return phrase


def _step(
    hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]
) -> int | None:
    """The seconds from each time of day to the next, if it is always the same."""
    next_minute = seconds[0] - seconds[-1]
    next_hour = (minutes[0] - minutes[-1]) * _MINUTE + next_minute
    steps = {
        (later - earlier) * length + ahead
        for numbers, length, ahead in (
            (seconds, 1, 0),
            (minutes, _MINUTE, next_minute),
            (hours, _HOUR, next_hour),
        )
        for earlier, later in pairwise(numbers)
    }
    return steps.pop() if len(steps) == 1 else None


def _times(
    hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]
) -> Sequence[str]:
    """The times of day, such as ``09:30``."""
    return [
        clock_at(hour * _HOUR + minute * _MINUTE + second)
        for hour, minute, second in product(hours, minutes, seconds)
    ]


def _field_by_field(fields: CronExpression) -> str:
    parts = []
    for name, numbers, size in (
        ("second", fields.seconds, 60),
        ("minute", fields.minutes, 60),
        ("hour", fields.hours, 24),
    ):
        if len(numbers) == size:
            parts.append(f"every {name}")
        elif name != "second" or numbers != (0,):
            plural = "" if len(numbers) == 1 else "s"
            parts.append(f"{name}{plural} {listed(spans(numbers))}")
    phrase = " of ".join(parts)
    return phrase if phrase.startswith("every") else f"at {phrase}"


def _cron_days(fields: CronExpression, *, leading: bool) -> str:
    """The days on which it fires; nothing for every day.

    They lead, as in ``every weekday at 09:00``, or follow: ``every hour on weekdays``.
    """
    every_month = len(fields.months) == 12
    months = "every month" if every_month else listed(spans(fields.months, month_name))
    by_month, by_week = len(fields.month_days) < 31, len(fields.weekdays) < 7
    if fields.either and not (by_month and by_week):
        by_month = by_week = False
    on = "" if leading else "on "
    parts = []
    if by_month:
        days, special = fields.month_days, fields.special_month_days
        if len(days) == len(fields.months) == 1 and not special:
            date = f"on {days[0]} {months}"
            parts.append(f"every year {date}" if leading else f"{date} every year")
        else:
            words = [*spans(days, ordinal), *(each.describe() for each in special)]
            parts.append(f"{on}{'the ' if days else ''}{listed(words)} of {months}")
    if by_week and fields.weekdays:
        from_monday = sorted((day - 1) % 7 for day in fields.weekdays)
        names = listed(_weekdays(from_monday, plural="" if leading else "s"))
        within = "" if every_month else f" in {months}"
        parts.append(f"{'every' if leading else 'on'} {names}{within}")
    if by_week and fields.special_weekdays:
        words = [each.describe() for each in fields.special_weekdays]
        parts.append(f"{on}{listed(words)} of {months}")
    if parts or every_month:
        return " and ".join(parts)
    return f"{'every day ' if leading else ''}in {months}"


def cron_warnings(texts: Mapping[str, str], fields: CronExpression) -> Iterator[str]:
    """Sentences about what the author of a cron expression may not have meant."""
    if fields.either:
        yield (
            f"day-of-month {texts['day-of-month']} and day-of-week"
            f" {texts['day-of-week']} are both set, so it fires on the days that match"
            " either of them; write * for one of them, or combine two triggers to fire"
            " only on days that match both"
        )
    for name, whole, size in (
        ("second", "minute", 60),
        ("minute", "hour", 60),
        ("hour", "day", 24),
    ):
        for item in texts[name].split(","):
            start, _, step = item.partition("/")
            if not step or "-" in start or size % int(step) == 0:
                continue
            smaller = max(each for each in range(1, int(step)) if size % each == 0)
            yield (
                f"{name} {item} begins anew with every {whole}, so the last step before"
                f" that is another one: {step} does not divide {size}; write a step"
                f" that does, such as */{smaller}, or use an IntervalTrigger"
            )
    for item in texts["day-of-month"].split(","):
        day = item.removesuffix("W")
        if day not in ("29", "30", "31"):
            continue
        short = [each for each in fields.months if MONTH_LENGTHS[each - 1] < int(day)]
        if fields.months == (2,):
            yield (
                "29 february exists in leap years alone; write L for the last day of"
                " february"
            )
        elif short:
            yield (
                f"day-of-month {item} passes over the months that have no such day:"
                f" {listed(map(month_name, short))}; write L for the last day of"
                " every month"
            )


_UNITS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_END_OF_DAY = time(23, 59, 59)
# The most times of day, or moments, of a recurrence set that are listed.
_MOST_MOMENTS = 6


def describe_recurrence(recurrence: Recurrence, zone: tzinfo) -> str:
    """When a recurrence set fires, as a phrase, without its time zone and its start."""

    def moments(given: Sequence[date]) -> str:
        if len(given) > _MOST_MOMENTS:
            return f"at {len(given)} listed times"
        return f"on {listed(_moment(each, zone) for each in given)}"

    phrases = []
    for rule in recurrence.rules:
        pinned = rule if recurrence.start is None else rule.pinned(recurrence.start)
        phrase = _common_phrase(pinned, recurrence.start) or _part_by_part(pinned)
        if rule.until is not None:
            until: date = local_time(rule.until, zone)
            if isinstance(until, datetime) and until.time() == _END_OF_DAY:
                until = until.date()
            phrase += f" until {_moment(until, zone)}"
        if rule.count is not None:
            phrase += ", once" if rule.count == 1 else f", {rule.count} times"
        phrases.append(phrase)
    if recurrence.dates:
        phrases.append(moments(recurrence.dates))
    phrase = ", and ".join(phrases)
    if recurrence.exceptions:
        phrase += f", except {moments(recurrence.exceptions)}"
    return phrase


def _moment(moment: date, zone: tzinfo) -> str:
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = local_time(moment, zone)
    text = f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"
    return f"{text} at {clock_time(moment)}" if isinstance(moment, datetime) else text


def _every(rule: RecurrenceRule) -> str:
    """Such as ``every 2 days``."""
    return f"every {counted(_UNITS[rule.frequency], rule.interval)}"


def _in_months(rule: RecurrenceRule) -> str:
    """Such as `` in january and july``; empty if every month is meant."""
    return f" in {_months(rule)}" if rule.months else ""


def _months(rule: RecurrenceRule) -> str:
    return listed(map(month_name, rule.months)) if rule.months else ""


def _names(rule: RecurrenceRule, *, plural: str = "") -> Sequence[str]:
    return _weekdays([each.day for each in rule.weekdays], plural=plural)


def _month_day(day: int) -> str:
    """Such as ``1st`` and ``last day``."""
    return ordinal(day) if day > 0 else f"{nth(day)} day"


def _week_start(rule: RecurrenceRule) -> str:
    """Where weeks begin, if that is not on monday and may matter."""
    several = rule.frequency == "WEEKLY" and len(rule.weekdays) != 1
    matters = rule.weeks or (several and (rule.interval > 1 or rule.positions))
    if not rule.week_start or not matters:
        return ""
    return f", of weeks that begin on {WEEKDAYS[rule.week_start]}"


def _common_phrase(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """The rule as people say it; None if there is no common phrase for it."""
    named = [
        name
        for name in ("weeks", "year_days", "month_days", "weekdays", "easter_days")
        if getattr(rule, name)
    ]
    if rule.periods_per_day > 1:
        if rule.positions or named not in ([], ["weekdays"]):
            return None
        return _within_days(rule, start)
    times = _times_of(rule)
    if times is None or (rule.positions and len(times) > 1):
        return None
    has_ordinals = any(each.ordinal for each in rule.weekdays)
    days = None
    if not named and not rule.positions:
        days = f"{_every(rule)}{_in_months(rule)}"
    elif named == ["weekdays"] and not rule.positions and not has_ordinals:
        days = _of_week(rule)
    elif named in (["weekdays"], ["month_days"]):
        days = _of_month(rule, has_ordinals=has_ordinals)
    return f"{days} at {listed(times)}" if days and times else days


def _times_of(rule: RecurrenceRule) -> Sequence[str] | None:
    """The times of day; none if they are left open, None if they cannot be listed."""
    if not (rule.hours or rule.minutes or rule.seconds):
        return []
    parts = rule.hours, rule.minutes, rule.seconds or (0,)
    return _times(*parts) if 1 <= prod(map(len, parts)) <= _MOST_MOMENTS else None


def _of_week(rule: RecurrenceRule) -> str | None:
    """Such as ``every other tuesday``."""
    names = _names(rule)
    if rule.interval == 1:
        return f"every {listed(names)}{_in_months(rule)}"
    if rule.frequency not in ("WEEKLY", "DAILY"):
        return None
    if rule.frequency == "WEEKLY" and rule.interval == 2 and len(rule.weekdays) == 1:
        return f"every other {names[0]}{_in_months(rule)}"
    if names == ["day"]:
        names = ["weekday", "weekend"]
    if names[0] in ("weekday", "weekend"):
        names = [f"{name}s" for name in names]
    return f"{_every(rule)} on {listed(names)}{_in_months(rule)}{_week_start(rule)}"


def _of_month(rule: RecurrenceRule, *, has_ordinals: bool) -> str | None:
    """Such as ``the 1st of every month`` and ``every year on 25 december``."""
    if rule.frequency not in ("MONTHLY", "YEARLY", "DAILY"):
        return None
    if rule.positions:
        if rule.frequency != "MONTHLY" or rule.month_days or has_ordinals:
            return None
        names = _names(rule)
        if names == ["weekend"]:
            names = ["saturday", "sunday"]
        days = f"{listed(map(nth, rule.positions))} {' or '.join(names)}"
    elif rule.month_days:
        days = listed(map(_month_day, rule.month_days))
    elif all(each.ordinal for each in rule.weekdays):
        days = listed(_nth_weekday(each) for each in rule.weekdays)
    else:
        return None
    yearly = rule.frequency == "YEARLY"
    if yearly and len(rule.months) == len(rule.month_days) == 1 <= rule.month_days[0]:
        return f"{_every(rule)} on {rule.month_days[0]} {_months(rule)}"
    if rule.interval == 1:
        whole = "year" if yearly and rule.weekdays and not rule.months else "month"
        return f"the {days} of {_months(rule) or f'every {whole}'}"
    if yearly and rule.months:
        return f"{_every(rule)} on the {days} of {_months(rule)}"
    return None if yearly else f"{_every(rule)} on the {days}{_in_months(rule)}"


def _nth_weekday(weekday: Weekday) -> str:
    return f"{nth(weekday.ordinal)} {WEEKDAYS[weekday.day]}"


def _within_days(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """Such as ``every 15 minutes between 09:00 and 17:45 on weekdays``."""
    window = _window(rule, start)
    if window is None:
        return None
    phrase = f"{_every(rule)}{window}"
    if rule.weekdays and len(rule.weekdays) < 7:
        phrase += f" on {listed(_names(rule, plural='s'))}"
    return f"{phrase}{_in_months(rule)}"


def _window(rule: RecurrenceRule, start: datetime | None) -> str | None:
    """When within a day it fires; empty: all day; None: there is no phrase for it."""
    if rule.frequency == "SECONDLY":
        return None if rule.hours or rule.minutes or rule.seconds else ""
    if rule.seconds not in ((), (0,)):
        return None
    minute: int | None = None
    if rule.frequency == "HOURLY":
        step = 60 * rule.interval
        if not rule.hours:
            if rule.minutes in ((), (0,)):
                return ""
            return f" at {_numbered('minute', rule.minutes)}"
        if len(rule.minutes) == 1:
            minute = rule.minutes[0]
    else:
        step = rule.interval
        if not rule.hours:
            return None if rule.minutes else ""
        if not rule.minutes:
            minute = start.minute % step if start else 0 if step == 1 else None
    first, last = rule.hours[0], rule.hours[-1]
    if minute is None or 60 % step or last - first != len(rule.hours) - 1:
        return None
    begin = clock_at(first * _HOUR + minute * _MINUTE)
    end = clock_at(last * _HOUR + (minute + 60 - step) * _MINUTE)
    return f" between {begin} and {end}"


def _numbered(unit: str, numbers: Sequence[int]) -> str:
    """Such as ``minute 30`` and ``hours 9 to 17``."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"{unit} {first}"
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{unit}s {first} to {last}"
    return f"{unit}s {listed(map(str, numbers))}"


def _part_by_part(rule: RecurrenceRule) -> str:
    """Such as ``every year, on friday, on the 13th of the month, at 09:00``."""
    unit = _UNITS[rule.frequency]
    whole = "month" if rule.frequency == "MONTHLY" or rule.months else "year"

    def weekday(each: Weekday) -> str:
        if not each.ordinal:
            return WEEKDAYS[each.day]
        return f"the {_nth_weekday(each)} of the {whole}"

    def easter_day(days: int) -> str:
        if not days:
            return "easter sunday"
        side = "after" if days > 0 else "before"
        return f"the {ordinal(abs(days))} day {side} easter sunday"

    parts: Sequence[tuple[str, Sequence[Any], Callable[[Any], str]]] = (
        ("in {}", rule.months, month_name),
        ("in the {} week of the year", rule.weeks, nth),
        ("on the {} day of the year", rule.year_days, nth),
        ("on the {} of the month", rule.month_days, _month_day),
        ("on {}", rule.weekdays, weekday),
        ("on {}", rule.easter_days, easter_day),
    )
    phrases = [_every(rule)]
    phrases += [
        phrase.format(listed(map(name, values)))
        for phrase, values, name in parts
        if values
    ]
    if rule.periods_per_day == 1 and (times := _times_of(rule)):
        phrases.append(f"at {listed(times)}")
    else:
        seconds = rule.seconds if rule.seconds != (0,) else ()
        for name, numbers in (
            ("hour", rule.hours),
            ("minute", rule.minutes),
            ("second", seconds),
        ):
            if numbers:
                phrases.append(f"at {_numbered(name, numbers)}")
    if rule.positions:
        which = listed(map(nth, rule.positions))
        phrases.append(f"only the {which} time of each {unit}")
    return ", ".join(phrases) + _week_start(rule)


def rule_warnings(rule: RecurrenceRule) -> Iterator[str]:
    """The days that a rule names and that some months, or years, do not have.

    Args:
        rule: With what it leaves open taken from where it starts.

    Yields:
        What is to follow the text of the rule.
    """
    shortest = min(MONTH_LENGTHS[month - 1] for month in rule.months or range(1, 13))
    for day in rule.month_days:
        # The days before it stand for the end of the month, as in the last friday.
        if day > shortest and day - 1 not in rule.month_days and not rule.positions:
            yield (
                f"passes over each month that has no day {day}; BYMONTHDAY=-1 is"
                " the last day of every month"
            )
    whole, most = "month", 5
    if rule.frequency != "MONTHLY" and not rule.months:
        whole, most = "year", 53
    for each in rule.weekdays:
        if abs(each.ordinal) == most:
            yield (
                f"passes over each {whole} that has only {most - 1} of that day;"
                f" -1 instead of {each.ordinal} is the last one"
            )
