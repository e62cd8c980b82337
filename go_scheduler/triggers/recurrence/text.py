"""Recurrence sets as RFC 5545 text: from lines to values and back.

dateutil is not given the text, as it takes nearly anything for a date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import RefusedError, utc
from go_scheduler.triggers.local_time import local_time, period_at
from go_scheduler.triggers.recurrence.rule import (
    FREQUENCIES,
    RecurrenceRule,
    Weekday,
)
from go_scheduler.triggers.zones import load_zone, zone_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
    """The numbers of a part; ``from_end``: negative numbers count from the end."""

    first: int
    last: int
    from_end: bool = False

    def read(self, name: str, text: str) -> int:
        number = int(text) if _NUMBER.fullmatch(text) else None
        distance = abs(number) if number is not None and self.from_end else number
        if number is None or distance not in range(self.first, self.last + 1):
            allowed = f"{self.first}–{self.last}"
            if self.from_end:
                allowed += f", or -{self.last} to -{self.first}"
            raise RefusedError(f"{name} {shown(text)} is not a number in {allowed}")
        return number


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
_LISTS = {
    "BYMONTH": "months",
    "BYWEEKNO": "weeks",
    "BYYEARDAY": "year_days",
    "BYMONTHDAY": "month_days",
    "BYDAY": "weekdays",
    "BYEASTER": "easter_days",
    "BYHOUR": "hours",
    "BYMINUTE": "minutes",
    "BYSECOND": "seconds",
    "BYSETPOS": "positions",
}
"""The attribute of a rule for each part that is a list, in the order of the text."""


def read_rule(text: str, until: Callable[[date], datetime]) -> RecurrenceRule:
    """The rule that the text of an RRULE stands for.

    Args:
        text: What follows the colon, in capitals.
        until: The instant that a local time, or the end of a date, stands for.

    Raises:
        RefusedError: It is no rule that RFC 5545 allows.
    """
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
    frequency = parts.get("FREQ")
    if frequency is None:
        raise RefusedError(
            f"FREQ is missing; add FREQ=DAILY, or one of {', '.join(FREQUENCIES)}"
        )
    if frequency not in FREQUENCIES:
        raise RefusedError(
            f"FREQ {shown(frequency)} is none of {', '.join(FREQUENCIES)}"
        )
    _check_combination(frequency, parts)
    bounds = {"INTERVAL": _HUNDRED_YEARS[frequency], "COUNT": MOST_TIMES}
    interval, count = (
        _Range(1, most).read(name, parts[name]) if name in parts else None
        for name, most in bounds.items()
    )
    end = until(read_moment("UNTIL", parts["UNTIL"])) if "UNTIL" in parts else None
    week_start = parts.get("WKST", "MO")
    if week_start not in WEEKDAY_CODES:
        raise RefusedError(
            f"WKST {shown(week_start)} is none of {', '.join(WEEKDAY_CODES)}"
        )
    lists: dict[str, tuple[Any, ...]] = {
        attribute: _weekdays(frequency, parts)
        if name == "BYDAY"
        else _numbers(name, parts[name])
        for name, attribute in _LISTS.items()
        if name in parts
    }
    return RecurrenceRule(
        frequency=frequency,
        interval=interval or 1,
        count=count,
        until=end,
        week_start=WEEKDAY_CODES.index(week_start),
        **lists,
    )


def _check_combination(frequency: str, parts: Mapping[str, str]) -> None:
    """Refuse what RFC 5545 says must not be combined."""
    if "COUNT" in parts and "UNTIL" in parts:
        raise RefusedError("COUNT and UNTIL are both given; keep one of them")
    for name, refused, instead in (
        ("BYWEEKNO", FREQUENCIES[1:], "YEARLY"),
        ("BYYEARDAY", FREQUENCIES[1:4], "YEARLY"),
        ("BYMONTHDAY", ("WEEKLY",), "DAILY"),
    ):
        if name in parts and frequency in refused:
            raise RefusedError(
                f"{name} must not be combined with FREQ={frequency}; it may be with"
                f" FREQ={instead}"
            )
    if "BYSETPOS" in parts and not any(
        name.startswith("BY") and name != "BYSETPOS" for name in parts
    ):
        raise RefusedError("BYSETPOS picks from what other BY… parts list; add one")


def _numbers(name: str, text: str) -> tuple[int, ...]:
    allowed = _RANGES[name]
    numbers = {allowed.read(name, each.strip()) for each in text.split(",")}
    # Those that count from the end come last.
    return tuple(
        sorted(numbers, key=lambda each: (allowed.from_end and each < 0, each))
    )


def _weekdays(frequency: str, parts: Mapping[str, str]) -> tuple[Weekday, ...]:
    by_month = frequency == "MONTHLY" or "BYMONTH" in parts
    allowed = _Range(1, 5 if by_month else 53, from_end=True)
    weekdays = set()
    for each in map(str.strip, parts["BYDAY"].split(",")):
        match = _WEEKDAY.fullmatch(each)
        if match is None:
            raise RefusedError(
                f"BYDAY {shown(each)} is none of {', '.join(WEEKDAY_CODES)}, nor one of"
                " these with a number before, such as 2TU or -1FR"
            )
        number, day = match.groups()
        ordinal = 0
        if number is not None:
            if frequency not in FREQUENCIES[:2]:
                raise RefusedError(
                    f"BYDAY {each} needs FREQ=MONTHLY or FREQ=YEARLY; with"
                    f" FREQ={frequency}, write {day}"
                )
            if "BYWEEKNO" in parts:
                raise RefusedError(f"with BYWEEKNO, write {day} in BYDAY, not {each}")
            ordinal = allowed.read(f"BYDAY {each}:", number)
        weekdays.add(Weekday(WEEKDAY_CODES.index(day), ordinal))
    return tuple(sorted(weekdays, key=lambda each: (each.ordinal < 0, each)))


def write_rule(rule: RecurrenceRule) -> str:
    """The text of an RRULE, in one of the many ways that mean the same."""
    parts: dict[str, object] = {
        "FREQ": rule.frequency,
        "INTERVAL": rule.interval if rule.interval > 1 else None,
        "COUNT": rule.count,
        "UNTIL": rule.until and write_moment(rule.until),
        "WKST": rule.week_start and WEEKDAY_CODES[rule.week_start],
    }
    for name, attribute in _LISTS.items():
        parts[name] = ",".join(
            str(each)
            if isinstance(each, int)
            else f"{each.ordinal or ''}{WEEKDAY_CODES[each.day]}"
            for each in getattr(rule, attribute)
        )
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
    return f"{text}Z" if _kind(moment) == "instant" else text


LONGEST = 16_384
"""The most characters that the text of a recurrence may have."""

_MOST_RULES = 10
_PARAMETERS = {
    "DTSTART": ("TZID", "VALUE"),
    "RRULE": (),
    "RDATE": ("TZID", "VALUE"),
    "EXDATE": ("TZID", "VALUE"),
}
_ODD = re.compile(r"[^\t\n\r -~]")
_NEWLINE = re.compile(r"\r\n|\r")
_FOLD = re.compile(r"\n[ \t]")
_LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A recurrence set. Local times are naive; instants are in UTC.

    Attributes:
        timezone: Where the local times are read; if it is UTC, there are no instants.
        start: DTSTART, as a local time; None: when it is first scheduled.
        rules: Each RRULE.
        dates: Each RDATE, a local time or an instant.
        exceptions: Each EXDATE, likewise; a date stands for the whole day.
    """

    timezone: str
    start: datetime | None
    rules: tuple[RecurrenceRule, ...]
    dates: tuple[datetime, ...]
    exceptions: tuple[date, ...]

    def text(self) -> str:
        """The set as RFC 5545 text: a line for each property, not folded."""
        lines = [] if self.start is None else [self._line("DTSTART", [self.start])]
        lines += [f"RRULE:{write_rule(rule)}" for rule in self.rules]
        for name, moments in (("RDATE", self.dates), ("EXDATE", self.exceptions)):
            groups: dict[str, list[date]] = {}
            for moment in moments:
                groups.setdefault(_kind(moment), []).append(moment)
            lines += [self._line(name, group) for group in groups.values()]
        return "\n".join(lines)

    def _line(self, name: str, moments: Sequence[date]) -> str:
        texts = list(map(write_moment, moments))
        match _kind(moments[0]):
            case "date":
                name += ";VALUE=DATE"
            case "local" if self.timezone == "UTC":
                texts = [f"{text}Z" for text in texts]
            case "local":
                name += f";TZID={self.timezone}"
        return f"{name}:{','.join(texts)}"


class _Line(NamedTuple):
    """A property, in capitals but for the values of its parameters."""

    name: str
    parameters: Mapping[str, str]
    value: str


def read_recurrence(
    text: object, timezone: object = None, start: object = None
) -> Recurrence:
    """The recurrence set that a text stands for; see ``RecurrenceTrigger``.

    Raises:
        InvalidTriggerError: It is none, or contradicts the other arguments.
    """
    if not isinstance(text, str):
        raise InvalidTriggerError(
            f"a recurrence must be text, such as 'FREQ=DAILY', not {shown(text)}"
        )
    try:
        return _read(text, timezone, start)
    except RefusedError as error:
        raise InvalidTriggerError(f"recurrence {shown(text)}: {error}") from None


def _read(text: str, timezone: object, start: object) -> Recurrence:
    lines = _lines(text)
    key = _timezone(lines, timezone, start)
    zone = load_zone(key)
    begin = _start(lines, start, zone)
    dates = set()
    for moment in _moments(lines, "RDATE", zone):
        if not isinstance(moment, datetime):
            day = write_moment(moment)
            raise RefusedError(f"RDATE {day} has no time; write it, as in {day}T090000")
        dates.add(moment)
    if early := [each for each in dates if begin and local_time(each, zone) < begin]:
        raise RefusedError(
            f"RDATE {write_moment(early[0])} is before its start; let it start earlier"
        )
    rules = {line.value for line in lines if line.name == "RRULE"}
    if len(rules) > _MOST_RULES:
        raise RefusedError(f"it has {len(rules)} rules; at most {_MOST_RULES} are read")
    read = {read_rule(each, lambda moment: _end(moment, zone)) for each in rules}
    return Recurrence(
        timezone=key,
        start=begin,
        rules=tuple(sorted(read, key=write_rule)),
        dates=tuple(sorted(dates, key=_order)),
        exceptions=tuple(sorted(set(_moments(lines, "EXDATE", zone)), key=_order)),
    )


def _lines(text: str) -> Sequence[_Line]:
    if len(text) > LONGEST:
        raise RefusedError(f"it has {len(text)} characters; at most {LONGEST} are read")
    if odd := _ODD.search(text):
        raise RefusedError(
            f"{odd.group()!a} (U+{ord(odd.group()):04X}) is not allowed; write plain"
            " ASCII"
        )
    # Only an indented text begins with a space: it has no folded lines.
    unfolded = _FOLD.sub("", dedent(_NEWLINE.sub("\n", text)).strip())
    lines = [_line(each.strip()) for each in unfolded.split("\n") if each.strip()]
    if not any(line.name in ("RRULE", "RDATE") for line in lines):
        raise RefusedError("it has no rule; write one such as FREQ=WEEKLY;BYDAY=TU")
    return lines


def _line(text: str) -> _Line:
    head, colon, value = text.partition(":")
    if not colon:
        return _Line("RRULE", {}, text.upper())
    name, *parameters = (each.strip() for each in head.split(";"))
    name = name.upper()
    if name == "EXRULE":
        raise RefusedError("EXRULE is no longer in RFC 5545; list the times in EXDATE")
    if name not in _PARAMETERS:
        raise RefusedError(
            f"there is no property {shown(name)}; write {', '.join(_PARAMETERS)}"
        )
    read = dict(_parameter(name, each) for each in parameters)
    return _Line(name, read, value.strip().upper())


def _parameter(name: str, text: str) -> tuple[str, str]:
    parameter, _, value = (each.strip() for each in text.partition("="))
    parameter, value = parameter.upper(), value.strip('"')
    if parameter not in _PARAMETERS[name]:
        allowed = " or ".join(_PARAMETERS[name]) or "none"
        raise RefusedError(
            f"{name} has the parameter {shown(text)}; allowed: {allowed}"
        )
    if parameter == "VALUE" and value.upper() not in ("DATE", "DATE-TIME"):
        raise RefusedError(f"{name} has {shown(text)}; write VALUE=DATE or DATE-TIME")
    return parameter, value


def _timezone(lines: Iterable[_Line], timezone: object, start: object) -> str:
    """The one zone that is named, wherever that is."""
    named = [] if timezone is None else [("timezone", zone_key(timezone))]
    for line in lines:
        if (key := line.parameters.get("TZID")) is not None:
            if "Z" in line.value:
                raise RefusedError(
                    f"{line.name} has both a TZID and a Z, for UTC; drop one"
                )
            try:
                named.append((line.name, zone_key(key)))
            except InvalidTriggerError as error:
                raise RefusedError(f"{line.name}: {error}") from None
        elif line.name == "DTSTART" and line.value.endswith("Z"):
            named.append((line.name, "UTC"))
    for name, key in named:
        if key != named[0][1]:
            raise RefusedError(
                f"{name} is in {key}, but {named[0][0]} in {named[0][1]}; write local"
                " times of one zone, and other times in UTC with a Z at the end"
            )
    if named:
        return named[0][1]
    if isinstance(start, datetime) and isinstance(start.tzinfo, ZoneInfo):
        return zone_key(start.tzinfo)
    return "UTC"


def _start(lines: Iterable[_Line], start: object, zone: tzinfo) -> datetime | None:
    moments = list(_moments(lines, "DTSTART", zone))
    if len(moments) + (start is not None) > 1:
        raise RefusedError("it starts more than once; give one DTSTART, or start")
    if start is not None:
        try:
            return local_time(utc(start, name="start"), zone)
        except ConfigurationError as error:
            raise RefusedError(str(error)) from None
    if not moments:
        return None
    (moment,) = moments
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time())


def _moments(lines: Iterable[_Line], name: str, zone: tzinfo) -> Iterator[date]:
    for line in lines:
        for text in line.value.split(",") if line.name == name else ():
            moment = read_moment(name, text.strip())
            is_time = isinstance(moment, datetime)
            if line.parameters.get("VALUE") == ("DATE" if is_time else "DATE-TIME"):
                raise RefusedError(
                    f"{name} {text.strip()} is no {line.parameters['VALUE']}"
                )
            if isinstance(moment, datetime) and zone is UTC:
                moment = moment.replace(tzinfo=None)
            yield moment


def _end(moment: date, zone: tzinfo) -> datetime:
    """The last second in which the clock shows a time, or a date, or less."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(23, 59, 59))
    if moment.tzinfo is not None:
        return moment
    try:
        period = period_at(moment.replace(tzinfo=UTC) + _DAY, zone)
        while moment < period.opens:
            period = period_at(period.begin - _SECOND, zone)
        return min(period.instant(moment), period.end - _SECOND)
    except OverflowError:
        return _LAST_INSTANT


def _order(moment: date) -> tuple[str, str]:
    return _kind(moment), moment.isoformat()


def _kind(moment: date) -> str:
    if not isinstance(moment, datetime):
        return "date"
    return "local" if moment.tzinfo is None else "instant"
