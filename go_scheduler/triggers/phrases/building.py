"""What a phrase says, and the trigger that it describes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from dateutil.relativedelta import relativedelta

from go_scheduler.formatting import a
from go_scheduler.triggers.combining import (
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.local_time import WallClock, load_zone, next_instant
from go_scheduler.triggers.phrases.words import PhraseError, ambiguous
from go_scheduler.triggers.recurrence import RecurrenceTrigger
from go_scheduler.triggers.recurrence_rules import WEEKDAY_CODES
from go_scheduler.triggers.simple import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
)
from go_scheduler.triggers.times import LAST_INSTANT, MICROSECOND
from go_scheduler.triggers.words import MONTHS, WEEKDAYS, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from go_scheduler.triggers.base import Trigger


class Every(NamedTuple):
    """So many of a unit: an interval, or a length of time."""

    number: float
    unit: str

    @property
    def is_of_clock(self) -> bool:
        """Whether it is elapsed time, and not counted on the calendar."""
        return self.unit in ("microsecond", "millisecond", "second", "minute", "hour")

    @property
    def is_stepped(self) -> bool:
        """Whether every so many days, weeks, months or years are meant."""
        return not self.is_of_clock and (self.number != 1 or self.unit == "fortnight")

    @property
    def by_name(self) -> Mapping[str, float]:
        """As the arguments that lengths of time take, which know no fortnights."""
        if self.unit == "fortnight":
            return {"weeks": 2 * self.number}
        return {f"{self.unit}s": self.number}

    def duration(self) -> timedelta:
        """The length of elapsed time.

        Raises:
            PhraseError: It is counted on the calendar, or is zero or too long.
        """
        if self.unit in ("month", "year"):
            raise PhraseError(f"{self.unit}s are not all of one length: count in days")
        try:
            found = timedelta(**self.by_name)
        except OverflowError:
            found = timedelta(0)
        if found <= timedelta(0):
            raise PhraseError(f"{self.number} {self.unit}s is no length of time")
        return found


class Nth(NamedTuple):
    """One of the days of a month: the nth day, or the nth of some weekdays.

    Attributes:
        number: 1 for the first; -1 for the last.
        weekdays: Of which weekdays, Monday is 0; None: of all days.
    """

    number: int
    weekdays: frozenset[int] | None = None


class YearDay(NamedTuple):
    """A date of every year, or of one."""

    day: int
    month: int
    year: int | None = None


class Moment(NamedTuple):
    """When something starts or ends.

    Attributes:
        day: An instant, a date, a date of the year, a weekday, or how many days from
            today; None: the next day that has the time to come.
        time: At what time of that day; None: none was given.
        length: So long from now instead.
    """

    day: datetime | date | YearDay | frozenset[int] | int | None = None
    time: time | None = None
    length: Every | None = None


class Said(TypedDict, total=False):
    """What a phrase says, or one clause of it.

    Times may be bare hours. ``lone`` is a single day of the week or of the month as it
    was written, which may be that of this week or that of every week. ``often`` is
    how many times in each unit there are. ``step`` is a number of units that only
    ``every`` can stand before.
    """

    every: Every
    step: Every
    weekdays: frozenset[int]
    nth: Sequence[Nth]
    lone: str
    dates: Sequence[YearDay]
    months: frozenset[int]
    years: Sequence[int]
    times: Sequence[time | int]
    minutes: Sequence[int]
    window: tuple[time | int, time | int]
    part: str
    aligned: bool
    names: Sequence[str]
    starting: Moment
    until: Moment
    lasting: Every
    count: int
    often: int
    from_now: bool
    day: datetime | date | frozenset[int] | int
    later: Every
    delay: Every
    group: Trigger
    excluded: Sequence[Said]


IN_WORDS = {
    "every": "how often",
    "weekdays": "on which days of the week",
    "lone": "on which day of the week",
    "nth": "on which days of the month",
    "dates": "on which dates",
    "months": "in which months",
    "years": "in which years",
    "times": "at what time",
    "minutes": "at which minute of the hour",
    "window": "between which times",
    "part": "in which part of the day",
    "aligned": "how it follows the clock",
    "names": "on the days of which calendars",
    "starting": "when it starts",
    "until": "when it ends",
    "lasting": "how long it goes on",
    "count": "how many times it fires",
    "often": "how many times in each",
    "from_now": "that it starts now",
    "day": "on which day",
    "later": "how much later",
    "delay": "how long after each run",
    "group": "what is in brackets",
    "excluded": "what it leaves out",
}
"""What each clause says, for messages."""

EITHER_OR_BOTH = (
    "write them with 'or'; for those that are both, as a friday that is a 13th, write"
    " 'whenever both every friday at 09:00 and the 13th of every month at 09:00'"
)
"""Advice for days of the week beside days of the month."""

_BOUNDS = {"starting", "until", "lasting", "count", "from_now"}
_OF_CLOCK = {"window", "minutes", "aligned"}
_OF_DAYS = {"weekdays", "nth", "dates", "months"}


def trigger_of(said: Said, present: Present) -> Trigger:
    """The trigger that a phrase describes.

    Raises:
        PhraseError: It says too little, too much, or something unclear.
        InvalidTriggerError: There is no such trigger.
    """
    if "often" in said:
        _check_often(cast("Mapping[str, Any]", said))
        del said["often"]
    if "delay" in said:
        _refuse(said.keys() - {"delay"}, "after each run")
        return DelayTrigger(said["delay"].duration())
    if _is_once(said):
        return _once(said, present)
    exceptions: list[str | Trigger] = []
    for excluded in said.get("excluded", ()):
        if (other := _other_days(said, excluded)) is not None:
            said = other
        else:
            exceptions += _exceptions(excluded, present)
    start = None
    if "starting" in said:
        _check_moment(said["starting"], said, "starting")
        start = present.find(said["starting"])
    counted = start
    if start is not None and "lasting" in said:
        # A length of time counts from the start: the phrase needs no other one.
        counted = start._replace(counted=True)
    every = said.get("every")
    trigger: Trigger
    if "group" in said:
        _refuse(said.keys() - {"group", "excluded", "names", *_BOUNDS}, "with brackets")
        trigger = said["group"]
    elif every and every.is_of_clock and said.keys() <= {"every", *_BOUNDS}:
        length = every.duration()
        begin = counted or Instant(present.now, counted=True)
        trigger = IntervalTrigger(length, begin.fixed, anchored_at=begin.anchor)
        if "lasting" not in said:
            start = None
    else:
        trigger = _recurring(said, counted, present)
        if every and every.is_stepped and "lasting" not in said:
            # Its steps begin there.
            start = None
    if exceptions:
        trigger = ExceptTrigger(trigger, exceptions, present.timezone)
    if "names" in said:
        trigger = OnlyTrigger(trigger, said["names"], present.timezone)
    return _bounded(trigger, said, start, present)


def _refuse(names: Set[str], where: str) -> None:
    for name in sorted(names):
        raise PhraseError(f"it cannot say {IN_WORDS[name]} {where}")


def _any_of(triggers: Sequence[Trigger]) -> Trigger:
    return triggers[0] if len(triggers) == 1 else AnyOfTrigger(triggers)


# What a number of times in a unit has to name, and an example.
_OFTEN = {
    "hour": ("minutes", "every hour at :15 and :45"),
    "day": ("times", "every day at 09:00 and 17:00"),
    "week": ("weekdays", "every monday and thursday at 09:00"),
    "month": ("nth", "the 1st and 15th of every month at 09:00"),
    "year": ("dates", "every 1 january and 1 july at 09:00"),
}


def _check_often(said: Mapping[str, Any]) -> None:
    """Refuse ``twice a day`` unless two times are named, and so on."""
    unit = said["every"].unit
    name, example = _OFTEN.get(unit, ("", _OFTEN["day"][1]))
    number = len(said.get(name, ()))
    if number != said["often"]:
        raise PhraseError(
            f"it says {said['often']} times {a(unit)}, and names {number or 'none'}:"
            f" write all of them, as in {example!r}"
        )


# Once.


def _is_once(said: Said) -> bool:
    if "day" in said or "later" in said:
        return True
    if "dates" not in said or "every" in said:
        return False
    if all(each.year is not None for each in said["dates"]):
        return True
    day, month = said["dates"][0].day, MONTHS[said["dates"][0].month - 1]
    readings = (f"every year on {day} {month}", f"{day} {month} 2030")
    raise PhraseError(ambiguous(f"{day} {month}", readings))


def _once(said: Said, present: Present) -> Trigger:
    if said.get("count") == 1:
        del said["count"]
    _refuse(said.keys() - {"day", "later", "dates", "times", "part"}, "once")
    later, day = said.get("later"), said.get("day")
    if later is not None and "times" not in said:
        return ExecuteOnceTrigger(present.later(later))
    if isinstance(day, datetime):
        _refuse(said.keys() - {"day"}, "with an exact time")
        return ExecuteOnceTrigger(present.find(Moment(day)).at)
    if later is not None and later.is_of_clock:
        raise PhraseError("it cannot say at what time when it counts in hours")
    times = _times(said)
    days: list[date] = []
    if later is not None:
        days.append(present.later(later).astimezone(present.zone).date())
    named = [*([] if day is None else [day]), *said.get("dates", ())]
    days += [present.day(each)[0] for each in named]
    instants = [
        present.instant(datetime.combine(each, at)) for each, at in product(days, times)
    ]
    if isinstance(day, int) and "dates" not in said and min(instants) <= present.now:
        raise PhraseError("that time has passed")
    return _any_of([ExecuteOnceTrigger(each) for each in instants])


# With exceptions, and within bounds.


def _other_days(said: Said, excluded: Said) -> Said | None:
    """A phrase that names the other days in place of an exception, if it can."""
    if said.keys() & {"group", "nth", "dates"}:
        return None
    if "every" in said and said["every"].is_stepped:
        return None
    if "weekdays" in excluded:
        days = said.get("weekdays", frozenset(range(7))) - excluded["weekdays"]
        return {**said, "weekdays": _some(days)}
    if "months" in excluded:
        months = said.get("months", frozenset(range(1, 13))) - excluded["months"]
        return {**said, "months": _some(months)}
    return None


def _some(left: frozenset[int]) -> frozenset[int]:
    if not left:
        raise PhraseError("its exceptions leave nothing")
    return left


def _exceptions(excluded: Said, present: Present) -> Sequence[str | Trigger]:
    if "names" in excluded:
        return excluded["names"]
    if "group" in excluded:
        return [excluded["group"]]
    days = _cron_days(excluded) or ()
    return [CronTrigger(f"* * * {each} *", present.timezone) for each in days]


def _check_moment(moment: Moment, said: Said, word: str) -> None:
    """Refuse a bare time beside days: it may be that of today or of each of them."""
    if moment.day is None and moment.time is not None and said.keys() & _OF_DAYS:
        raise PhraseError(
            ambiguous(
                f"{word} {moment.time:%H:%M}",
                ("between 09:00 and 17:00", f"{word} 2030-12-31 09:00"),
            )
        )


def _bounded(
    trigger: Trigger, said: Said, start: Instant | None, present: Present
) -> Trigger:
    end = length = None
    if "until" in said:
        _check_moment(said["until"], said, "until")
        end = present.find(said["until"], ends=True).at
    if "lasting" in said:
        length = said["lasting"].duration()
    count = said.get("count")
    if not (start or end or length or "count" in said or "from_now" in said):
        return trigger
    limited = LimitedTrigger(
        trigger,
        start=start and start.fixed,
        end=end,
        duration=length,
        limit=count,
        # It may fire at once.
        anchored_at=start and start.anchor and start.anchor - MICROSECOND,
    )
    # An end alone counts from nowhere.
    if start is None and (end is None or length is not None or count is not None):
        limited = limited.anchored(present.now)
    if end is None or not present.is_known:
        return limited
    if limited.next_fire_time(present.now) is None:
        raise PhraseError("until then it never fires, from now on")
    return limited


# Again and again, by the calendar.


def _recurring(said: Said, start: Instant | None, present: Present) -> Trigger:
    """The trigger of its days and times.

    Args:
        said: What it says.
        start: From when steps of several days, weeks, months or years count.
        present: Where and when it is said.
    """
    if "minutes" in said and "every" not in said:
        said = {**said, "every": Every(1, "hour")}
    every = said.get("every")
    if every is not None and every.is_of_clock:
        steps = _steps_within(said, every)
        return _crons(_checked_days(said), steps, present)
    _refuse(said.keys() & _OF_CLOCK, "without a number of minutes or hours")
    said = _checked_days(said)
    groups = _grouped(_times(said))
    if every is not None and every.is_stepped:
        return _rules(said, groups, start, present)
    if _cron_days(said) is None:
        return _rules(said, groups, None, present)
    return _crons(said, groups, present)


_MOST_CRONS = 100


def _crons(said: Said, groups: Sequence[Times], present: Present) -> Trigger:
    days = _cron_days(said)
    if days is None:
        raise PhraseError(
            "such days of the month only go with times of day: write at what time"
        )
    if len(days) * len(groups) > _MOST_CRONS:
        raise PhraseError("it has too many different times")
    found = []
    for day, times in product(days, groups):
        seconds, minutes, hours = times.cron()
        text = f"{minutes} {hours} {day}"
        if seconds != "0" or "years" in said:
            years = _field(said["years"]) if "years" in said else "*"
            text = f"{seconds} {text} {years}"
        found.append(CronTrigger(text, present.timezone))
    return _any_of(found)


def _rules(
    said: Said, groups: Sequence[Times], start: Instant | None, present: Present
) -> Trigger:
    """Recurrence rules, whose steps count from the first time there would be."""
    if "years" in said:
        raise PhraseError("the years only go with every day, week, month or year")
    every = said.get("every", Every(1, "month"))
    ((unit, count),) = every.by_name.items()
    days = _rule_days(said)
    if not isinstance(count, int) or count < 1:
        raise PhraseError(f"{unit} can only be counted whole, from 1 on")
    if any("BYSETPOS" in each for each in days):
        # It picks from all times of a month: a rule of one time a day picks a day.
        groups = [
            Times([hour], [minute], [second])
            for each in groups
            for hour, minute, second in product(each.hours, each.minutes, each.seconds)
        ]

    def rules(*interval: str) -> Sequence[str]:
        frequency = f"FREQ={_FREQUENCIES[unit]}"
        return [";".join((frequency, *interval, *days, each.rule())) for each in groups]

    zone = present.timezone
    plain = rules()
    if count == 1:
        return _any_of([RecurrenceTrigger(each, zone) for each in plain])
    counted = rules(f"INTERVAL={count}")
    begin = present.now if start is None else start.at - MICROSECOND
    triggers = [RecurrenceTrigger(each, zone, anchored_at=begin) for each in plain]
    times = [each.next_fire_time(begin) for each in triggers]
    first = min(filter(None, times), default=begin)
    if start is not None and not start.counted:
        return _any_of([_rule_from(each, first, zone) for each in counted])
    # A recurrence begins after its anchor.
    anchor = present.before(first, every)
    triggers = [RecurrenceTrigger(each, zone, anchored_at=anchor) for each in counted]
    return _any_of(triggers)


def _rule_from(rule: str, start: datetime, zone: str) -> RecurrenceTrigger:
    """A rule whose steps count from an instant, from its own first time on."""
    trigger = RecurrenceTrigger(rule, zone, start=start)
    first = trigger.next_fire_time(start - MICROSECOND)
    assert first is not None, "or it would have been refused"
    return RecurrenceTrigger(rule, zone, start=first)


# On which days.

_FREQUENCIES = {
    "days": "DAILY",
    "weeks": "WEEKLY",
    "months": "MONTHLY",
    "years": "YEARLY",
}
_CRON_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MONDAY_TO_FRIDAY = frozenset(range(5))
_NEEDED = {
    "week": {"weekdays"},
    "fortnight": {"weekdays"},
    "month": {"nth"},
    "year": {"dates", "nth"},
}


def _checked_days(said: Said) -> Said:
    """What it says, if it says on which days in one way, and of which months."""
    every, lone = said.get("every"), said.get("lone", "").lower()
    unit = "" if every is None else every.unit
    is_stepped = unit in ("day", "week", "fortnight") and every != Every(1, "week")
    if "nth" in said and is_stepped:
        raise PhraseError(f"days of the month do not go with every so many {unit}s")
    ways = said.keys() & {"weekdays", "nth", "dates"}
    if len(ways) > 1:
        raise PhraseError(f"it says in several ways on which days: {EITHER_OR_BOTH}")
    if unit == "year" and "nth" in said and "months" not in said:
        said = {**said, "months": _month_of_the_year(said["nth"])}
    needed = _NEEDED.get(unit, ways)
    if unit == "year" and "months" in said:
        needed = {*needed, "weekdays"}
    if unit in _NEEDED and not ways & needed:
        raise PhraseError(f"it does not say on which day of the {unit}")
    if unit or "months" in said:
        return said
    if not ways:
        raise PhraseError("it does not say on which days: write 'every day at …'")
    if lone and "nth" in said:
        raise PhraseError(
            "it may be one day or that of every month: write"
            f" 'the {said['lone']} of every month', or a date such as 2030-06-05"
        )
    if lone:
        raise PhraseError(ambiguous(lone, (f"every {lone}", f"this {lone}")))
    return said


def _month_of_the_year(nth: Sequence[Nth]) -> frozenset[int]:
    """The month in which the first or the last days of a year are."""
    if all(each.number == -1 for each in nth):
        return frozenset({12})
    if all(1 <= each.number <= (31 if each.weekdays is None else 4) for each in nth):
        return frozenset({1})
    raise PhraseError("write of which month, not of the year")


def _cron_days(said: Said) -> Sequence[str] | None:
    """The three day fields of cron expressions; None: only a rule can say the days."""
    month = _field(sorted(said["months"])) if "months" in said else "*"
    if "dates" in said:
        if "months" in said:
            raise PhraseError("it says twice in which months")
        _check_years(said["dates"])
        return [f"{each.day} {each.month} *" for each in said["dates"]]
    if "nth" in said:
        return _cron_nth(said["nth"], month)
    days = said.get("weekdays", frozenset(range(7)))
    if len(days) == 7:
        return [f"* {month} *"]
    if days == _MONDAY_TO_FRIDAY:
        return [f"* {month} MON-FRI"]
    return [f"* {month} {','.join(_CRON_DAYS[day] for day in sorted(days))}"]


def _check_years(dates: Sequence[YearDay]) -> None:
    if any(each.year is not None for each in dates):
        raise PhraseError("a date with its year comes once, and not every so often")


def _cron_nth(nth: Sequence[Nth], month: str) -> Sequence[str] | None:
    kinds = {each.weekdays for each in nth}
    if kinds == {None}:
        numbers = sorted({each.number for each in nth if each.number > 0})
        fields = [_field(numbers)] if numbers else []
        if any(each.number == -1 for each in nth):
            fields.append("L")
        return [f"{','.join(fields)} {month} *"]
    if all(kind is not None and len(kind) == 1 for kind in kinds):
        return [f"* {month} {','.join(map(_cron_nth_weekday, nth))}"]
    near = {1: "1W", -1: "LW"}
    if kinds == {_MONDAY_TO_FRIDAY} and all(each.number in near for each in nth):
        return [f"{','.join(near[each.number] for each in nth)} {month} *"]
    return None


def _cron_nth_weekday(nth: Nth) -> str:
    day = min(nth.weekdays or ())
    if nth.number == -1:
        return f"{(day + 1) % 7}L"
    if not 1 <= nth.number <= 5:
        raise PhraseError(f"no month has {nth.number} of one day of the week")
    return f"{_CRON_DAYS[day]}#{nth.number}"


def _rule_days(said: Said) -> Sequence[str]:
    """The days as parts of a recurrence rule."""
    parts = []
    if "weekdays" in said:
        parts.append(f"BYDAY={_codes(said['weekdays'])}")
    if "nth" in said:
        parts.append(_rule_nth(said["nth"]))
    if "dates" in said:
        _check_years(said["dates"])
        days = {each.day for each in said["dates"]}
        months = {each.month for each in said["dates"]}
        if len(said["dates"]) != len(days) * len(months):
            raise PhraseError("of several dates, write each with its own 'or'")
        parts += [f"BYMONTH={_listed(months)}", f"BYMONTHDAY={_listed(days)}"]
    elif "months" in said:
        parts.append(f"BYMONTH={_listed(said['months'])}")
    return parts


def _rule_nth(nth: Sequence[Nth]) -> str:
    kinds = {each.weekdays for each in nth}
    numbers = _listed({each.number for each in nth})
    if kinds == {None}:
        return f"BYMONTHDAY={numbers}"
    if all(kind is not None and len(kind) == 1 for kind in kinds):
        codes = [f"{each.number}{_codes(each.weekdays or ())}" for each in nth]
        return f"BYDAY={','.join(codes)}"
    if len(kinds) > 1:
        raise PhraseError("of several kinds of days, write each with its own 'or'")
    (kind,) = kinds
    return f"BYDAY={_codes(kind or ())};BYSETPOS={numbers}"


def _codes(weekdays: Iterable[int]) -> str:
    return ",".join(WEEKDAY_CODES[day] for day in sorted(weekdays))


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers, key=lambda each: (each < 0, each))))


def _field(numbers: Iterable[int]) -> str:
    """Numbers in ascending order as a field of a cron expression."""
    return ",".join(spans(numbers, to="-"))


# At what times of day.

_HOUR = 3600
_DAY = 24 * _HOUR
_END_OF_DAY = time(23, 59, 59)
_MORNING = time(6)
# Which times, in seconds of the day, a part of the day has.
_PARTS = {
    "morning": [range(12 * _HOUR)],
    "afternoon": [range(12 * _HOUR, 18 * _HOUR)],
    "evening": [range(17 * _HOUR, _DAY)],
    "night": [range(6 * _HOUR), range(18 * _HOUR, _DAY)],
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
    seconds: Sequence[int] = (0,)
    stepped: bool = False

    def cron(self) -> tuple[str, str, str]:
        """The cron fields of the seconds, the minutes and the hours."""
        hours = "*" if len(self.hours) == 24 else _field(self.hours)
        minutes = _stepped(self.minutes) if self.stepped else _field(self.minutes)
        return _stepped(self.seconds), minutes, hours

    def rule(self) -> str:
        """The times as parts of a recurrence rule."""
        names = ("BYHOUR", "BYMINUTE", "BYSECOND")
        parts = zip(names, (self.hours, self.minutes, self.seconds), strict=True)
        return ";".join(f"{name}={_listed(numbers)}" for name, numbers in parts)


def _stepped(numbers: Sequence[int]) -> str:
    """The numbers of a field of sixty, as a step if they are all of its multiples."""
    step = 60 // len(numbers)
    if step < 60 and list(numbers) == list(range(0, 60, step)):
        return "*" if step == 1 else f"*/{step}"
    return _field(numbers)


def _grouped(times: Iterable[time]) -> Sequence[Times]:
    """Times of day, in as few groups as expressions need, the earliest first."""
    minutes: dict[tuple[int, int], list[int]] = {}
    for each in sorted(set(times)):
        minutes.setdefault((each.second, each.hour), []).append(each.minute)
    hours: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for (second, hour), some in minutes.items():
        hours.setdefault((second, tuple(some)), []).append(hour)
    found = [Times(some, key[1], (key[0],)) for key, some in hours.items()]
    return sorted(found, key=lambda each: (each.hours[0], each.minutes, each.seconds))


def _steps(seconds: int, first: time, last: time) -> Sequence[Times]:
    """The times of day from one to another, so many seconds apart."""
    begin, end = _seconds_of(first), _seconds_of(last)
    if seconds >= 60:
        if seconds % 60:
            raise PhraseError(
                "on some days, or between two times, only steps of whole minutes, or of"
                " seconds that divide a minute, are possible"
            )
        times = map(_time_at, range(begin, end + 1, seconds))
        return _grouped(times) if seconds > _HOUR else _runs(times)
    if 60 % seconds or begin % 60:
        raise PhraseError(
            "on some days, or between two times, only steps of seconds that divide a"
            " minute are possible, from a whole minute on"
        )
    whole = range(begin, end + seconds - 59, 60)
    every = range(0, 60, seconds)
    groups = [each._replace(seconds=every) for each in _runs(map(_time_at, whole))]
    rest = range(begin + 60 * len(whole), end + 1, seconds)
    return [*groups, *_grouped(map(_time_at, rest))]


def _runs(times: Iterable[time]) -> Sequence[Times]:
    """Times of day at one second, in order, in groups whose hours follow each other."""
    found: list[Times] = []
    for (hour, second), group in groupby(times, key=lambda at: (at.hour, at.second)):
        minutes = [each.minute for each in group]
        if found and found[-1].minutes == minutes and found[-1].hours[-1] == hour - 1:
            found[-1] = found[-1]._replace(hours=[*found[-1].hours, hour])
        else:
            found.append(Times([hour], minutes, [second], stepped=True))
    return found


def _steps_within(said: Said, every: Every) -> Sequence[Times]:
    """The times of day of an interval that is bound to some of them."""
    if "times" in said:
        raise PhraseError(
            "it says how often within a day, and at what time: write between which"
            " times, or 'every day at …'"
        )
    seconds = every.duration() / timedelta(seconds=1)
    if seconds != int(seconds):
        raise PhraseError("on some days only whole seconds are possible")
    seconds = int(seconds)
    is_hourly = every.unit == "hour" and every.number in (1, 2, 3, 4, 6, 8, 12)
    if "minutes" in said and not is_hourly:
        raise PhraseError(
            "minutes past the hour go with every hour, or with every 2, 3, 4, 6, 8"
            " or 12 hours"
        )
    first, last = time(0), _END_OF_DAY
    if "window" in said:
        first, last = (_clear(each, said.get("part")) for each in said["window"])
        if first == last:
            raise PhraseError(f"nothing is between {first:%H:%M} and {last:%H:%M}")
    if "minutes" in said:
        hours = range(first.hour % int(every.number), 24, int(every.number))
        times = [time(*each) for each in product(hours, said["minutes"])]
        within = [each for each in times if first <= each <= last]
        if not within:
            raise PhraseError("none of its minutes is between its times")
        return _grouped(within)
    if "window" not in said and _DAY % seconds:
        raise PhraseError(
            f"every {every.number} {every.unit}s does not come out even with"
            " a day: say between which times"
        )
    if first < last:
        return _steps(seconds, first, last)
    if seconds < 60 or said.keys() & {*_OF_DAYS, "years"}:
        raise PhraseError(
            "it goes on past midnight: write what is before and what is after it"
            " as two phrases with 'or'"
        )
    before = _steps(seconds, first, _END_OF_DAY)
    rest = (_seconds_of(first) - _DAY) % seconds
    if rest > _seconds_of(last):
        return before
    return [*before, *_steps(seconds, _time_at(rest), last)]


def _times(said: Said) -> Sequence[time]:
    """The times of day that a phrase names."""
    if "times" not in said:
        raise PhraseError(
            "it does not say at what time: add one such as 'at 09:00'; what is"
            " counted in hours, such as 'every 24 hours', needs none"
        )
    part = said.get("part")
    times = sorted({_clear(each, part) for each in said["times"]})
    days = said.keys() & {*_OF_DAYS, "day", "later"}
    if part == "night" and days and times[0] < _MORNING:
        readings = ("every monday at 02:00", "every tuesday at 02:00")
        raise PhraseError(ambiguous(f"{times[0]:%H:%M} at night", readings))
    return times


def _clear(given: time | int, part: str | None) -> time:
    """A time of day; the part of the day tells which one a bare hour means."""
    if isinstance(given, time):
        text = f"{given:%H:%M}"
        readings = [given.replace(fold=0)]
        if part is None:
            return readings[0]
        if given.fold and given.hour < 12:
            readings.append(time(given.hour + 12, given.minute, given.second))
    elif not isinstance(given, int) or not 0 <= given <= 24:
        raise PhraseError(f"{given} is no hour: write a time such as 09:00 or 5pm")
    else:
        text = str(given)
        later = [time(given % 12 + 12)] if 1 <= given <= 12 else []
        readings = [time(given % 12 if later else given % 24), *later]
    if part is None:
        raise PhraseError(ambiguous(text, [f"{each:%H:%M}" for each in readings]))
    for each in readings:
        if any(_seconds_of(each) in some for some in _PARTS[part]):
            return each
    raise PhraseError(f"{text} is not in the {part}")


def _seconds_of(given: time) -> int:
    return (given.hour * 60 + given.minute) * 60 + given.second


def _time_at(seconds: int) -> time:
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60)


# Moments, counted from the present one.

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

    @property
    def fixed(self) -> datetime | None:
        """The instant, if it is part of a trigger's value."""
        return None if self.counted else self.at

    @property
    def anchor(self) -> datetime | None:
        """The instant, if it is kept beside a trigger's value."""
        return self.at if self.counted else None


class Present:
    """Where and when a phrase is said.

    Args:
        timezone: The name of the zone in which its times are read.
        now: When, in UTC; None: it may not count from now.
    """

    def __init__(self, timezone: str, now: datetime | None) -> None:
        self.timezone = timezone
        self.zone = load_zone(timezone)
        self.is_known = now is not None
        self._now = now

    @property
    def now(self) -> datetime:
        """The present time, in UTC.

        Raises:
            PhraseError: It was not given.
        """
        if self._now is None:
            raise PhraseError("it counts from the present time: pass now=")
        return self._now

    def later(self, length: Every) -> datetime:
        """So much later than now: calendar units at the same time of day."""
        try:
            if length.is_of_clock:
                return self.now + length.duration()
            return self.instant(_on_the_calendar(self._local(), length, 1))
        except (OverflowError, ValueError):
            raise PhraseError("it lies beyond the year 9999") from None

    def before(self, instant: datetime, length: Every) -> datetime:
        """So many calendar units before an instant, at the same time of day."""
        local = instant.astimezone(self.zone).replace(tzinfo=None)
        try:
            local = _on_the_calendar(local, length, -1)
            try:
                return self.instant(local)
            except PhraseError:
                # A day that the zone has skipped; the one before that is as good.
                return self.instant(_on_the_calendar(local, length, -1))
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
        given = moment.time or (_LAST_OF_DAY if ends else time(0))
        if moment.day is not None:
            day, counted = self.day(moment.day)
            return Instant(self.instant(datetime.combine(day, given)), counted=counted)
        today = self._local().date()
        at = self.instant(datetime.combine(today, given))
        if at <= self.now:
            tomorrow = today + timedelta(days=1)
            at = self.instant(datetime.combine(tomorrow, given))
        return Instant(at, counted=True)

    def day(self, said: date | YearDay | frozenset[int] | int) -> tuple[date, bool]:
        """A day, and whether it was counted from today."""
        match said:
            case YearDay(day, month, int(year)):
                try:
                    return date(year, month, day), False
                except ValueError:
                    text = f"{year}-{month:02}-{day:02} does not exist"
                    raise PhraseError(text) from None
            case date():
                return said, False
            case frozenset() if len(said) > 1:
                raise PhraseError("it starts or ends on one day, not on several")
        today = self._local().date()
        match said:
            case YearDay():
                return _next_date(said, today), True
            case int():
                return today + timedelta(days=said), True
        (weekday,) = said
        ahead = (weekday - today.weekday()) % 7
        if not ahead:
            readings = ("today", f"{today + timedelta(days=7)}")
            raise PhraseError(ambiguous(WEEKDAYS[weekday], readings))
        return today + timedelta(days=ahead), True

    def instant(self, local: datetime) -> datetime:
        """The instant of a local time, by the rule of gaps and overlaps."""

        def search(start: datetime) -> datetime | None:
            return local if start <= local else None

        before = (local - timedelta(days=3)).replace(tzinfo=UTC)
        found = next_instant(search, before, WallClock(self.zone))
        if found is not None:
            return found
        if local.date() == date.max:
            return LAST_INSTANT
        raise PhraseError(f"{local} does not exist in this time zone")

    def _local(self) -> datetime:
        return self.now.astimezone(self.zone).replace(tzinfo=None)


def _on_the_calendar(local: datetime, length: Every, sign: int) -> datetime:
    if not isinstance(length.number, int):
        raise PhraseError(f"{length.unit}s can only be counted whole")
    return local + sign * relativedelta(**length.by_name)  # type: ignore[arg-type]


def _next_date(said: YearDay, today: date) -> date:
    for year in range(today.year, today.year + _LEAP_YEARS + 1):
        try:
            found = date(year, said.month, said.day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise PhraseError(f"{said.day} {MONTHS[said.month - 1]} does not exist")
