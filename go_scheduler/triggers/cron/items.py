"""The items that the fields of a cron expression list, and what is wrong with one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.cron.cron_days import LastDay, NearestWeekday, NthWeekday
from go_scheduler.triggers.refused import RefusedError
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.triggers.cron.cron_days import SpecialDay

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
