"""Cron expressions: from text to fields, with an error that says what is wrong."""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import isleap
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, timedelta
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.times import MONTH_LENGTHS
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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
        by_month = self.of_month | _special_days(self.special_of_month, month)
        by_week = self.of_week * _WEEKS >> month.first_weekday << 1
        by_week |= _special_days(self.special_of_week, month)
        days = by_week | by_month if self.either else by_week & by_month
        return days & ((2 << month.length) - 2)


def _special_days(special: tuple[SpecialDay, ...], month: Month) -> int:
    bits = 0
    for each in special:
        bits |= 1 << max(each.day(month), 0)
    return bits


_MOST_TIMES = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """The fields of a cron expression; each set of numbers is the bits of an int.

    Attributes:
        seconds: Seconds of the minute.
        minutes: Minutes of the hour.
        hours: Hours of the day.
        days: Days of the month and of the week.
        months: Months of the year.
        years: Years; empty if any will do.
        elapsed: Whether it follows elapsed time where the clocks change.
    """

    seconds: int
    minutes: int
    hours: int
    days: CronDays
    months: int
    years: frozenset[int]
    elapsed: bool

    def times_of_day(self) -> Sequence[timedelta]:
        """The times of day that match, in order; none if they are more than 1,440."""
        return _times_of_day(self.hours, self.minutes, self.seconds)


def numbers(bits: int) -> Sequence[int]:
    """The numbers that the bits of an int stand for, in order."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


@lru_cache(maxsize=256)
def _times_of_day(hours: int, minutes: int, seconds: int) -> Sequence[timedelta]:
    if prod(map(int.bit_count, (hours, minutes, seconds))) > _MOST_TIMES:
        return ()
    return tuple(
        timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in numbers(hours)
        for minute in numbers(minutes)
        for second in numbers(seconds)
    )


# A year has one of fourteen calendars: by the day of the week it begins with, and leap
# or not. They recur every 400 years.
_CALENDARS = tuple(
    7 * isleap(year) + date(year, 1, 1).isoweekday() % 7 for year in range(2000, 2400)
)
# The days of a year are numbered as if each month had so many, which tells the month.
_MONTH = 32


class CronSearch:
    """Finds the local times that match, in a bounded number of steps.

    Args:
        fields: What to match.
    """

    __slots__ = (
        "_days",
        "_fields",
        "_first_time",
        "_hours",
        "_last_year",
        "_minutes",
        "_seconds",
    )

    def __init__(self, fields: CronFields) -> None:
        self._fields = fields
        self._last_year = max(fields.years, default=MAXYEAR)
        self._seconds = _following(fields.seconds, 60)
        self._minutes = _following(fields.minutes, 60)
        self._hours = _following(fields.hours, 24)
        self._first_time = self._hours[0], self._minutes[0], self._seconds[0]
        self._days: dict[int, Sequence[int]] = {}

    def __call__(self, start: datetime) -> datetime | None:
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

    def ever_matches(self) -> bool:
        """Whether any date matches."""
        return any(map(self._days_of, self._fields.years or range(2000, 2400)))

    def _time(self, start: datetime) -> tuple[int, int, int]:
        """The first time of day that matches from one on; hour -1 if there is none."""
        hour, minute = start.hour, start.minute
        second = self._seconds[start.second + (start.microsecond > 0)]
        if second < 0:
            minute += 1
        found = self._minutes[minute]
        if found < 0:
            hour += 1
        if self._hours[hour] != hour:
            return self._hours[hour], self._first_time[1], self._first_time[2]
        if found != start.minute:
            second = self._first_time[2]
        return hour, found if found >= 0 else self._first_time[1], second

    def _days_of(self, year: int) -> Sequence[int]:
        """The days of a year that match, by their numbers."""
        if self._fields.years and year not in self._fields.years:
            return ()
        calendar = self.calendar(year)
        days = self._days.get(calendar)
        if days is None:
            days = self._days[calendar] = tuple(self._days_by(calendar))
        return days

    def _days_by(self, calendar: int) -> Iterator[int]:
        leap, weekday = divmod(calendar, 7)
        for number, length in enumerate(MONTH_LENGTHS, start=1):
            month = Month(weekday, length + leap * (number == 2))
            if self._fields.months >> number & 1:
                for day in numbers(self._fields.days.within(month)):
                    yield number * _MONTH + day
            weekday = month.weekday(month.length + 1)


def _following(numbers: int, size: int) -> Sequence[int]:
    """For each number up to the size, the first of a set from it on; -1: none."""
    following = [-1] * (size + 1)
    for number in reversed(range(size)):
        following[number] = number if numbers >> number & 1 else following[number + 1]
    return tuple(following)


_ITEM = re.compile(r"(\*|[^-/*]+)(?:-([^-/*]+))?(?:/([^-/*]+))?")
_HASHED = re.compile(r"[HR](\(.*)?")
_LONGEST_MONTH = 31


class Field(NamedTuple):
    """One of the fields of a cron expression.

    Attributes:
        name: What it is called in errors.
        first: Its lowest number.
        last: Its highest number; 6 for day-of-week, which reads 7 as 0.
        names: Names that stand for numbers.
    """

    name: str
    first: int
    last: int
    names: Mapping[str, int]

    def highest(self) -> int:
        """The highest number that may be written."""
        return 7 if self.name == "day-of-week" else self.last

    def allowed(self) -> str:
        """The numbers that may be written."""
        return f"{self.first}–{self.highest()}"


def _names(words: Sequence[str], first: int) -> Mapping[str, int]:
    return {
        spelling: number
        for number, word in enumerate(words, first)
        for spelling in (word.upper(), word[:3].upper())
    }


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("second", 0, 59, {}),
        Field("minute", 0, 59, {}),
        Field("hour", 0, 23, {}),
        Field("day-of-month", 1, _LONGEST_MONTH, {}),
        Field("month", 1, 12, _names(MONTHS, 1)),
        Field("day-of-week", 0, 6, _names((WEEKDAYS[6], *WEEKDAYS[:6]), 0)),
        Field("year", 1970, 2099, {}),
    )
}


def is_any(text: str) -> bool:
    """Whether a field is no restriction: only ``*`` and ``?`` are none."""
    return text == "?" or "*" in text.split(",")


def special_day(item: str, field: Field) -> SpecialDay | None:
    """The day that an item with ``L``, ``W`` or ``#`` means; None for any other item.

    Raises:
        RefusedError: It has one of them, but cannot be read.
    """
    if field.name == "day-of-month":
        return _special_day_of_month(item, field)
    if field.name == "day-of-week":
        return _special_day_of_week(item, field)
    return None


def plain_numbers(item: str, field: Field) -> Sequence[int]:
    """The numbers that an item without ``L``, ``W`` and ``#`` stands for.

    Raises:
        RefusedError: It is no ``*``, number, name, range or step of this field.
    """
    match = _ITEM.fullmatch(item)
    if match is None:
        raise RefusedError(
            f'{field.name} "{item}" cannot be read; write *, numbers in'
            f" {field.allowed()}, ranges such as"
            f" {field.first or 1}-{field.first + 5}, steps such as */2, or a list of"
            " these"
        )
    low_text, high_text, step_text = match.groups()
    step = 1 if step_text is None else _step(step_text, field)
    if low_text == "*":
        if high_text is not None:
            raise RefusedError(f'{field.name} "{item}" mixes * with a range')
        return range(field.first, field.last + 1, step)
    low = _number(low_text, field)
    if high_text is not None:
        high = _number(high_text, field)
        if low > high == 0 and high_text in field.names:
            high = field.highest()  # Fri-Sun: at its end a week's Sunday is 7
    else:
        high = low if step_text is None else max(low, field.last)
    if high < low:
        raise RefusedError(_backwards(f"{low_text}-{high_text}", low, high, field))
    # Sunday is 7 as well as 0.
    numbers = range(low, high + 1, step)
    return [field.first if each > field.last else each for each in numbers]


def _special_day_of_month(item: str, field: Field) -> SpecialDay | None:
    if item == "LW":
        return NearestWeekday(None)
    if item == "L":
        return LastDay(0)
    if item.startswith("L-"):
        before = item[2:]
        if not before.isdigit() or not 1 <= int(before) < _LONGEST_MONTH:
            raise RefusedError(
                f'{field.name} "{item}": after L- write how many days before the last'
                f" one, in 1–{_LONGEST_MONTH - 1}"
            )
        return LastDay(int(before))
    if item.endswith("W") and item != "W":
        if not item[:-1].isdigit():
            raise RefusedError(
                f'{field.name} "{item}": before W write one number in'
                f" {field.allowed()}, as in 15W, or L"
            )
        return NearestWeekday(_number(item[:-1], field))
    return None


def _special_day_of_week(item: str, field: Field) -> SpecialDay | None:
    weekday, hash_sign, nth = item.partition("#")
    if hash_sign:
        if nth not in ("1", "2", "3", "4", "5"):
            raise RefusedError(
                f'{field.name} "{item}": after # write which one of the month, in 1–5,'
                " as in FRI#3; the last one is FRIL"
            )
        return NthWeekday(_weekday(weekday, item, field), int(nth))
    if item.endswith("L") and item != "L":
        return NthWeekday(_weekday(item[:-1], item, field), None)
    return None


def _weekday(text: str, item: str, field: Field) -> int:
    if not text.isdigit() and text not in field.names:
        raise RefusedError(_unreadable(item, field))
    return _number(text, field) % 7


def _step(text: str, field: Field) -> int:
    most = field.last - field.first + 1
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise RefusedError(
            f'{field.name} has the step "{text}", which is not a number in 1–{most}'
        )
    return int(text)


def _number(text: str, field: Field) -> int:
    if (named := field.names.get(text)) is not None:
        return named
    if not text.isdigit():
        raise RefusedError(_unreadable(text, field))
    number = int(text)
    if not field.first <= number <= field.highest():
        raise RefusedError(f"{field.name} {text} is not in {field.allowed()}")
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
    if (hint := _hint(text, field)) is not None:
        return f"{what}: {hint}"
    if not field.names:
        return f"{what} is not a number in {field.allowed()}"
    long = max(field.names, key=len)
    return (
        f"{what} is neither a number in {field.allowed()} nor a name such as {long[:3]}"
        f" or {long}"
    )


def _hint(text: str, field: Field) -> str | None:
    """Where ``L``, ``W`` and ``#`` belong, if that is what is wrong."""
    if not re.fullmatch(r"[LW#\d]*[LW#][LW#\d]*|[A-Z]{3,9}#.*", text):
        return None
    if field.name == "day-of-month":
        return "write L for the last day, L-3, LW or 15W; # goes to day-of-week"
    if field.name == "day-of-week":
        return (
            "write 5L or FRIL for the last friday, FRI#3 for the third; W, LW and a"
            " bare L go to day-of-month"
        )
    return "L, W and # go to day-of-month and day-of-week"


def _backwards(text: str, low: int, high: int, field: Field) -> str:
    if field.name == "day-of-week" and high == 0:
        return f"{field.name} {text} runs backwards; Sunday is also 7: write {low}-7"
    if field.name == "day-of-week" and text.replace("-", "").isalpha():
        begin, _, end = text.partition("-")
        return f"{field.name} {text} runs backwards; write {begin}-SUN,MON-{end}"
    if field.name == "year":
        return f"{field.name} {text} runs backwards; write {high}-{low}"
    return (
        f"{field.name} {text} runs backwards; write"
        f" {low}-{field.last},{field.first}-{high}"
    )


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
        InvalidTriggerError: It is not text, empty, too long, or not ASCII.
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
    odd = next((each for each in expression if not _is_plain(each)), None)
    if odd is not None:
        raise InvalidTriggerError(
            f"cron expression {shown(expression)}: {odd!r} (U+{ord(odd):04X}) is not"
            " allowed; write plain ASCII"
        )
    text = " ".join(expression.split())
    return text.lower() if text.startswith("@") else text.upper()


def _is_plain(character: str) -> bool:
    return character.isascii() and (character.isprintable() or character.isspace())


@lru_cache(maxsize=4096)
def parse(text: str) -> CronFields:
    """The fields of a normalised expression.

    Raises:
        InvalidTriggerError: It is not one this package reads, or matches no date.
    """
    try:
        return _parse(split(text))
    except RefusedError as error:
        raise InvalidTriggerError(f'cron expression "{text}": {error}') from None


@lru_cache(maxsize=4096)
def search(text: str) -> CronSearch:
    """The search for the times that a normalised expression matches.

    Raises:
        InvalidTriggerError: It is not one this package reads, or matches no date.
    """
    return CronSearch(parse(text))


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
            raise RefusedError(_readings(parts))
        case count:
            raise RefusedError(
                f"it has {count} field{'s' if count > 1 else ''}; write five: {_FIVE};"
                f" or seven: {_SEVEN}"
            )
    return dict(zip(_SEVEN.split(), parts, strict=True))


def _parse(texts: Mapping[str, str]) -> CronFields:
    special: dict[str, tuple[SpecialDay, ...]] = {}
    numbers: dict[str, Collection[int]] = {}
    for name, text in texts.items():
        numbers[name], special[name] = _items(text, FIELDS[name])
    day_texts = texts["day-of-month"], texts["day-of-week"]
    fields = CronFields(
        seconds=_bits(numbers["second"]),
        minutes=_bits(numbers["minute"]),
        hours=_bits(numbers["hour"]),
        days=CronDays(
            of_month=_bits(numbers["day-of-month"]),
            special_of_month=special["day-of-month"],
            of_week=_bits(numbers["day-of-week"]),
            special_of_week=special["day-of-week"],
            either=not any(map(is_any, day_texts)),
        ),
        months=_bits(numbers["month"]),
        years=frozenset(() if is_any(texts["year"]) else numbers["year"]),
        elapsed=any(texts[each][0] == "*" for each in ("second", "minute", "hour")),
    )
    if not CronSearch(fields).ever_matches():
        raise RefusedError(_never(texts))
    return fields


def _items(text: str, field: Field) -> tuple[Collection[int], tuple[SpecialDay, ...]]:
    """The numbers and the special days that a field lists."""
    if text == "?" and field.name.startswith("day"):
        text = "*"
    numbers: set[int] = set()
    special = []
    for item in text.split(","):
        if (day := special_day(item, field)) is not None:
            special.append(day)
        else:
            numbers.update(plain_numbers(item, field))
    return numbers, tuple(special)


def _bits(numbers: Collection[int]) -> int:
    return sum(1 << number for number in numbers)


def _readings(parts: Sequence[str]) -> str:
    """The readings of six fields that are possible, to be written instead."""
    text = " ".join(parts)
    readings = {
        "if the first field is the second": f"{text} *",
        "if the last one is the year": f"0 {text}",
        "if the last one is the second": " ".join([parts[5], *parts[:5], "*"]),
    }
    possible = [
        f'{reading}, write "{seven}"'
        for reading, seven in readings.items()
        if _is_read(seven)
    ]
    return "; ".join(
        ["6 fields are read in different ways by different programs", *possible]
        if possible
        else [f"6 fields are not read; write five: {_FIVE}; or seven: {_SEVEN}"]
    )


def _is_read(text: str) -> bool:
    try:
        parse(text)
    except InvalidTriggerError:
        return False
    return True


def _never(texts: Mapping[str, str]) -> str:
    restricted = [
        f"{name} {texts[name]}"
        for name in ("day-of-month", "month", "day-of-week", "year")
        if not is_any(texts[name])
    ]
    return f"it never fires: there is no date with {', '.join(restricted)}"


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
    if expression is None:
        if not texts:
            raise InvalidTriggerError(
                'a cron trigger needs an expression, such as "30 9 * * Mon-Fri", or'
                " fields, such as hour=9, minute=30"
            )
        return _joined(texts)
    if texts:
        raise InvalidTriggerError(
            f"the expression {shown(expression)} and {next(iter(texts))}= say the same:"
            " pass one of them"
        )
    return expression


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


def _joined(texts: Mapping[str, str]) -> str:
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
