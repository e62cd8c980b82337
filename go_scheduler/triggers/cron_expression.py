"""Cron expressions: from text to fields, with an error that says what is wrong.

croniter expands the fields. Each item is checked first, and rewritten where croniter
reads it otherwise than this package does (``9-9``, ``7/2``, full names).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from croniter import croniter

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron_fields import CronFields

if TYPE_CHECKING:
    from collections.abc import Sequence

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

_MONTHS = (
    "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER"
    " DECEMBER"
)
_WEEKDAYS = "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY"
_ITEM = re.compile(r"(\*|[^-/*]+)(?:-([^-/*]+))?(?:/([^-/*]+))?")
_HASHED = re.compile(r"[HR](\(.*)?")
_SPECIAL_DAY = re.compile(r"[LW\d#]*[LW#][LW\d#]*|[A-Z]+#\d*")


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    names: dict[str, int]

    def allowed(self) -> str:
        highest = 7 if self.name == "day-of-week" else self.last
        return f"{self.first}–{highest}"


def _names(text: str, first: int) -> dict[str, int]:
    numbers = dict(enumerate(text.split(), first))
    return {
        spelling: number
        for number, name in numbers.items()
        for spelling in (name, name[:3])
    }


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day-of-month", 1, 31, {}),
    _Field("month", 1, 12, _names(_MONTHS, 1)),
    _Field("day-of-week", 0, 6, _names(_WEEKDAYS, 0)),
)
_ORDER = " ".join(field.name for field in _FIELDS)


class _RefusedError(Exception):
    """What is wrong with an expression, without the expression."""


def normalise(expression: object) -> str:
    """An expression as it is kept: single spaces, upper case, macros in lower case.

    Raises:
        InvalidTriggerError: It is not text, empty, too long, or not ASCII.
    """
    if not isinstance(expression, str):
        raise InvalidTriggerError(
            f"a cron expression must be text, not {expression!r:.200}"
        )
    if len(expression) > LONGEST:
        raise InvalidTriggerError(
            f"a cron expression has at most {LONGEST} characters, not"
            f" {len(expression)}: {expression[:40]!r}..."
        )
    if not expression.isascii():
        odd = next(each for each in expression if not each.isascii())
        raise InvalidTriggerError(
            f"cron expression {expression!r}: {odd!r} (U+{ord(odd):04X}) is not"
            " allowed; write plain ASCII"
        )
    text = " ".join(expression.split())
    return text.lower() if text.startswith("@") else text.upper()


@lru_cache(maxsize=4096)
def parse(text: str) -> CronFields:
    """The fields of a normalised expression.

    Raises:
        InvalidTriggerError: It is not one this package reads, or matches no date.
    """
    try:
        return _parse(text)
    except _RefusedError as error:
        raise InvalidTriggerError(f'cron expression "{text}": {error}') from None


def _parse(text: str) -> CronFields:
    parts = _split(text)
    items = [
        ",".join(_item(item, field) for item in part.split(","))
        for part, field in zip(parts, _FIELDS, strict=True)
    ]
    expanded = croniter.expand(" ".join(items))[0]
    minutes, hours, days_of_month, months, days_of_week = map(_bits, expanded, _FIELDS)
    fields = CronFields(
        minutes=minutes,
        hours=hours,
        days_of_month=days_of_month,
        months=months,
        days_of_week=days_of_week,
        either=all("*" not in part.split(",") for part in (parts[2], parts[4])),
        elapsed=parts[0].startswith("*") or parts[1].startswith("*"),
    )
    if not fields.ever_match():
        raise _RefusedError(
            f"it never fires: month {parts[3]} has no day-of-month {parts[2]}"
        )
    return fields


def _split(text: str) -> Sequence[str]:
    if text.startswith("@") and text not in MACROS:
        raise _RefusedError(f"it is none of {', '.join(MACROS)}")
    parts = MACROS.get(text, text).split()
    match len(parts):
        case 5:
            return parts
        case 0:
            raise _RefusedError(f"it is empty; write five fields: {_ORDER}")
        case 6:
            raise _RefusedError(
                "6 fields are read in different ways by different programs, and seconds"
                " and years are not supported: if the first field is seconds, write"
                f' "{" ".join(parts[1:])}"; if the last one is a year, write'
                f' "{" ".join(parts[:5])}"'
            )
        case 7:
            raise _RefusedError(
                "7 fields, with seconds and years, are not supported; write five:"
                f" {_ORDER}"
            )
        case count:
            raise _RefusedError(f"it has {count} fields; write five: {_ORDER}")


def _item(item: str, field: _Field) -> str:
    """One item of a list, in the only form that croniter is trusted with."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _RefusedError(
            f'{field.name} "{item}" cannot be read; write *, numbers in'
            f" {field.allowed()}, ranges such as 1-5, steps such as */2, or a list of"
            " these"
        )
    low_text, high_text, step_text = match.groups()
    step = 1 if step_text is None else _step(step_text, field)
    if low_text == "*":
        if high_text is not None:
            raise _RefusedError(f'{field.name} "{item}" mixes * with a range')
        return item
    low = _number(low_text, field)
    if high_text is not None:
        high = _number(high_text, field)
    else:
        high = low if step_text is None else max(low, field.last)
    if high < low:
        raise _RefusedError(_backwards(f"{low_text}-{high_text}", low, high, field))
    return str(low) if low == high else f"{low}-{high}/{step}"


def _step(text: str, field: _Field) -> int:
    most = field.last - field.first + 1
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise _RefusedError(
            f'{field.name} has the step "{text}", which is not a number in 1–{most}'
        )
    return int(text)


def _number(text: str, field: _Field) -> int:
    if (named := field.names.get(text)) is not None:
        return named
    if not text.isdigit():
        raise _RefusedError(_unreadable(text, field))
    number = int(text)
    if not field.first <= number <= (7 if field.name == "day-of-week" else field.last):
        raise _RefusedError(f"{field.name} {text} is not in {field.allowed()}")
    return number


def _unreadable(text: str, field: _Field) -> str:
    what = f'{field.name} "{text}"'
    if "?" in text:
        return f"{what}: ? is not supported; write *"
    if _HASHED.fullmatch(text):
        return (
            f"{what}: H and R, which stand for any time, are not supported: every node"
            " must compute the same times"
        )
    if field.name.startswith("day") and _SPECIAL_DAY.fullmatch(text):
        return f"{what}: L, W and # are not supported"
    if not field.names:
        return f"{what} is not a number in {field.allowed()}"
    long = max(field.names, key=len)
    return (
        f"{what} is neither a number in {field.allowed()} nor a name such as {long[:3]}"
        f" or {long}"
    )


def _backwards(text: str, low: int, high: int, field: _Field) -> str:
    if field.name == "day-of-week" and high == 0:
        return f"{field.name} {text} runs backwards; Sunday is also 7: write {low}-7"
    return (
        f"{field.name} {text} runs backwards; write"
        f" {low}-{field.last},{field.first}-{high}"
    )


def _bits(values: Sequence[int | str], field: _Field) -> int:
    if "*" in values:
        values = range(field.first, field.last + 1)
    return sum(1 << int(value) for value in set(values))
