"""From the parts of a phrase to a trigger."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, product
from typing import TYPE_CHECKING, NamedTuple

from dateutil.relativedelta import relativedelta

from go_scheduler.formatting import a
from go_scheduler.triggers.combining import (
    AllOfTrigger,
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.local_time import next_instant
from go_scheduler.triggers.phrases.parts import (
    EITHER_OR_BOTH,
    OF_DAYS,
    AllOf,
    AnyOf,
    Every,
    Moment,
    Parts,
    YearDay,
    only,
)
from go_scheduler.triggers.phrases.words import PhraseError, ambiguous
from go_scheduler.triggers.recurrence import RecurrenceTrigger
from go_scheduler.triggers.recurrence.text import WEEKDAY_CODES
from go_scheduler.triggers.times import LAST_INSTANT, MICROSECOND
from go_scheduler.triggers.words import MONTHS, WEEKDAYS, spans
from go_scheduler.triggers.zones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from go_scheduler.triggers.base import Trigger
    from go_scheduler.triggers.phrases.parts import Nth, Phrase

_HOUR = 3600
DAY = 24 * _HOUR
"""The seconds of a day without a change of the clocks."""

# Which times, in seconds of the day, a part of the day has.
_PARTS: Mapping[str, Sequence[range]] = {
    "morning": [range(12 * 3600)],
    "afternoon": [range(12 * 3600, 18 * 3600)],
    "evening": [range(17 * 3600, DAY)],
    "night": [range(6 * 3600), range(18 * 3600, DAY)],
}


class Times(NamedTuple):
    """Times of day that one expression can name: all these hours with all minutes.

    Attributes:
        hours: 0 to 23.
        minutes: Of each of these hours.
        seconds: Of each of these minutes.
        stepped: Whether they were given as a step, which follows elapsed time where the
            clocks change, and not one by one.
    """

    hours: Sequence[int]
    minutes: Sequence[int]
    seconds: Sequence[int]
    stepped: bool = False

    def cron(self) -> tuple[str, str, str]:
        """The cron fields of the seconds, the minutes and the hours."""
        hours = "*" if len(self.hours) == 24 else field_of(self.hours)
        seconds = _stepped(self.seconds)
        minutes = _stepped(self.minutes) if self.stepped else field_of(self.minutes)
        return seconds, minutes, hours


def field_of(numbers: Sequence[int]) -> str:
    """Numbers in ascending order as a field of a cron expression."""
    return ",".join(spans(numbers, to="-"))


def grouped(times: Iterable[time]) -> Sequence[Times]:
    """Times of day, in as few groups as expressions need, the earliest first."""
    by_second: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in sorted(set(times)):
        by_second[each.second][each.hour].append(each.minute)
    found = []
    for second, hours in by_second.items():
        by_minutes: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for hour, minutes in hours.items():
            by_minutes[tuple(minutes)].append(hour)
        found += [
            Times(hours, minutes, (second,)) for minutes, hours in by_minutes.items()
        ]
    return sorted(found, key=lambda each: (each.hours[0], each.minutes, each.seconds))


def stepped(seconds: int, first: time, last: time) -> Sequence[Times]:
    """The times of day from one to another, so many seconds apart.

    Raises:
        PhraseError: No expression can name them.
    """
    begin, end = seconds_of(first), seconds_of(last)
    if seconds < 60:
        return _within_minutes(seconds, begin, end)
    if seconds % 60:
        raise PhraseError(
            "on some days, or between two times, only steps of whole minutes, or of"
            " seconds that divide a minute, are possible"
        )
    times = map(time_at, range(begin, end + 1, seconds))
    return grouped(times) if seconds > _HOUR else _runs(times)


def _runs(times: Iterable[time]) -> Sequence[Times]:
    """Times of day, in order, in groups whose hours follow each other."""
    found: list[Times] = []
    for hour, group in groupby(times, key=lambda each: each.hour):
        minutes = [each.minute for each in group]
        if found and found[-1].minutes == minutes and found[-1].hours[-1] == hour - 1:
            found[-1] = found[-1]._replace(hours=[*found[-1].hours, hour])
        else:
            found.append(Times([hour], minutes, [0], stepped=True))
    return found


def _within_minutes(seconds: int, begin: int, end: int) -> Sequence[Times]:
    if 60 % seconds or begin % 60:
        raise PhraseError(
            "on some days, or between two times, only steps of seconds that divide a"
            " minute are possible, from a whole minute on"
        )
    whole = range(begin, end + seconds - 59, 60)
    every = range(0, 60, seconds)
    groups = [each._replace(seconds=every) for each in _runs(map(time_at, whole))]
    rest = range(begin + 60 * len(whole), end + 1, seconds)
    return [*groups, *grouped(map(time_at, rest))]


def clear_times(times: Iterable[time | int], part: str | None) -> Sequence[time]:
    """Times of day, of which bare hours are told by the part of the day.

    Raises:
        PhraseError: An hour may be one in the morning or one in the afternoon, or a
            time is not in that part of the day.
    """
    return sorted({_clear(each, part) for each in times})


def _clear(given: time | int, part: str | None) -> time:
    if isinstance(given, time):
        found = given.replace(fold=0)
        if part is None or _is_in(found, part):
            return found
        if given.fold and found.hour < 12:
            found = found.replace(hour=found.hour + 12)
        if not _is_in(found, part):
            raise PhraseError(f"{given:%H:%M} is not in the {part}")
        return found
    if not isinstance(given, int) or not 0 <= given <= 24:
        raise PhraseError(f"{given} is no hour: write a time such as 09:00 or 5pm")
    if 1 <= given <= 12:
        readings = [time(given % 12), time(given % 12 + 12)]
    else:
        readings = [time(given % 24)]
    if part is not None:
        readings = [each for each in readings if _is_in(each, part)]
        if not readings:
            raise PhraseError(f"{given} is not in the {part}")
        return readings[0]
    shown = [f"{each:%H:%M}" for each in readings]
    raise PhraseError(ambiguous(str(given), shown))


def _is_in(given: time, part: str) -> bool:
    return any(seconds_of(given) in each for each in _PARTS[part])


def seconds_of(given: time) -> int:
    """The seconds from midnight to a time of day."""
    return (given.hour * 60 + given.minute) * 60 + given.second


def time_at(seconds: int) -> time:
    """The time of day so many seconds after midnight."""
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60)


def _stepped(numbers: Sequence[int]) -> str:
    """The numbers of a field of sixty, as a step if they are all of its multiples."""
    if len(numbers) == 60:
        return "*"
    if len(numbers) > 1:
        step = numbers[1] - numbers[0]
        if list(numbers) == list(range(0, 60, step)) and 60 % step == 0:
            return f"*/{step}"
    return field_of(numbers)


_LENGTHS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "fortnight": timedelta(weeks=2),
}
_LAST_OF_DAY = time(23, 59, 59, 999_999)
_LEAP_YEARS = 8


class Instant(NamedTuple):
    """An instant that a phrase names.

    Attributes:
        at: In UTC.
        counted: Whether it was counted from now, so that the same phrase names another
            one tomorrow.
    """

    at: datetime
    counted: bool


def duration(length: Every) -> timedelta:
    """A length of elapsed time.

    Raises:
        PhraseError: It is counted on the calendar, or is zero or too long.
    """
    unit = _LENGTHS.get(length.unit)
    if unit is None:
        raise PhraseError(f"{length.unit}s are not all of one length: count in days")
    try:
        found = length.number * unit
    except OverflowError:
        found = timedelta(0)
    if found <= timedelta(0):
        raise PhraseError(f"{length.number} {length.unit}s is no length of time")
    return found


class Present:
    """Where and when a phrase is said.

    Args:
        zone: Where its times are read.
        now: When; None: it may not count from now.
    """

    def __init__(self, zone: tzinfo, now: datetime | None) -> None:
        self._zone = zone
        self._now = now

    @property
    def is_known(self) -> bool:
        """Whether the present time was given."""
        return self._now is not None

    @property
    def now(self) -> datetime:
        """The present time, in UTC.

        Raises:
            PhraseError: It was not given.
        """
        if self._now is None:
            raise PhraseError("it counts from the present time: pass now=")
        return self._now

    @property
    def today(self) -> date:
        """The present day."""
        return self._local().date()

    def later(self, length: Every) -> datetime:
        """So much later than now: calendar units at the same time of day."""
        try:
            if length.is_of_clock:
                return self.now + duration(length)
            return self.instant(_on_the_calendar(self._local(), length))
        except (OverflowError, ValueError):
            raise PhraseError("it lies beyond the year 9999") from None

    def before(self, instant: datetime, length: Every) -> datetime:
        """So many calendar units before an instant, at the same time of day."""
        local = instant.astimezone(self._zone).replace(tzinfo=None)
        try:
            local = _on_the_calendar(local, length, back=True)
            try:
                return self.instant(local)
            except PhraseError:
                # A day that the zone has skipped; the one before that is as good.
                return self.instant(_on_the_calendar(local, length, back=True))
        except (OverflowError, ValueError):
            raise PhraseError(f"{length.number} {length.unit}s is too long") from None

    def find(self, moment: Moment, *, ends: bool = False) -> Instant:
        """The instant of a moment.

        Args:
            moment: What was said.
            ends: Whether a day without a time means its end, and not its begin.
        """
        if moment.length is not None:
            return Instant(self.later(moment.length), counted=True)
        if isinstance(moment.day, datetime):
            at = moment.day if moment.day.tzinfo else self.instant(moment.day)
            return Instant(at.astimezone(UTC), counted=False)
        at_time = moment.time
        assert not isinstance(at_time, int), "the grammar has no bare hours here"
        if moment.day is None:
            assert at_time is not None
            return Instant(self._next(at_time), counted=True)
        day, counted = self.day(moment.day)
        given = at_time if at_time is not None else (_LAST_OF_DAY if ends else time(0))
        return Instant(self.instant(datetime.combine(day, given)), counted=counted)

    def day(self, said: date | YearDay | frozenset[int] | int) -> tuple[date, bool]:
        """A day, and whether it was counted from today."""
        match said:
            case YearDay(year=None):
                return self._date(said), True
            case YearDay(day, month, int(year)):
                return _existing(year, month, day), False
            case date():
                return said, False
            case int():
                return self.today + timedelta(days=said), True
            case _ if len(said) == 1:
                return self._weekday(*said), True
        raise PhraseError("it starts or ends on one day, not on several")

    def instant(self, local: datetime) -> datetime:
        """The instant of a local time, by the rule of gaps and overlaps."""

        def search(start: datetime) -> datetime | None:
            return local if start <= local else None

        before = (local - timedelta(days=3)).replace(tzinfo=UTC)
        found = next_instant(search, before, self._zone, elapsed=False)
        if found is None and local.date() == date.max:
            return LAST_INSTANT
        if found is None:
            raise PhraseError(f"{local} does not exist in this time zone")
        return found

    def _local(self) -> datetime:
        return self.now.astimezone(self._zone).replace(tzinfo=None)

    def _next(self, given: time) -> datetime:
        found = self.instant(datetime.combine(self.today, given))
        if found <= self.now:
            tomorrow = self.today + timedelta(days=1)
            found = self.instant(datetime.combine(tomorrow, given))
        return found

    def _weekday(self, weekday: int) -> date:
        ahead = (weekday - self.today.weekday()) % 7
        if not ahead:
            raise PhraseError(
                ambiguous(
                    WEEKDAYS[weekday],
                    ("today", f"{self.today + timedelta(days=7)}"),
                )
            )
        return self.today + timedelta(days=ahead)

    def _date(self, said: YearDay) -> date:
        today = self.today
        for year in range(today.year, today.year + _LEAP_YEARS + 1):
            try:
                found = date(year, said.month, said.day)
            except ValueError:
                continue
            if found >= today:
                return found
        raise PhraseError(f"{said.day} {MONTHS[said.month - 1]} does not exist")


def _existing(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise PhraseError(f"{year}-{month:02}-{day:02} does not exist") from None


def _on_the_calendar(local: datetime, length: Every, *, back: bool = False) -> datetime:
    count, unit = length
    if not isinstance(count, int):
        raise PhraseError(f"{unit}s can only be counted whole")
    if unit == "fortnight":
        count, unit = 2 * count, "week"
    step = relativedelta(**{f"{unit}s": count})  # type: ignore[arg-type]
    return local - step if back else local + step


_MORNING = time(6)
_END_OF_DAY = time(23, 59, 59)


def steps_of(parts: Parts, every: Every) -> Sequence[Times]:
    """The times of day of an interval that is bound to some of them."""
    if parts.times is not None:
        raise PhraseError(
            "it says how often within a day, and at what time: write between which"
            " times, or 'every day at …'"
        )
    seconds = duration(every) / timedelta(seconds=1)
    if seconds != int(seconds):
        raise PhraseError("on some days only whole seconds are possible")
    if parts.minutes is not None:
        return _past(parts, every)
    if parts.window is None:
        if DAY % seconds:
            raise PhraseError(
                f"every {every.number} {every.unit}s does not come out even with"
                " a day: say between which times"
            )
        return stepped(int(seconds), time(0), _END_OF_DAY)
    first, last = _window(parts)
    if seconds_of(first) < seconds_of(last):
        return stepped(int(seconds), first, last)
    if seconds < 60 or parts.given() & {*OF_DAYS, "years"}:
        raise PhraseError(
            "it goes on past midnight: write what is before and what is after it"
            " as two phrases with 'or'"
        )
    before = stepped(int(seconds), first, _END_OF_DAY)
    rest = (seconds_of(first) - DAY) % int(seconds)
    if rest > seconds_of(last):
        return before
    return [*before, *stepped(int(seconds), time_at(rest), last)]


def _past(parts: Parts, every: Every) -> Sequence[Times]:
    assert parts.minutes is not None
    if every.unit != "hour" or every.number not in (1, 2, 3, 4, 6, 8, 12):
        raise PhraseError(
            "minutes past the hour go with every hour, or with every 2, 3, 4, 6, 8"
            " or 12 hours"
        )
    first, last = time(0), _END_OF_DAY
    if parts.window is not None:
        first, last = _window(parts)
    times = [
        time(hour, minute)
        for hour in range(first.hour % int(every.number), 24, int(every.number))
        for minute in parts.minutes
    ]
    within = [each for each in times if first <= each <= last]
    if not within:
        raise PhraseError("none of its minutes is between its times")
    return grouped(within)


def times_of(parts: Parts) -> Sequence[time]:
    """The times of day that a phrase names.

    Raises:
        PhraseError: It names none, or a bare hour that may be one of two.
    """
    if parts.times is None:
        raise PhraseError(
            "it does not say at what time: add one such as 'at 09:00'; what is"
            " counted in hours, such as 'every 24 hours', needs none"
        )
    times = clear_times(parts.times, parts.part)
    days = parts.given() & {*OF_DAYS, "day", "later"}
    if parts.part == "night" and days and times[0] < _MORNING:
        raise PhraseError(
            ambiguous(
                f"{times[0]:%H:%M} at night",
                ("monday at 02:00", "tuesday at 02:00"),
            )
        )
    return times


def _window(parts: Parts) -> tuple[time, time]:
    assert parts.window is not None
    first, last = (clear_times([each], parts.part)[0] for each in parts.window)
    if first == last:
        raise PhraseError(f"nothing is between {first:%H:%M} and {last:%H:%M}")
    return first, last


_CRON_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_ALL = frozenset(range(7))
_ALL_OF = {
    "hour": "every hour at :15 and :45",
    "day": "every day at 09:00 and 17:00",
    "week": "every monday and thursday at 09:00",
    "month": "the 1st and 15th of every month at 09:00",
    "year": "every 1 january and 1 july at 09:00",
}
_MONDAY_TO_FRIDAY = frozenset(range(5))


class Days(NamedTuple):
    """The three day fields of a cron expression."""

    of_month: str = "*"
    month: str = "*"
    of_week: str = "*"


def cron_days(parts: Parts) -> Sequence[Days] | None:
    """The days of a phrase for cron expressions; None: only a rule can say them.

    Raises:
        PhraseError: It says the days in two ways, or in none.
    """
    month = "*" if parts.months is None else field_of(sorted(parts.months))
    if parts.dates is not None:
        if parts.months is not None:
            raise PhraseError("it says twice in which months")
        _check_years(parts.dates)
        return [Days(str(each.day), str(each.month)) for each in parts.dates]
    if parts.nth is not None:
        return _cron_nth(parts.nth, month)
    if parts.weekdays is None or parts.weekdays == _ALL:
        return [Days(month=month)]
    return [Days(month=month, of_week=_cron_weekdays(parts.weekdays))]


def rule_days(parts: Parts) -> Iterator[str]:
    """The days of a phrase as parts of a recurrence rule."""
    if parts.weekdays is not None:
        yield f"BYDAY={_rule_weekdays(parts.weekdays)}"
    if parts.nth is not None:
        yield from _rule_nth(parts.nth)
    if parts.dates is not None:
        _check_years(parts.dates)
        days = {each.day for each in parts.dates}
        months = {each.month for each in parts.dates}
        if len(parts.dates) != len(days) * len(months):
            raise PhraseError("of several dates, write each with its own 'or'")
        yield f"BYMONTH={_listed(months)}"
        yield f"BYMONTHDAY={_listed(days)}"
    elif parts.months is not None:
        yield f"BYMONTH={_listed(parts.months)}"


def _check_years(dates: Sequence[YearDay]) -> None:
    if any(each.year is not None for each in dates):
        raise PhraseError("a date with its year comes once, and not every so often")


def whole_days(parts: Parts) -> Sequence[Days]:
    """The days of a phrase that names some to leave out."""
    found = cron_days(parts)
    assert found is not None, "nobody can leave out the nth day of a month"
    return found


def of_the_year(nth: Sequence[Nth]) -> frozenset[int]:
    """The month in which the first or the last days of a year are.

    Raises:
        PhraseError: They are in no month that is known without counting.
    """
    if all(each.number == -1 for each in nth):
        return frozenset({12})
    if all(1 <= each.number <= (31 if each.weekdays is None else 4) for each in nth):
        return frozenset({1})
    raise PhraseError("write of which month, not of the year")


def _cron_nth(nth: Sequence[Nth], month: str) -> Sequence[Days] | None:
    if all(each.weekdays is None for each in nth):
        numbers = sorted({each.number for each in nth if each.number > 0})
        texts = [field_of(numbers)] if numbers else []
        if any(each.number == -1 for each in nth):
            texts.append("L")
        return [Days(of_month=",".join(texts), month=month)]
    if all(each.weekdays is not None and len(each.weekdays) == 1 for each in nth):
        return [Days(month=month, of_week=",".join(map(_cron_nth_weekday, nth)))]
    if all(each.weekdays == _MONDAY_TO_FRIDAY for each in nth):
        near = {1: "1W", -1: "LW"}
        if all(each.number in near for each in nth):
            return [
                Days(of_month=",".join(near[each.number] for each in nth), month=month)
            ]
    return None


def _cron_nth_weekday(nth: Nth) -> str:
    assert nth.weekdays is not None
    (day,) = nth.weekdays
    if nth.number == -1:
        return f"{(day + 1) % 7}L"
    if not 1 <= nth.number <= 5:
        raise PhraseError(f"no month has {nth.number} of one day of the week")
    return f"{_CRON_DAYS[day]}#{nth.number}"


def _rule_nth(nth: Sequence[Nth]) -> Iterator[str]:
    if all(each.weekdays is None for each in nth):
        yield f"BYMONTHDAY={_listed({each.number for each in nth})}"
        return
    if all(each.weekdays is not None and len(each.weekdays) == 1 for each in nth):
        words = [
            f"{each.number}{WEEKDAY_CODES[day]}"
            for each in nth
            for day in each.weekdays or ()
        ]
        yield f"BYDAY={','.join(words)}"
        return
    kinds = {each.weekdays for each in nth}
    if len(kinds) > 1:
        raise PhraseError("of several kinds of days, write each with its own 'or'")
    (kind,) = kinds
    assert kind is not None
    yield f"BYDAY={_rule_weekdays(kind)}"
    yield f"BYSETPOS={_listed({each.number for each in nth})}"


def _cron_weekdays(days: frozenset[int]) -> str:
    if days == _MONDAY_TO_FRIDAY:
        return "MON-FRI"
    return ",".join(_CRON_DAYS[day] for day in sorted(days))


def _rule_weekdays(days: frozenset[int]) -> str:
    return ",".join(WEEKDAY_CODES[day] for day in sorted(days))


def _listed(numbers: frozenset[int] | set[int]) -> str:
    return ",".join(map(str, sorted(numbers, key=lambda each: (each < 0, each))))


def checked_days(parts: Parts) -> Parts:
    """The parts, which say on which days in one way.

    Raises:
        PhraseError: They say it in none or in several.
    """
    unit = "" if parts.every is None else parts.every.unit
    stepped = parts.every != Every(1, "week") and unit in ("day", "week", "fortnight")
    if parts.nth is not None and stepped:
        raise PhraseError(f"days of the month do not go with every so many {unit}s")
    ways = parts.given() & {"weekdays", "nth", "dates"}
    if len(ways) > 1:
        raise PhraseError(f"it says in several ways on which days: {EITHER_OR_BOTH}")
    if unit == "year" and parts.nth is not None and parts.months is None:
        parts = replace(parts, months=of_the_year(parts.nth))
    needed = {"week": {"weekdays"}, "fortnight": {"weekdays"}, "month": {"nth"}}
    needed["year"] = {"dates", "nth"}
    if parts.months is not None:
        needed["year"] |= {"weekdays"}
    if unit in needed and not ways & needed[unit]:
        raise PhraseError(f"it does not say on which day of the {unit}")
    if not unit and not ways and parts.months is None:
        raise PhraseError("it does not say on which days: write 'every day at …'")
    if not unit and parts.lone is not None and parts.months is None:
        if parts.nth is not None:
            raise PhraseError(
                "it may be one day or that of every month: write"
                f" 'the {parts.lone} of every month', or a date such as 2030-06-05"
            )
        text = parts.lone.lower()
        raise PhraseError(ambiguous(text, (f"every {text}", f"this {text}")))
    return parts


def check_often(parts: Parts) -> None:
    """Refuse a number of times a day, week, month or year that is not named.

    Raises:
        PhraseError: It says so often, and names more or fewer times or days.
    """
    assert parts.every is not None
    unit = parts.every.unit
    named = {
        "hour": parts.minutes,
        "day": parts.times,
        "week": parts.weekdays,
        "month": parts.nth,
        "year": parts.dates,
    }.get(unit)
    number = 0 if named is None else len(named)
    if number != parts.often:
        raise PhraseError(
            f"it says {parts.often} times {a(unit)}, and names {number or 'none'}:"
            f" write all of them, as in {_ALL_OF.get(unit, _ALL_OF['day'])!r}"
        )


def other_days(parts: Parts, said: Mapping[str, object]) -> Parts | None:
    """The parts that name the other days, if they can."""
    if parts.group is not None or parts.nth is not None or parts.dates is not None:
        return None
    if parts.every is not None and parts.every.is_stepped:
        return None
    match said:
        case {"weekdays": frozenset() as days}:
            return replace(parts, weekdays=_left(parts.weekdays, range(7), days))
        case {"months": frozenset() as months}:
            return replace(parts, months=_left(parts.months, range(1, 13), months))
    return None


def _left(
    known: frozenset[int] | None, everything: Iterable[int], without: frozenset[int]
) -> frozenset[int]:
    left = frozenset(everything if known is None else known) - without
    if not left:
        raise PhraseError("its exceptions leave nothing")
    return left


_FREQUENCIES = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_MOST_STEPS = 100
_OF_CLOCK = {"window", "minutes", "aligned"}


class Recurring:
    """Makes the triggers that fire by the calendar.

    Args:
        timezone: The name of the zone in which phrases are read.
        present: Where and when they are said.
    """

    def __init__(self, timezone: str, present: Present) -> None:
        self._timezone = timezone
        self._present = present

    def make(self, parts: Parts, start: Instant | None) -> Trigger:
        """The trigger of the days and times of a phrase.

        Args:
            parts: What it says.
            start: From when steps of several days, weeks, months or years count.
        """
        if parts.every is None and parts.minutes is not None:
            parts = replace(parts, every=Every(1, "hour"))
        every = parts.every
        if every is not None and every.is_of_clock:
            steps = steps_of(parts, every)
            return self._crons(checked_days(parts), steps)
        only(parts.given() & _OF_CLOCK, set(), "without a number of minutes or hours")
        parts = checked_days(parts)
        groups = grouped(times_of(parts))
        if every is not None and every.is_stepped:
            return self._rules(parts, groups, start)
        if cron_days(parts) is None:
            return self._rules(parts, groups, None)
        return self._crons(parts, groups)

    def _crons(self, parts: Parts, groups: Sequence[Times]) -> Trigger:
        days = cron_days(parts)
        if days is None:
            raise PhraseError(
                "such days of the month only go with times of day: write at what time"
            )
        if len(days) * len(groups) > _MOST_STEPS:
            raise PhraseError("it has too many different times")
        found = []
        for day, times in product(days, groups):
            seconds, minutes, hours = times.cron()
            text = f"{minutes} {hours} {day.of_month} {day.month} {day.of_week}"
            if seconds != "0" or parts.years is not None:
                years = "*" if parts.years is None else field_of(parts.years)
                text = f"{seconds} {text} {years}"
            found.append(CronTrigger(text, self._timezone))
        return any_of(found)

    def _rules(
        self, parts: Parts, groups: Sequence[Times], start: Instant | None
    ) -> Trigger:
        """Recurrence rules, whose steps count from the first time there would be."""
        if parts.years is not None:
            raise PhraseError("the years only go with every day, week, month or year")
        every = (parts.every or Every(1, "month")).in_weeks()
        days = list(rule_days(parts))
        plain, counted = (
            [_rule(each, days, times) for times in groups]
            for each in (Every(1, every.unit), every)
        )
        if plain == counted:
            return any_of([RecurrenceTrigger(each, self._timezone) for each in plain])
        begin = self._present.now if start is None else start.at - MICROSECOND
        first = self._first(plain, begin)
        if start is None or start.counted:
            # A recurrence begins after its anchor.
            anchor = self._present.before(first, every)
            made = [
                RecurrenceTrigger(each, self._timezone, anchored_at=anchor)
                for each in counted
            ]
        else:
            made = [self._from(each, first) for each in counted]
        return any_of(made)

    def _from(self, rule: str, start: datetime) -> RecurrenceTrigger:
        """A rule whose steps count from an instant, from its own first time on."""
        trigger = RecurrenceTrigger(rule, self._timezone, start=start)
        first = trigger.next_fire_time(start - MICROSECOND)
        assert first is not None, "or it would have been refused"
        return RecurrenceTrigger(rule, self._timezone, start=first)

    def _first(self, rules: Sequence[str], after: datetime) -> datetime:
        triggers = [
            RecurrenceTrigger(each, self._timezone, anchored_at=after) for each in rules
        ]
        found = [each.next_fire_time(after) for each in triggers]
        return min(filter(None, found), default=after)


def _rule(every: Every, days: Sequence[str], times: Times) -> str:
    count, unit = every
    if not isinstance(count, int) or count < 1:
        raise PhraseError(f"{unit}s can only be counted whole, from 1 on")
    words = [
        f"FREQ={_FREQUENCIES[unit]}",
        *([f"INTERVAL={count}"] if count > 1 else []),
    ]
    fields = (
        ("HOUR", times.hours),
        ("MINUTE", times.minutes),
        ("SECOND", times.seconds),
    )
    words += days
    words += [f"BY{name}={','.join(map(str, numbers))}" for name, numbers in fields]
    return ";".join(words)


def any_of(triggers: Sequence[Trigger]) -> Trigger:
    """One trigger for several; a single one itself."""
    return triggers[0] if len(triggers) == 1 else AnyOfTrigger(triggers)


_BOUNDS = {"starting", "until", "lasting", "count", "from_now"}


class Builder:
    """Makes triggers of phrases.

    Args:
        timezone: The name of the zone in which they are read.
        now: When they are said, in UTC; None: they may not count from now.
    """

    def __init__(self, timezone: str, now: datetime | None) -> None:
        self._timezone = timezone
        self._present = Present(load_zone(timezone), now)
        self._recurring = Recurring(timezone, self._present)

    def build(self, phrase: Phrase) -> Trigger:
        """The trigger of a phrase.

        Raises:
            PhraseError: It says too little, too much, or something unclear.
            InvalidTriggerError: There is no such trigger.
        """
        match phrase:
            case AnyOf(phrases):
                return AnyOfTrigger([self.build(each) for each in phrases])
            case AllOf(phrases):
                return AllOfTrigger([self.build(each) for each in phrases])
            case _:
                return self._trigger(phrase)

    def _trigger(self, parts: Parts) -> Trigger:
        if parts.often is not None:
            check_often(parts)
            parts = replace(parts, often=None)
        given = parts.given()
        if parts.delay is not None:
            only(given, {"delay"}, "after each run")
            return DelayTrigger(duration(parts.delay))
        if _is_once(parts):
            return self._once(parts, given)
        parts, exceptions = self._without(parts)
        start = None if parts.starting is None else self._start(parts)
        counted = start
        if start is not None and parts.lasting is not None:
            # A length of time counts from the start: the phrase needs no other one.
            counted = start._replace(counted=True)
        if parts.group is not None:
            only(given, {"group", "excluded", "names", *_BOUNDS}, "with brackets")
            trigger = self.build(parts.group)
        elif _is_plain_interval(parts):
            trigger = self._interval(parts, counted)
            return self._bounded(trigger, parts, start if parts.lasting else None)
        else:
            trigger = self._recurring.make(parts, counted)
            if parts.every is not None and parts.every.is_stepped and not parts.lasting:
                start = None
        if exceptions:
            trigger = ExceptTrigger(trigger, exceptions, self._timezone)
        if parts.names is not None:
            trigger = OnlyTrigger(trigger, parts.names, self._timezone)
        return self._bounded(trigger, parts, start)

    # Once.

    def _once(self, parts: Parts, given: set[str]) -> Trigger:
        if parts.count == 1:
            given -= {"count"}
        only(given, {"day", "later", "dates", "times", "part"}, "once")
        if parts.later is not None and parts.times is None:
            return ExecuteOnceTrigger(self._present.later(parts.later))
        if parts.day is not None and isinstance(parts.day.day, datetime):
            only(given, {"day"}, "with an exact time")
            return ExecuteOnceTrigger(self._present.find(parts.day).at)
        if parts.later is not None and parts.later.is_of_clock:
            raise PhraseError("it cannot say at what time when it counts in hours")
        times = times_of(parts)
        days = []
        if parts.later is not None:
            local = self._present.later(parts.later).astimezone(
                load_zone(self._timezone)
            )
            days.append(local.date())
        if parts.day is not None and parts.day.day is not None:
            days.append(self._present.day(parts.day.day)[0])
        days += [self._present.day(each)[0] for each in parts.dates or ()]
        instants = [
            self._present.instant(datetime.combine(day, at))
            for day, at in product(days, times)
        ]
        if parts.dates is None and isinstance(getattr(parts.day, "day", None), int):
            passed = [each for each in instants if each <= self._present.now]
            if passed:
                raise PhraseError("that time has passed")
        return any_of([ExecuteOnceTrigger(each) for each in instants])

    # Again and again.

    def _start(self, parts: Parts) -> Instant:
        assert parts.starting is not None
        _check_moment(parts.starting, parts, "starting")
        return self._present.find(parts.starting)

    def _interval(self, parts: Parts, start: Instant | None) -> Trigger:
        assert parts.every is not None
        every = duration(parts.every)
        if start is None:
            return IntervalTrigger(every, anchored_at=self._present.now)
        if start.counted:
            return IntervalTrigger(every, anchored_at=start.at)
        return IntervalTrigger(every, anchor=start.at)

    # With exceptions, and within bounds.

    def _without(self, parts: Parts) -> tuple[Parts, list[str | Trigger]]:
        """The parts without the days left out, as far as they can name them."""
        exceptions: list[str | Trigger] = []
        for said in parts.excluded:
            named = other_days(parts, said)
            if named is not None:
                parts = named
            else:
                exceptions += self._exceptions(said)
        return parts, exceptions

    def _exceptions(self, said: Mapping[str, object]) -> Sequence[str | Trigger]:
        match said:
            case {"names": names}:
                return list(names)  # type: ignore[call-overload,no-any-return]
            case {"group": phrase}:
                return [self.build(phrase)]  # type: ignore[arg-type]
        days = whole_days(Parts(**said))  # type: ignore[arg-type]
        return [
            CronTrigger(
                f"* * * {each.of_month} {each.month} {each.of_week} *", self._timezone
            )
            for each in days
        ]

    def _bounded(
        self, trigger: Trigger, parts: Parts, start: Instant | None
    ) -> Trigger:
        if not parts.given() & _BOUNDS:
            return trigger
        end = length = None
        if parts.until is not None:
            _check_moment(parts.until, parts, "until")
            end = self._present.find(parts.until, ends=True).at
        if parts.lasting is not None:
            length = duration(parts.lasting)
        bounds = (start, end, length, parts.count, parts.from_now)
        if all(each is None for each in bounds):
            return trigger
        if start is None:
            limited = LimitedTrigger(
                trigger, end=end, duration=length, limit=parts.count
            )
            # An end alone counts from nowhere.
            ends = end is not None and length is None and parts.count is None
            if not ends:
                limited = limited.anchored(self._present.now)
            return self._fires(limited, end)
        if start.counted:
            limited = LimitedTrigger(
                trigger,
                end=end,
                duration=length,
                limit=parts.count,
                # It may fire at once.
                anchored_at=start.at - MICROSECOND,
            )
        else:
            limited = LimitedTrigger(
                trigger, start=start.at, end=end, duration=length, limit=parts.count
            )
        return self._fires(limited, end)

    def _fires(self, trigger: Trigger, end: datetime | None) -> Trigger:
        """A trigger that fires before it ends, as far as now and the end are known."""
        if end is None or not self._present.is_known:
            return trigger
        if trigger.next_fire_time(self._present.now) is None:
            raise PhraseError("until then it never fires, from now on")
        return trigger


def _check_moment(moment: Moment, parts: Parts, word: str) -> None:
    """Refuse a bare time beside days: it may be that of today or of each of them."""
    if moment.day is None and moment.time is not None and parts.given() & OF_DAYS:
        raise PhraseError(
            ambiguous(
                f"{word} {moment.time:%H:%M}",
                ("between 09:00 and 17:00", f"{word} 2030-12-31 09:00"),
            )
        )


def _is_once(parts: Parts) -> bool:
    if parts.day is not None or parts.later is not None:
        return True
    if parts.dates is None or parts.every is not None:
        return False
    if all(each.year is not None for each in parts.dates):
        return True
    day, month = parts.dates[0].day, MONTHS[parts.dates[0].month - 1]
    readings = (f"every year on {day} {month}", f"{day} {month} 2030")
    raise PhraseError(ambiguous(f"{day} {month}", readings))


def _is_plain_interval(parts: Parts) -> bool:
    every = parts.every
    if every is None or not every.is_of_clock:
        return False
    return parts.given() <= {"every", *_BOUNDS}
