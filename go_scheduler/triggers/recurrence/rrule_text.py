"""The parts of an RRULE as text: what each may be, and the error if it is not."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.shown import shown
from go_scheduler.triggers.recurrence.recurrence_rule import (
    FREQUENCIES,
    RecurrenceRule,
    Weekday,
)
from go_scheduler.triggers.refused import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_TIMES = 100_000
"""The highest COUNT."""

_HUNDRED_YEARS = {
    "YEARLY": 100,
    "MONTHLY": 1200,
    "WEEKLY": 5218,
    "DAILY": 36_525,
    "HOURLY": 876_600,
    "MINUTELY": 52_596_000,
    "SECONDLY": 3_155_760_000,
}
WEEKDAY_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NUMBER = re.compile(r"[+-]?\d{1,10}")
_WEEKDAY = re.compile(rf"([+-]?\d{{1,10}})?({'|'.join(WEEKDAY_CODES)})")
_MOMENT = re.compile(r"\d{8}(T(?!24)\d{6}Z?)?")


class _Range(NamedTuple):
    """The numbers that a part may list.

    Attributes:
        first: The lowest.
        last: The highest.
        from_end: Whether each may also be negative, and then counts from the end.
    """

    first: int
    last: int
    from_end: bool = False

    def has(self, number: int) -> bool:
        return self.first <= (abs(number) if self.from_end else number) <= self.last

    def __str__(self) -> str:
        if not self.from_end:
            return f"{self.first}–{self.last}"
        return f"{self.first}–{self.last}, or -{self.last} to -{self.first}"


_RANGES: Mapping[str, _Range] = {
    "BYMONTH": _Range(1, 12),
    "BYWEEKNO": _Range(1, 53, from_end=True),
    "BYYEARDAY": _Range(1, 366, from_end=True),
    "BYMONTHDAY": _Range(1, 31, from_end=True),
    # Those that are in the year of Easter Sunday, whatever the year.
    "BYEASTER": _Range(-80, 250),
    "BYHOUR": _Range(0, 23),
    "BYMINUTE": _Range(0, 59),
    "BYSECOND": _Range(0, 59),
    "BYSETPOS": _Range(1, 366, from_end=True),
}
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)


def read_rule(text: str, until: Callable[[date], datetime]) -> RecurrenceRule:
    """The rule that the text of an RRULE stands for.

    Args:
        text: What follows the colon, in capitals.
        until: The instant that a local time, or the end of a date, stands for.

    Raises:
        RefusedError: It is no rule that RFC 5545 allows and that can ever fire.
    """
    parts = _split(text)
    frequency = _frequency(parts)
    _check_combination(frequency, parts)
    return RecurrenceRule(
        frequency=frequency,
        interval=_number(parts, "INTERVAL", _HUNDRED_YEARS[frequency]) or 1,
        count=_number(parts, "COUNT", MOST_TIMES),
        until=until(read_moment("UNTIL", parts["UNTIL"])) if "UNTIL" in parts else None,
        week_start=_week_start(parts),
        months=_numbers(parts, "BYMONTH"),
        weeks=_numbers(parts, "BYWEEKNO"),
        year_days=_numbers(parts, "BYYEARDAY"),
        month_days=_numbers(parts, "BYMONTHDAY"),
        weekdays=_weekdays(frequency, parts),
        easter_days=_numbers(parts, "BYEASTER"),
        hours=_numbers(parts, "BYHOUR"),
        minutes=_numbers(parts, "BYMINUTE"),
        seconds=_numbers(parts, "BYSECOND"),
        positions=_numbers(parts, "BYSETPOS"),
    )


def write_rule(rule: RecurrenceRule) -> str:
    """The text of an RRULE, in one of the many ways that mean the same."""
    parts = {
        "FREQ": rule.frequency,
        "INTERVAL": str(rule.interval) if rule.interval > 1 else "",
        "COUNT": str(rule.count) if rule.count else "",
        "UNTIL": write_moment(rule.until) if rule.until else "",
        "WKST": WEEKDAY_CODES[rule.week_start] if rule.week_start else "",
        "BYMONTH": _listed(rule.months),
        "BYWEEKNO": _listed(rule.weeks),
        "BYYEARDAY": _listed(rule.year_days),
        "BYMONTHDAY": _listed(rule.month_days),
        "BYDAY": ",".join(
            f"{each.ordinal or ''}{WEEKDAY_CODES[each.day]}" for each in rule.weekdays
        ),
        "BYEASTER": _listed(rule.easter_days),
        "BYHOUR": _listed(rule.hours),
        "BYMINUTE": _listed(rule.minutes),
        "BYSECOND": _listed(rule.seconds),
        "BYSETPOS": _listed(rule.positions),
    }
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def read_moment(name: str, text: str) -> date:
    """A date, a local time, which is naive, or an instant, which is in UTC.

    Args:
        name: What it is called in errors.
        text: As RFC 5545 writes it, such as ``20250121T093400Z``.

    Raises:
        RefusedError: It is none of these, or does not exist.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise RefusedError(
            f"{name} {shown(text)} is neither a date such as 20250121 nor a time such"
            " as 20250121T093400, in UTC with a Z at the end"
        )
    try:
        # The formats of ISO 8601 without separators, which RFC 5545 uses, too.
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise RefusedError(f"{name} {text} does not exist: {error}") from None
    return moment if match.group(1) else moment.date()


def write_moment(moment: date) -> str:
    """A date, a local time or an instant, as RFC 5545 writes it."""
    text = moment.isoformat().removesuffix("+00:00").replace("-", "").replace(":", "")
    is_instant = isinstance(moment, datetime) and moment.tzinfo is not None
    return f"{text}Z" if is_instant else text


def _split(text: str) -> Mapping[str, str]:
    parts: dict[str, str] = {}
    for each in text.split(";"):
        name, equals, value = (part.strip() for part in each.partition("="))
        if not equals or not value:
            raise RefusedError(
                f"{shown(each)} is no part of a rule; write NAME=VALUE, separated by"
                " semicolons, such as FREQ=WEEKLY;BYDAY=TU"
            )
        if name not in _PARTS:
            raise RefusedError(
                f"there is no part {shown(name)}; the parts are {', '.join(_PARTS)}"
            )
        if name in parts:
            raise RefusedError(f"{name} is given twice; write its values as one list")
        parts[name] = value
    return parts


def _frequency(parts: Mapping[str, str]) -> str:
    frequency = parts.get("FREQ")
    if frequency is None:
        raise RefusedError(
            f"FREQ is missing; add FREQ=DAILY, or one of {', '.join(FREQUENCIES)}"
        )
    if frequency not in FREQUENCIES:
        raise RefusedError(
            f"FREQ {shown(frequency)} is none of {', '.join(FREQUENCIES)}"
        )
    return frequency


def _check_combination(frequency: str, parts: Mapping[str, str]) -> None:
    """Refuse what RFC 5545 says must not be combined."""
    if "COUNT" in parts and "UNTIL" in parts:
        raise RefusedError("COUNT and UNTIL are both given; keep one of them")
    for name, allowed, instead in (
        ("BYWEEKNO", ("YEARLY",), "YEARLY"),
        ("BYYEARDAY", ("YEARLY", *FREQUENCIES[4:]), "YEARLY"),
        (
            "BYMONTHDAY",
            tuple(each for each in FREQUENCIES if each != "WEEKLY"),
            "DAILY",
        ),
    ):
        if name in parts and frequency not in allowed:
            raise RefusedError(
                f"{name} must not be combined with FREQ={frequency}; it may be with"
                f" FREQ={instead}"
            )
    if "BYSETPOS" in parts and not any(
        name.startswith("BY") and name != "BYSETPOS" for name in parts
    ):
        raise RefusedError("BYSETPOS picks from what other BY… parts list; add one")


def _number(parts: Mapping[str, str], name: str, most: int) -> int | None:
    return _read(name, parts[name], _Range(1, most)) if name in parts else None


def _numbers(parts: Mapping[str, str], name: str) -> tuple[int, ...]:
    if name not in parts:
        return ()
    allowed = _RANGES[name]
    numbers = {_read(name, each, allowed) for each in _items(parts[name])}
    # Those that count from the end come last.
    return tuple(
        sorted(numbers, key=lambda each: (allowed.from_end and each < 0, each))
    )


def _weekdays(frequency: str, parts: Mapping[str, str]) -> tuple[Weekday, ...]:
    if "BYDAY" not in parts:
        return ()
    weekdays = set()
    for each in _items(parts["BYDAY"]):
        match = _WEEKDAY.fullmatch(each)
        if match is None:
            raise RefusedError(
                f"BYDAY {shown(each)} is none of {', '.join(WEEKDAY_CODES)}, nor one of"
                " these with a number before, such as 2TU or -1FR"
            )
        number, day = match.groups()
        if number is not None:
            _check_ordinals(frequency, parts, each)
        by_month = frequency == "MONTHLY" or "BYMONTH" in parts
        allowed = _Range(1, 5 if by_month else 53, from_end=True)
        ordinal = 0 if number is None else _read(f"BYDAY {each}:", number, allowed)
        weekdays.add(Weekday(WEEKDAY_CODES.index(day), ordinal))
    return tuple(sorted(weekdays, key=lambda each: (each.ordinal < 0, each)))


def _check_ordinals(frequency: str, parts: Mapping[str, str], item: str) -> None:
    if frequency not in FREQUENCIES[:2]:
        raise RefusedError(
            f"BYDAY {item} needs FREQ=MONTHLY or FREQ=YEARLY; with FREQ={frequency},"
            f" write {item[-2:]}"
        )
    if "BYWEEKNO" in parts:
        raise RefusedError(f"with BYWEEKNO, write {item[-2:]} in BYDAY, not {item}")


def _week_start(parts: Mapping[str, str]) -> int:
    day = parts.get("WKST", "MO")
    if day not in WEEKDAY_CODES:
        raise RefusedError(f"WKST {shown(day)} is none of {', '.join(WEEKDAY_CODES)}")
    return WEEKDAY_CODES.index(day)


def _items(text: str) -> Sequence[str]:
    return [each.strip() for each in text.split(",")]


def _read(name: str, text: str, allowed: _Range) -> int:
    if not _NUMBER.fullmatch(text) or not allowed.has(int(text)):
        raise RefusedError(f"{name} {shown(text)} is not a number in {allowed}")
    return int(text)


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
