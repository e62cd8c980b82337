"""Cron expressions: from text to fields, with an error that says what is wrong."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown
from go_scheduler.triggers.cron.cron_days import CronDays
from go_scheduler.triggers.cron.cron_search import CronSearch
from go_scheduler.triggers.cron.fields import CronFields
from go_scheduler.triggers.cron.items import (
    FIELDS,
    Field,
    is_any,
    plain_numbers,
    special_day,
)
from go_scheduler.triggers.refused import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from go_scheduler.triggers.cron.cron_days import SpecialDay

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
