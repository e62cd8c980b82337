"""The trigger of cron expressions, which are read here and searched for their times."""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import isleap
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers import fire_time_sets as sets
from go_scheduler.triggers.base import Progression, RefusedError
from go_scheduler.triggers.description import cron_warnings, describe_cron
from go_scheduler.triggers.local_time import WallClockTrigger, check_wall_clock
from go_scheduler.triggers.times import MONTH_LENGTHS, SECOND, days_in
from go_scheduler.triggers.words import (
    MONTHS,
    NEVER_FROM_NOW_ON,
    WEEKDAYS,
    nth,
    ordinal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from go_scheduler.triggers.local_time import Search


class LastDay(NamedTuple):
    """The last day of the month, or so many days before it: ``L``, ``L-3``."""

    before: int

    def day(self, first_weekday: int, length: int) -> int:
        """The day of a month; less than 1 if the month is too short."""
        return length - self.before

    def describe(self) -> str:
        """Such as ``the last day`` and ``the 4th to last day``."""
        return f"the {f'{ordinal(self.before + 1)} to ' if self.before else ''}last day"


class NearestWeekday(NamedTuple):
    """The day from Monday to Friday nearest to a day, in the same month: ``15W``.

    Attributes:
        to: The day of the month; None is the last one, ``LW``.
    """

    to: int | None

    def day(self, first_weekday: int, length: int) -> int:
        """The day of a month; 0 if the month is too short."""
        day = length if self.to is None else self.to
        if day > length:
            return 0
        match (first_weekday + day - 1) % 7:
            case 0:
                return day + 1 if day < length else day - 2
            case 6:
                return day - 1 if day > 1 else day + 2
        return day

    def describe(self) -> str:
        """Such as ``the last weekday`` and ``the weekday nearest to the 15th``."""
        if self.to is None or self.to == 1:
            return f"the {nth(self.to or -1)} weekday"
        return f"the weekday nearest to the {ordinal(self.to)}"


class NthWeekday(NamedTuple):
    """A day of the week, the first to fifth in the month or the last: ``5#3``, ``5L``.

    Attributes:
        weekday: The day of the week; Sunday is 0.
        nth: Which one, from 1 to 5; None is the last one.
    """

    weekday: int
    nth: int | None

    def day(self, first_weekday: int, length: int) -> int:
        """The day of a month; beyond its end if it has no fifth one."""
        first = (self.weekday - first_weekday) % 7 + 1
        if self.nth is None:
            return first + (length - first) // 7 * 7
        return first + 7 * (self.nth - 1)

    def describe(self) -> str:
        """Such as ``the third friday``."""
        return f"the {nth(self.nth or -1)} {WEEKDAYS[self.weekday - 1]}"


SpecialDay: TypeAlias = LastDay | NearestWeekday | NthWeekday

# A year has one of fourteen calendars: by the day of the week it begins with, and leap
# or not. They recur every 400 years.
_CALENDARS = tuple(
    7 * isleap(year) + date(year, 1, 1).isoweekday() % 7 for year in range(2000, 2400)
)
# The first day of each week of a month that begins on a Sunday, as bits.
_WEEKS = sum(1 << 7 * week for week in range(6))
# The days of a year are numbered as if each month had so many, which tells the month.
_MONTH = 32


class CronExpression:
    """The numbers in the fields of a cron expression, and the times that match.

    Attributes:
        seconds: Seconds of the minute.
        minutes: Minutes of the hour.
        hours: Hours of the day.
        month_days: Days of the month.
        special_month_days: Days of the month with ``L`` or ``W``.
        months: Months of the year.
        weekdays: Days of the week; Sunday is 0.
        special_weekdays: Days of the week with ``L`` or ``#``.
        years: Years; empty if any year matches.
        either: Whether it is enough that one of the two day fields matches.
        elapsed: Whether it follows elapsed time where the clocks change.

    Args:
        texts: The text of each field by its name.

    Raises:
        RefusedError: A field cannot be read, or no date matches.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        read = {name: _items(text, FIELDS[name]) for name, text in texts.items()}
        self.seconds, _ = read["second"]
        self.minutes, _ = read["minute"]
        self.hours, _ = read["hour"]
        self.month_days, self.special_month_days = read["day-of-month"]
        self.months, _ = read["month"]
        self.weekdays, self.special_weekdays = read["day-of-week"]
        self.years = frozenset(() if is_any(texts["year"]) else read["year"][0])
        self.either = not (
            is_any(texts["day-of-month"]) or is_any(texts["day-of-week"])
        )
        self.elapsed = any(
            texts[name].startswith("*") for name in ("second", "minute", "hour")
        )
        self._last_year = max(self.years, default=MAXYEAR)
        self._next_second = _following(self.seconds, 60)
        self._next_minute = _following(self.minutes, 60)
        self._next_hour = _following(self.hours, 24)
        self._first_time = self.hours[0], self.minutes[0], self.seconds[0]
        self._month_bits = sum(1 << day for day in self.month_days)
        self._week_bits = sum(1 << day for day in self.weekdays) * _WEEKS
        self._days: dict[int, Sequence[int]] = {}
        if not any(map(self._days_of, self.years or range(2000, 2400))):
            restricted = [
                f"{name} {texts[name]}"
                for name in ("day-of-month", "month", "day-of-week", "year")
                if not is_any(texts[name])
            ]
            raise RefusedError(
                f"it never fires: there is no date with {', '.join(restricted)}"
            )

    def search(self, start: datetime) -> datetime | None:
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

    def _time(self, start: datetime) -> tuple[int, int, int]:
        """The first time of day that matches from one on; hour -1 if there is none."""
        hour, minute = start.hour, start.minute
        second = self._next_second[start.second + (start.microsecond > 0)]
        if second < 0:
            minute += 1
        found = self._next_minute[minute]
        if found < 0:
            hour += 1
        if self._next_hour[hour] != hour:
            return self._next_hour[hour], self._first_time[1], self._first_time[2]
        if found != start.minute:
            second = self._first_time[2]
        return hour, found if found >= 0 else self._first_time[1], second

    def _days_of(self, year: int) -> Sequence[int]:
        """The days of a year that match, by their numbers."""
        if self.years and year not in self.years:
            return ()
        calendar = self.calendar(year)
        days = self._days.get(calendar)
        if days is None:
            days = self._days[calendar] = tuple(self._days_by(calendar))
        return days

    def _days_by(self, calendar: int) -> Iterator[int]:
        leap, weekday = divmod(calendar, 7)
        for month, length in enumerate(MONTH_LENGTHS, start=1):
            end = length + 1 + leap * (month == 2)
            if month in self.months:
                days = self._days_within(weekday, end - 1)
                for day in range(1, end):
                    if days >> day & 1:
                        yield month * _MONTH + day
            weekday = (weekday + end - 1) % 7

    def _days_within(self, first_weekday: int, length: int) -> int:
        """The days of a month that match, as bits, and perhaps some beyond its end."""
        by_month = self._month_bits
        for special in self.special_month_days:
            by_month |= 1 << max(special.day(first_weekday, length), 0)
        by_week = self._week_bits >> first_weekday << 1
        for special in self.special_weekdays:
            by_week |= 1 << special.day(first_weekday, length)
        return by_week | by_month if self.either else by_week & by_month


def _following(numbers: Sequence[int], size: int) -> Sequence[int]:
    """For each number up to the size, the first of some from it on; -1: none."""
    following = [-1] * (size + 1)
    for number in reversed(range(size)):
        following[number] = number if number in numbers else following[number + 1]
    return tuple(following)


class Field(NamedTuple):
    """One of the fields of a cron expression.

    Attributes:
        name: What it is called in errors.
        first: Its lowest number.
        last: Its highest number.
        highest: The highest number that may be written: 7 for day-of-week, read as 0.
        names: Names that stand for numbers.
    """

    name: str
    first: int
    last: int
    highest: int
    names: Mapping[str, int]

    @property
    def allowed(self) -> str:
        """The numbers that may be written."""
        return f"{self.first}–{self.highest}"


def _names(words: Sequence[str], first: int) -> Mapping[str, int]:
    return {
        spelling: number
        for number, word in enumerate(words, first)
        for spelling in (word.upper(), word[:3].upper())
    }


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("second", 0, 59, 59, {}),
        Field("minute", 0, 59, 59, {}),
        Field("hour", 0, 23, 23, {}),
        Field("day-of-month", 1, 31, 31, {}),
        Field("month", 1, 12, 12, _names(MONTHS, 1)),
        Field("day-of-week", 0, 6, 7, _names((WEEKDAYS[6], *WEEKDAYS[:6]), 0)),
        Field("year", 1970, 2099, 2099, {}),
    )
}

_ITEM = re.compile(r"(\*|[^-/*]+)(?:-([^-/*]+))?(?:/([^-/*]+))?")
_HASHED = re.compile(r"[HR](\(.*)?")
_SPECIAL = re.compile(r"[LW#\d]*[LW#][LW#\d]*|[A-Z]{3,9}#.*")


def is_any(text: str) -> bool:
    """Whether a field is no restriction: only ``*`` and ``?`` are none."""
    return text == "?" or "*" in text.split(",")


def _items(text: str, field: Field) -> tuple[Sequence[int], Sequence[SpecialDay]]:
    """The numbers that a field lists, in order, and the special days."""
    if text == "?" and field.name.startswith("day"):
        text = "*"
    numbers: set[int] = set()
    special = []
    for item in text.split(","):
        if (day := _special_day(item, field)) is not None:
            special.append(day)
        else:
            numbers.update(_plain_numbers(item, field))
    return tuple(sorted(numbers)), tuple(special)


def _special_day(item: str, field: Field) -> SpecialDay | None:
    """The day that an item with ``L``, ``W`` or ``#`` means; None for any other item.

    Raises:
        RefusedError: It has one of them, but cannot be read.
    """
    if field.name == "day-of-month":
        return _special_month_day(item, field)
    if field.name != "day-of-week":
        return None
    name, hash_sign, nth = item.partition("#")
    if not hash_sign:
        if not item.endswith("L") or item == "L":
            return None
        name = item[:-1]
    elif nth not in ("1", "2", "3", "4", "5"):
        raise RefusedError(
            f'{field.name} "{item}": after # write which one of the month, in 1–5,'
            " as in FRI#3; the last one is FRIL"
        )
    if not name.isdigit() and name not in field.names:
        raise RefusedError(_unreadable(item, field))
    return NthWeekday(_number(name, field) % 7, int(nth) if hash_sign else None)


def _special_month_day(item: str, field: Field) -> SpecialDay | None:
    if item == "LW":
        return NearestWeekday(None)
    if item == "L":
        return LastDay(0)
    if item.startswith("L-"):
        before = item[2:]
        if not before.isdigit() or not 1 <= int(before) < field.last:
            raise RefusedError(
                f'{field.name} "{item}": after L- write how many days before the last'
                f" one, in 1–{field.last - 1}"
            )
        return LastDay(int(before))
    if item.endswith("W") and item != "W":
        if not item[:-1].isdigit():
            raise RefusedError(
                f'{field.name} "{item}": before W write one number in'
                f" {field.allowed}, as in 15W, or L"
            )
        return NearestWeekday(_number(item[:-1], field))
    return None


def _plain_numbers(item: str, field: Field) -> Sequence[int]:
    """The numbers that an item without ``L``, ``W`` and ``#`` stands for.

    Raises:
        RefusedError: It is no ``*``, number, name, range or step of this field.
    """
    match = _ITEM.fullmatch(item)
    if match is None:
        raise RefusedError(
            f'{field.name} "{item}" cannot be read; write *, numbers in'
            f" {field.allowed}, ranges such as"
            f" {field.first or 1}-{field.first + 5}, steps such as */2, or a list of"
            " these"
        )
    low_text, high_text, step_text = match.groups()
    step, most = 1, field.last - field.first + 1
    if step_text is not None:
        if not step_text.isdigit() or not 1 <= int(step_text) <= most:
            raise RefusedError(
                f'{field.name} has the step "{step_text}", which is not a number in'
                f" 1–{most}"
            )
        step = int(step_text)
    if low_text == "*":
        if high_text is not None:
            raise RefusedError(f'{field.name} "{item}" mixes * with a range')
        return range(field.first, field.last + 1, step)
    low = _number(low_text, field)
    if high_text is not None:
        high = _number(high_text, field)
        if low > high == 0 and high_text in field.names:
            high = field.highest  # Fri-Sun: at its end a week's Sunday is 7
    else:
        high = low if step_text is None else max(low, field.last)
    if high < low:
        raise RefusedError(_backwards(f"{low_text}-{high_text}", low, high, field))
    # Sunday is 7 as well as 0.
    numbers = range(low, high + 1, step)
    return [field.first if each > field.last else each for each in numbers]


def _number(text: str, field: Field) -> int:
    if (named := field.names.get(text)) is not None:
        return named
    if not text.isdigit():
        raise RefusedError(_unreadable(text, field))
    number = int(text)
    if not field.first <= number <= field.highest:
        raise RefusedError(f"{field.name} {text} is not in {field.allowed}")
    return number


def _unreadable(text: str, field: Field) -> str:
    what = f'{field.name} "{text}"'
    if "?" in text:
        return f"{what}: ? stands alone, in day-of-month or day-of-week; write *"
    if _HASHED.fullmatch(text):
        return (
            f"{what}: H and R, which stand for any time, are not supported: every node"
            " must compute the same times"
        )
    if _SPECIAL.fullmatch(text):
        where = {
            "day-of-month": (
                "write L for the last day, L-3, LW or 15W; # goes to day-of-week"
            ),
            "day-of-week": (
                "write 5L or FRIL for the last friday, FRI#3 for the third; W, LW and a"
                " bare L go to day-of-month"
            ),
        }
        default = "L, W and # go to day-of-month and day-of-week"
        return f"{what}: {where.get(field.name, default)}"
    if not field.names:
        return f"{what} is not a number in {field.allowed}"
    long = max(field.names, key=len)
    return (
        f"{what} is neither a number in {field.allowed} nor a name such as {long[:3]}"
        f" or {long}"
    )


def _backwards(text: str, low: int, high: int, field: Field) -> str:
    instead = f"write {low}-{field.last},{field.first}-{high}"
    if field.name == "day-of-week" and high == 0:
        instead = f"Sunday is also 7: write {low}-7"
    elif field.name == "day-of-week" and text.replace("-", "").isalpha():
        begin, _, end = text.partition("-")
        instead = f"write {begin}-SUN,MON-{end}"
    elif field.name == "year":
        instead = f"write {high}-{low}"
    return f"{field.name} {text} runs backwards; {instead}"


LONGEST = 256
"""The most characters a cron expression may have."""

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIVE = "minute hour day-of-month month day-of-week"
_SEVEN = f"second {_FIVE} year"


def normalise(expression: object) -> str:
    """An expression as it is kept: single spaces, upper case, macros in lower case.

    Raises:
        InvalidTriggerError: It is not text, too long, or not ASCII.
    """
    if not isinstance(expression, str):
        raise InvalidTriggerError(
            f"a cron expression must be text, not {shown(expression)}"
        )
    if len(expression) > LONGEST:
        raise InvalidTriggerError(
            f"a cron expression has at most {LONGEST} characters, not"
            f" {len(expression)}: {expression[:40]!r}..."
        )
    for each in expression:
        if not each.isascii() or not (each.isprintable() or each.isspace()):
            raise InvalidTriggerError(
                f"cron expression {shown(expression)}: {each!r} (U+{ord(each):04X}) is"
                " not allowed; write plain ASCII"
            )
    text = " ".join(expression.split())
    return text.lower() if text.startswith("@") else text.upper()


@lru_cache(maxsize=4096)
def parse(text: str) -> CronExpression:
    """The fields of a normalised expression.

    Raises:
        InvalidTriggerError: It is not one this package reads, or matches no date.
    """
    try:
        return CronExpression(split(text))
    except RefusedError as error:
        raise InvalidTriggerError(f'cron expression "{text}": {error}') from None


def split(text: str) -> Mapping[str, str]:
    """The text of each of the seven fields by its name.

    Args:
        text: A normalised expression; without seconds and years, second is ``0`` and
            year is ``*``.

    Raises:
        RefusedError: It has another number of fields, or is no macro of cron.
    """
    if text.split(" ", 1)[0].lower() == "@every":
        raise RefusedError(
            "@every is no cron expression: use IntervalTrigger, --every on the command"
            " line, or the field every over HTTP"
        )
    if text.startswith("EVERY "):
        raise RefusedError(
            "it is a phrase: use parse_phrase, --phrase on the command line, or the"
            " field phrase over HTTP"
        )
    if text.startswith("@") and text not in MACROS:
        raise RefusedError(f"it is none of {', '.join(MACROS)}")
    parts = MACROS.get(text, text).split()
    match len(parts):
        case 5:
            parts = ["0", *parts, "*"]
        case 7:
            pass
        case 0:
            raise RefusedError(f"it is empty; write five fields: {_FIVE}")
        case 6:
            raise RefusedError(_readings_of_six(parts))
        case count:
            raise RefusedError(
                f"it has {count} field{'s' if count > 1 else ''}; write five: {_FIVE};"
                f" or seven: {_SEVEN}"
            )
    return dict(zip(_SEVEN.split(), parts, strict=True))


def _readings_of_six(parts: Sequence[str]) -> str:
    """What six fields may mean, each with the seven fields to write instead."""
    text = " ".join(parts)
    readings = []
    for condition, seven in (
        ("if the first field is the second", f"{text} *"),
        ("if the last one is the year", f"0 {text}"),
        ("if the last one is the second", " ".join([parts[5], *parts[:5], "*"])),
    ):
        try:
            parse(seven)
        except InvalidTriggerError:
            continue
        readings.append(f'{condition}, write "{seven}"')
    if not readings:
        return f"6 fields are not read; write five: {_FIVE}; or seven: {_SEVEN}"
    ambiguous = "6 fields are read in different ways by different programs"
    return "; ".join([ambiguous, *readings])


_LEAST = {
    "year": "*",
    "month": "1",
    "day": "1",
    "day_of_week": "*",
    "hour": "0",
    "minute": "0",
    "second": "0",
}
"""The fields from large to small: what each is if only larger ones are given."""

_AROUND_SIGNS = re.compile(r"\s*([,-])\s*")
# Neither which one of the month, nor a step.
_WEEKDAY_NUMBER = re.compile(r"(?<![#/\d])\d")


def expression_of(expression: object, **given: int | str | None) -> object:
    """The expression that was given, as one or by its fields.

    Args:
        expression: The expression; None: it is given by fields.
        **given: Every field by its name; None: it is not given.

    Returns:
        An expression, of five fields where they suffice.

    Raises:
        InvalidTriggerError: There is none, or two, or a field is not as it has to be.
    """
    texts = {
        name: _text(name, value) for name, value in given.items() if value is not None
    }
    if expression is not None:
        if texts:
            raise InvalidTriggerError(
                f"the expression {shown(expression)} and {next(iter(texts))}= say the"
                " same: pass one of them"
            )
        return expression
    if not texts:
        raise InvalidTriggerError(
            'a cron trigger needs an expression, such as "30 9 * * Mon-Fri", or'
            " fields, such as hour=9, minute=30"
        )
    if not any(is_any(texts.get(name, "*")) for name in ("day", "day_of_week")):
        raise InvalidTriggerError(
            "day and day_of_week are both given: an expression of both matches the days"
            " that match either. Write it as an expression if you mean that; the first"
            ' monday is day_of_week="mon#1"'
        )
    names = list(_LEAST)
    smallest = max(names.index(name) for name in texts)
    fields = {
        name: texts.get(name, "*" if place < smallest else _LEAST[name])
        for place, name in enumerate(names)
    }
    five = [fields[name] for name in ("minute", "hour", "day", "month", "day_of_week")]
    if fields["second"] == "0" and fields["year"] == "*":
        return " ".join(five)
    return " ".join([fields["second"], *five, fields["year"]])


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = shown(value)
    if not isinstance(value, str):
        such_as = '"mon-fri"' if name == "day_of_week" else '"1,2"'
        raise InvalidTriggerError(
            f"{name} must be a number, or a text such as {such_as}, not {shown(value)}"
        )
    text = _AROUND_SIGNS.sub(r"\1", value.strip())
    if not text or text.split() != [text]:
        raise InvalidTriggerError(
            f"{name} {shown(value)} cannot be read; a list has commas and no spaces,"
            ' the second friday is day_of_week="fri#2", the last day of a month day="L"'
        )
    if name == "day_of_week" and _WEEKDAY_NUMBER.search(text):
        raise InvalidTriggerError(
            f'day_of_week {shown(value)}: write names, such as "mon-fri"; in cron 0'
            " and 7 are Sunday, in other schedulers 0 is Monday"
        )
    return text


def local_times(fields: CronExpression) -> sets.YearlySet:
    """The local times that match, as a set."""
    times = sets.times_of_day(fields.hours, fields.minutes, fields.seconds)

    @sets.CachedYears
    def make(calendar: int, year: int) -> sets.Year:
        return sets.on_days(days_in(year), fields.days_as_bits(year), times)

    def find(year: int, budget: sets.SearchBudget) -> sets.Year:
        if fields.years and year not in fields.years:
            return sets.EMPTY[days_in(year)]
        return make(fields.calendar(year), year)

    return sets.YearlySet(find, max(fields.years) + 2 if fields.years else 0)


@write_instead('CronTrigger(hour=9, minute=30, day_of_week="mon-fri")')
@dataclass(frozen=True, slots=True, init=False)
class CronTrigger(WallClockTrigger):
    """Fires whenever the clock of a time zone matches a cron expression.

    Five fields are minute, hour, day-of-month, month and day-of-week. Seven have a
    second in front and a year, from 1970 to 2099, at the end. Six are refused, since
    programs differ in what they mean. Each field is ``*`` or a list of numbers, ranges
    (``1-5``) and steps (``*/10``, ``5/10``, ``10-40/5``). Months and days of the week
    also have names (``JAN``, ``january``, ``Mon-Fri``), and Sunday is 0 or 7. The
    macros are ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``,
    ``@yearly`` and ``@annually``.

    The day fields have more forms. In day-of-month ``L`` is the last day, ``L-3`` the
    third day before it, ``15W`` the day from Monday to Friday that is nearest to the
    15th in the same month, and ``LW`` the last day from Monday to Friday. In
    day-of-week ``FRI#3`` or ``5#3`` is the third Friday of the month, and ``FRIL`` or
    ``5L`` the last one. A month without such a day is skipped. If both fields are
    restricted, one of them has to match. ``*`` and ``?`` are no restriction, but
    ``*/2`` is.

    Where the clocks change, a fixed time that is skipped fires once, at the end of the
    gap. A fixed time that occurs twice fires the first time (Debian's rule). ``gap``
    and ``overlap`` choose otherwise. If second, minute or hour starts with a ``*``, the
    trigger follows elapsed time: it fires in both of two repeated hours, and not for a
    skipped hour. A gap of three hours or more fires nothing.

    Fields may be given by their names instead: ``CronTrigger(hour=9, minute=30,
    day_of_week="mon-fri")`` is ``CronTrigger("30 9 * * mon-fri")``. A field that is not
    given is at its minimum if it is smaller than all given fields, and ``*`` otherwise:
    ``CronTrigger(day=1)`` fires when a month begins. Here days of the week are names
    only, as their numbers differ between cron and other schedulers. At most one of the
    two day fields may be restricted.

    Attributes:
        expression: The expression, with single spaces and in upper case; a macro in
            lower case.
        timezone: The zone's IANA name.
        gap: When a fixed local time fires that does not exist: ``next``, at the end of
            the gap, or ``skip``, not at all.
        overlap: When a fixed local time fires that occurs twice: the ``first`` time,
            the ``second`` or ``both``.

    Args:
        expression: At most 256 characters; None: it is made of the fields below.
        timezone: An IANA name, or a ``ZoneInfo`` that has one.
        year: A number, or a text as an expression has it there.
        month: A number, a name, or such a text.
        day: The day of the month: a number, or such a text, as ``"1,15"`` or ``"L"``.
        day_of_week: Names, as ``"mon-fri"``, ``"mon,thu"`` or ``"fri#2"``.
        hour: A number, or such a text, as ``"9-17"`` or ``"*/2"``.
        minute: Likewise.
        second: Likewise.
        gap: As above.
        overlap: As above.

    Raises:
        InvalidTriggerError: The expression or a field does not parse, no date matches,
            the time zone does not exist, or ``gap`` or ``overlap`` is wrong.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    timezone: str
    gap: str = field(default="next", kw_only=True)
    overlap: str = field(default="first", kw_only=True)

    def __init__(
        self,
        expression: str | None = None,
        timezone: str | ZoneInfo = "UTC",
        *,
        year: int | str | None = None,
        month: int | str | None = None,
        day: int | str | None = None,
        day_of_week: str | None = None,
        hour: int | str | None = None,
        minute: int | str | None = None,
        second: int | str | None = None,
        gap: str = "next",
        overlap: str = "first",
    ) -> None:
        text = normalise(
            expression_of(
                expression,
                year=year,
                month=month,
                day=day,
                day_of_week=day_of_week,
                hour=hour,
                minute=minute,
                second=second,
            )
        )
        parse(text)
        key = check_wall_clock(timezone, gap=gap, overlap=overlap)
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "timezone", key)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "overlap", overlap)

    def describe(self) -> str:
        """When it fires, in English, such as ``every weekday at 08:30``."""
        return describe_cron(parse(self.expression))

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warnings about mistakes that its author may have made, a sentence each.

        Args:
            now: When it is scheduled.
        """
        # A dataclass with slots is made anew, so that super() would not find its class.
        return (
            *cron_warnings(split(self.expression), parse(self.expression)),
            *WallClockTrigger.warnings(self, now),
            *(() if self.next_fire_time(now) else (NEVER_FROM_NOW_ON,)),
        )

    def _rule(self) -> tuple[Search, bool]:
        fields = parse(self.expression)
        return fields.search, fields.elapsed

    def _fire_times(self) -> sets.FireTimes:
        _, _, clock = self._reading()
        local = local_times(parse(self.expression))
        return sets.at_one_microsecond(sets.on_clock(local, clock))

    def _progression(self) -> Progression | None:
        if self.expression == "* * * * * * *":
            return Progression(0, SECOND)
        return None
