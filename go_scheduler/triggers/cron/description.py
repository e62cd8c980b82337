"""Cron expressions in English, and warnings about those that people get wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from go_scheduler.triggers.cron.expression import LastDay, NthWeekday, numbers
from go_scheduler.triggers.times import MONTH_LENGTHS
from go_scheduler.triggers.wall.wall_clock_trigger import clock_time
from go_scheduler.triggers.words import MONTHS, WEEKDAYS, every, listed, ordinal, spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from go_scheduler.triggers.cron.expression import CronFields, SpecialDay

_NTH = {None: "last", 1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_EVERY_DAY_OF_MONTH = 0xFFFFFFFE
_EVERY_DAY_OF_WEEK = 0b1111111
_KNOWN_DAYS = {0b0111110: ["weekday"], 0b1000001: ["weekend"]}
_EVERY_MONTH = 0b1111111111110
_EVERY_HOUR = (1 << 24) - 1
_EVERY_MINUTE = (1 << 60) - 1
_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
# The most times of day that are listed: if they go on round the clock at one pace, if
# they are a step from hour to hour, and if they are neither or several in an hour.
_MOST_ROUND_THE_CLOCK, _MOST_STEPS, _MOST_LISTED = 3, 6, 24


def describe(fields: CronFields) -> str:
    """When a cron expression fires, as a phrase, without its time zone."""
    times = fields.times_of_day()
    if times and _are_listed(times, fields):
        clock = listed([_clock(time) for time in times])
        phrase = f"{_days(fields, leading=True) or 'every day'} at {clock}"
    else:
        days = _days(fields, leading=False)
        phrase = f"{_repeated(fields)} {days}".rstrip()
        if not days and not fields.years and _goes_round_the_clock(fields):
            # Not from when it is scheduled on, as an interval is.
            phrase += " on the hour" if phrase == "every hour" else " on the clock"
    if fields.years:
        phrase += f" in {listed(spans(sorted(fields.years)))}"
    return phrase


def _are_listed(times: Sequence[timedelta], fields: CronFields) -> bool:
    """Whether times of day are named one by one, and not as a step."""
    step = _step(times)
    if len(numbers(fields.minutes)) > 1:
        # An expression that follows elapsed time is a step, be there few times or many.
        return len(times) <= _MOST_LISTED and not (fields.elapsed and step is not None)
    if step is None:
        return len(times) <= _MOST_LISTED
    return len(times) <= (
        _MOST_ROUND_THE_CLOCK if _fills_the_day(times) else _MOST_STEPS
    )


def _repeated(fields: CronFields) -> str:
    """How often it fires on one of its days."""
    times = fields.times_of_day()
    if not times and (phrase := _every_few_seconds(fields)):
        return phrase
    if (step := _step(times)) is not None:
        if _fills_the_day(times):
            return every(step)
        if step > _HOUR or step * len(times) != _DAY:
            first, last = _clock(times[0]), _clock(times[-1])
            return f"{every(step)} between {first} and {last}"
    if fields.hours == _EVERY_HOUR and fields.seconds == 1:
        minutes = [f":{minute:02}" for minute in numbers(fields.minutes)]
        return f"every hour at {listed(minutes)}"
    return _field_by_field(fields)


def _goes_round_the_clock(fields: CronFields) -> bool:
    """Whether it fires at the same pace all day and on into the next."""
    if times := fields.times_of_day():
        return _fills_the_day(times)
    return fields.hours == _EVERY_HOUR and _every_few_seconds(fields) is not None


def _every_few_seconds(fields: CronFields) -> str | None:
    """A phrase, if its minutes have the same seconds and follow without a break."""
    seconds = [timedelta(seconds=each) for each in numbers(fields.seconds)]
    step = _step(seconds)
    if step is None or seconds[0] or seconds[-1] + step != _MINUTE:
        return None
    hours, minutes = numbers(fields.hours), numbers(fields.minutes)
    if any(each[-1] - each[0] != len(each) - 1 for each in (hours, minutes)):
        return None
    if fields.minutes != _EVERY_MINUTE and len(hours) > 1:
        return None
    phrase = every(step)
    if fields.hours == _EVERY_HOUR:
        return phrase
    first = hours[0] * _HOUR + minutes[0] * _MINUTE
    last = hours[-1] * _HOUR + (minutes[-1] + 1) * _MINUTE - step
    return f"{phrase} between {_clock(first)} and {_clock(last)}"


def _field_by_field(fields: CronFields) -> str:
    parts = [
        f"every {name}" if bits == all_bits else _numbered(name, numbers(bits))
        for name, bits, all_bits in (
            ("second", fields.seconds, _EVERY_MINUTE),
            ("minute", fields.minutes, _EVERY_MINUTE),
            ("hour", fields.hours, _EVERY_HOUR),
        )
        if name != "second" or bits != 1
    ]
    return " of ".join(parts) if parts[0][:5] == "every" else f"at {' of '.join(parts)}"


def _days(fields: CronFields, *, leading: bool) -> str:
    """The days on which it fires; nothing for every day.

    Args:
        fields: What matches.
        leading: Whether a phrase begins with them, as in ``every weekday at 09:00``,
            or ends with them, as in ``every hour on weekdays``.
    """
    days = fields.days
    any_of_month = days.of_month == _EVERY_DAY_OF_MONTH
    any_of_week = days.of_week == _EVERY_DAY_OF_WEEK
    if days.either and (any_of_month or any_of_week):
        any_of_month = any_of_week = True
    parts = []
    if not any_of_month:
        parts.append(_by_month(fields, leading=leading))
    if not any_of_week:
        parts.append(_by_week(fields, leading=leading))
    if parts:
        return " and ".join(parts)
    if fields.months == _EVERY_MONTH:
        return ""
    return f"{'every day ' if leading else ''}in {_months(fields)}"


def _by_month(fields: CronFields, *, leading: bool) -> str:
    days, months = numbers(fields.days.of_month), numbers(fields.months)
    special = fields.days.special_of_month
    if len(days) == len(months) == 1 and not special:
        date = f"{days[0]} {_months(fields)}"
        return f"every year on {date}" if leading else f"on {date} every year"
    words = [*spans(days, ordinal), *map(_special, special)]
    article = "the " if days else ""
    return f"{'' if leading else 'on '}{article}{listed(words)} of {_months(fields)}"


def _by_week(fields: CronFields, *, leading: bool) -> str:
    days = fields.days
    parts = []
    if days.of_week:
        names = _KNOWN_DAYS.get(days.of_week) or [
            WEEKDAYS[day] for day in sorted(map(_from_monday, numbers(days.of_week)))
        ]
        plural = "" if leading else "s"
        names = [f"{name}{plural}" for name in names]
        within = "" if fields.months == _EVERY_MONTH else f" in {_months(fields)}"
        parts.append(f"{'every' if leading else 'on'} {listed(names)}{within}")
    if days.special_of_week:
        words = listed([_special(each) for each in days.special_of_week])
        parts.append(f"{'' if leading else 'on '}{words} of {_months(fields)}")
    return " and ".join(parts)


def _from_monday(day: int) -> int:
    return (day - 1) % 7


def _special(day: SpecialDay) -> str:
    if isinstance(day, NthWeekday):
        return f"the {_NTH[day.nth]} {WEEKDAYS[_from_monday(day.weekday)]}"
    if isinstance(day, LastDay):
        before = f"{ordinal(day.before + 1)} to " if day.before else ""
        return f"the {before}last day"
    if day.to is None or day.to == 1:
        return f"the {_NTH[day.to]} weekday"
    return f"the weekday nearest to the {ordinal(day.to)}"


def _months(fields: CronFields) -> str:
    if fields.months == _EVERY_MONTH:
        return "every month"
    return listed(spans(numbers(fields.months), lambda month: MONTHS[month - 1]))


def _step(times: Sequence[timedelta]) -> timedelta | None:
    """The time from each to the next, if it is always the same."""
    steps = {later - earlier for earlier, later in pairwise(times)}
    return steps.pop() if len(steps) == 1 else None


def _fills_the_day(times: Sequence[timedelta]) -> bool:
    """Whether the times go on from one day to the next at the same pace."""
    step = _step(times)
    return step is not None and not times[0] and times[-1] + step == _DAY


def _clock(time: timedelta) -> str:
    return clock_time(datetime.min + time)  # noqa: DTZ901 (any day will do)


def _numbered(name: str, values: Sequence[int]) -> str:
    return f"{name}{'' if len(values) == 1 else 's'} {listed(spans(values))}"


_SIZES = {"second": 60, "minute": 60, "hour": 24}
_WHOLE = {"second": "minute", "minute": "hour", "hour": "day"}


def warnings(texts: Mapping[str, str], fields: CronFields) -> Iterator[str]:
    """Sentences about what the author of a cron expression may not have meant.

    Args:
        texts: The text of each field by its name.
        fields: What they match.
    """
    yield from _either_day(texts, fields)
    for name, size in _SIZES.items():
        yield from _uneven_steps(name, texts[name], size)
    yield from _short_months(texts["day-of-month"], fields)


def _either_day(texts: Mapping[str, str], fields: CronFields) -> Iterator[str]:
    if fields.days.either:
        of_month, of_week = texts["day-of-month"], texts["day-of-week"]
        yield (
            f"day-of-month {of_month} and day-of-week {of_week} are both set, so it"
            " fires on the days that match either of them; write * for one of them,"
            " or combine two triggers to fire only on days that match both"
        )


def _uneven_steps(name: str, text: str, size: int) -> Iterator[str]:
    for item in text.split(","):
        start, _, step = item.partition("/")
        if not step or "-" in start or size % int(step) == 0:
            continue
        whole = _WHOLE[name]
        smaller = max(each for each in range(1, int(step)) if size % each == 0)
        yield (
            f"{name} {item} begins anew with every {whole}, so the last step before"
            f" that is another one: {step} does not divide {size}; write a step that"
            f" does, such as */{smaller}, or use an IntervalTrigger"
        )


def _short_months(text: str, fields: CronFields) -> Iterator[str]:
    months = numbers(fields.months)
    for item in text.split(","):
        day = item.removesuffix("W")
        if day not in ("29", "30", "31"):
            continue
        if months == [2]:
            yield (
                "29 february exists in leap years alone; write L for the last day of"
                " february"
            )
        elif short := [each for each in months if MONTH_LENGTHS[each - 1] < int(day)]:
            names = listed([MONTHS[each - 1] for each in short])
            yield (
                f"day-of-month {item} passes over the months that have no such day:"
                f" {names}; write L for the last day of every month"
            )
