"""Recurrence sets of RFC 5545 as values: read from text, written, and their days.

dateutil expands the days of a year. Its own walk is not used: it begins at the start of
the series each time, and goes on for ever where nothing matches. Nor is it given the
text, as it takes nearly anything for a date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from dateutil.easter import easter
from dateutil.rrule import YEARLY, rrule, weekday

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import RefusedError, utc
from go_scheduler.triggers.local_time import load_zone, local_time, period_at, zone_key
from go_scheduler.triggers.times import days_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

FREQUENCIES = (
    "YEARLY",
    "MONTHLY",
    "WEEKLY",
    "DAILY",
    "HOURLY",
    "MINUTELY",
    "SECONDLY",
)
_PER_DAY = {"HOURLY": 24, "MINUTELY": 1440, "SECONDLY": 86_400}


class Weekday(NamedTuple):
    """An item of BYDAY.

    Attributes:
        day: Its number; Monday is 0.
        ordinal: Which of them in the month or year, from the end if negative; 0: each.
    """

    day: int
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceRule:
    """The parts of an RRULE; an empty tuple stands for one that is not given.

    Attributes:
        frequency: FREQ, in capitals.
        interval: INTERVAL.
        count: COUNT; None: without end.
        until: UNTIL, in UTC; None: without end.
        week_start: WKST; Monday is 0.
        months: BYMONTH.
        weeks: BYWEEKNO.
        year_days: BYYEARDAY.
        month_days: BYMONTHDAY.
        weekdays: BYDAY.
        easter_days: BYEASTER, dateutil's addition: days after Easter Sunday.
        hours: BYHOUR.
        minutes: BYMINUTE.
        seconds: BYSECOND.
        positions: BYSETPOS.
    """

    frequency: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[Weekday, ...] = ()
    easter_days: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    @property
    def names_days(self) -> bool:
        """Whether it names days; else it takes the day from its start."""
        return bool(
            self.year_days or self.month_days or self.weekdays or self.easter_days
        )

    @property
    def picks_days(self) -> bool:
        """Whether BYSETPOS picks days, and not only times, of a period."""
        return bool(self.positions) and self.frequency in FREQUENCIES[:3]

    @property
    def periods_per_day(self) -> int:
        """How many of what FREQ counts make a day; 1 if it counts days or more."""
        return _PER_DAY.get(self.frequency, 1)

    @property
    def elapsed(self) -> bool:
        """Whether it follows elapsed time where the clocks change.

        A rule that fires at most once a day has a time of day, however it is written.
        """
        per_day = self.periods_per_day
        return per_day > 1 and not self.hours and self.interval < per_day

    @property
    def counts_weeks(self) -> bool:
        """Whether a year is made of whole weeks, those whose middle is in it."""
        return self.frequency == "YEARLY" and bool(self.weeks)

    def pinned(self, start: datetime) -> RecurrenceRule:
        """This rule with what it leaves open taken from where it starts.

        Args:
            start: The local time; naive.
        """
        rank = FREQUENCIES.index(self.frequency)
        rule = replace(
            self,
            hours=self.hours or ((start.hour,) if rank < 4 else ()),
            minutes=self.minutes or ((start.minute,) if rank < 5 else ()),
            seconds=self.seconds or ((start.second,) if rank < 6 else ()),
        )
        if self.names_days:
            return rule
        match self.frequency:
            case "YEARLY" if self.weeks:
                return replace(rule, weekdays=(Weekday(start.weekday()),))
            case "YEARLY":
                months = self.months or (start.month,)
                return replace(rule, months=months, month_days=(start.day,))
            case "MONTHLY":
                return replace(rule, month_days=(start.day,))
            case "WEEKLY":
                return replace(rule, weekdays=(Weekday(start.weekday()),))
        return rule

    def days_of(self, year: int) -> int:
        """The days of a year that it allows, as bits; 1 January is the lowest.

        Neither INTERVAL, BYSETPOS nor BYEASTER is looked at.
        """
        if not (self.months or self.weeks or self.names_days):
            return (1 << days_in(year)) - 1
        by_month = self.months or range(1, 13)
        found = rrule(
            YEARLY,
            datetime(year, 1, 1),  # noqa: DTZ001 (local times are naive)
            interval=9999,
            bymonth=by_month if self._is_by_month() else None,
            bymonthday=self.month_days or None,
            byyearday=self.year_days or None,
            byweekday=self._dateutil_weekdays(),
        )
        days = [each.timetuple().tm_yday for each in found]
        if self.weeks:
            days = [each for each in days if self._is_in_week(year, each)]
        return sum(1 << each - 1 for each in days)

    def easter_days_of(self, year: int) -> int:
        """The days of a year that BYEASTER names, likewise."""
        sunday = easter(year).timetuple().tm_yday
        return sum(1 << sunday - 1 + each for each in self.easter_days)

    def _is_by_month(self) -> bool:
        return bool(self.months) or self.frequency == "MONTHLY"

    def _dateutil_weekdays(self) -> list[weekday]:
        """BYDAY for dateutil: either all days have ordinals, or none has.

        If only some have, dateutil wants days that match both kinds.
        """
        if not any(each.ordinal for each in self.weekdays):
            return [weekday(each.day) for each in self.weekdays] or [
                weekday(day) for day in range(7)
            ]
        most = 5 if self._is_by_month() else 53
        return [
            weekday(each.day, ordinal)
            for each in self.weekdays
            for ordinal in ([each.ordinal] if each.ordinal else range(1, most + 1))
        ]

    def _is_in_week(self, year: int, day: int) -> bool:
        """Whether the week of a day is allowed. A week is of the year of its middle.

        dateutil assigns the first days of January to the wrong week in some years.

        Args:
            year: The day's year.
            day: Its number in the year; 1 January is 1.
        """
        first_weekday = datetime(year, 1, 1).weekday()  # noqa: DTZ001
        middle = day + 3 - (first_weekday + day - 1 - self.week_start) % 7
        length = days_in(year)
        if middle < 1:
            length = days_in(year - 1)
            middle += length
        elif middle > length:
            middle -= length
            length = days_in(year + 1)
        number, from_end = (middle - 1) // 7 + 1, (length - middle) // 7 + 1
        return number in self.weeks or -from_end in self.weeks


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
