"""From the parts of a phrase to a trigger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import product
from typing import TYPE_CHECKING

from go_scheduler.triggers.combining import AllOfTrigger, AnyOfTrigger
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.excluding import ExceptTrigger, OnlyTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.limited import LimitedTrigger
from go_scheduler.triggers.local_time import load_zone
from go_scheduler.triggers.phrases.clock import (
    DAY,
    clear_times,
    grouped,
    seconds_of,
    spans,
    stepped,
    time_at,
)
from go_scheduler.triggers.phrases.days import (
    cron_days,
    of_the_year,
    rule_days,
    whole_days,
)
from go_scheduler.triggers.phrases.moments import CLOCK_UNITS, Present, duration
from go_scheduler.triggers.phrases.parts import SAID, AllOf, AnyOf, Every, Parts
from go_scheduler.triggers.phrases.words import PhraseError, ambiguous
from go_scheduler.triggers.recurrence import RecurrenceTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from go_scheduler.triggers.base import Trigger
    from go_scheduler.triggers.phrases.clock import Times
    from go_scheduler.triggers.phrases.moments import Instant
    from go_scheduler.triggers.phrases.parts import Phrase

_MICROSECOND = timedelta(microseconds=1)
_END_OF_DAY = time(23, 59, 59)
_FREQUENCIES = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_MOST_STEPS = 1000
_BOUNDS = {"starting", "until", "lasting", "count", "from_now"}
_OF_CLOCK = {"window", "minutes", "aligned"}
_OF_DAYS = {"weekdays", "nth", "dates", "months", "years"}


class Builder:
    """Makes triggers of phrases.

    Args:
        timezone: The name of the zone in which they are read.
        now: When they are said, in UTC; None: they may not count from now.
    """

    def __init__(self, timezone: str, now: datetime | None) -> None:
        self._timezone = timezone
        self._present = Present(load_zone(timezone), now)

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
        given = parts.given()
        if parts.delay is not None:
            _only(given, {"delay"}, "after each run")
            return DelayTrigger(duration(parts.delay))
        if _is_once(parts):
            return self._once(parts, given)
        parts, exceptions = self._without(parts)
        start = None if parts.starting is None else self._present.find(parts.starting)
        if parts.group is not None:
            _only(given, {"group", "excluded", "names", *_BOUNDS}, "with brackets")
            trigger = self.build(parts.group)
        elif _is_plain_interval(parts):
            return self._bounded(self._interval(parts, start), parts, None)
        else:
            trigger = self._recurring(parts, start)
            if parts.every is not None and _is_stepped(parts.every):
                start = None
        if exceptions:
            trigger = ExceptTrigger(trigger, exceptions, self._timezone)
        if parts.names is not None:
            trigger = OnlyTrigger(trigger, parts.names, self._timezone)
        return self._bounded(trigger, parts, start)

    # Once.

    def _once(self, parts: Parts, given: set[str]) -> Trigger:
        _only(given, {"day", "later", "dates", "times", "part"}, "once")
        if parts.later is not None and parts.times is None:
            return ExecuteOnceTrigger(self._present.later(parts.later))
        if parts.day is not None and isinstance(parts.day.day, datetime):
            _only(given, {"day"}, "with an exact time")
            return ExecuteOnceTrigger(self._present.find(parts.day).at)
        times = self._times(parts)
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
        return _any_of([ExecuteOnceTrigger(each) for each in instants])

    # Again and again.

    def _interval(self, parts: Parts, start: Instant | None) -> Trigger:
        assert parts.every is not None
        every = duration(parts.every)
        if start is None:
            return IntervalTrigger(every, anchored_at=self._present.now)
        if start.counted:
            return IntervalTrigger(every, anchored_at=start.at)
        return IntervalTrigger(every, anchor=start.at)

    def _recurring(self, parts: Parts, start: Instant | None) -> Trigger:
        if parts.every is None and parts.minutes is not None:
            parts = replace(parts, every=Every(1, "hour"))
        every = parts.every
        if every is not None and every.unit in CLOCK_UNITS:
            return self._crons(parts, self._steps(parts, every))
        _only(parts.given() & _OF_CLOCK, set(), "without a number of minutes or hours")
        parts = _checked_days(parts)
        groups = grouped(self._times(parts))
        if every is not None and _is_stepped(every):
            return self._rules(parts, groups, start)
        if cron_days(parts) is None:
            return self._rules(parts, groups, None)
        return self._crons(parts, groups)

    def _steps(self, parts: Parts, every: Every) -> Sequence[Times]:
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
            return self._past(parts, every)
        if parts.window is None:
            if DAY % seconds:
                raise PhraseError(
                    f"every {every.number} {every.unit}s does not come out even with"
                    " a day: say between which times"
                )
            return stepped(int(seconds), time(0), _END_OF_DAY)
        first, last = self._window(parts)
        if seconds_of(first) < seconds_of(last):
            return stepped(int(seconds), first, last)
        if seconds < 60 or parts.given() & _OF_DAYS:
            raise PhraseError(
                "it goes on past midnight: write what is before and what is after it"
                " as two phrases with 'or'"
            )
        before = stepped(int(seconds), first, _END_OF_DAY)
        rest = (seconds_of(first) - DAY) % int(seconds)
        if rest > seconds_of(last):
            return before
        return [*before, *stepped(int(seconds), time_at(rest), last)]

    def _past(self, parts: Parts, every: Every) -> Sequence[Times]:
        assert parts.minutes is not None
        hours = range(24)
        if every.unit != "hour" or every.number not in (1, 2, 3, 4, 6, 8, 12):
            raise PhraseError(
                "minutes past the hour go with every hour, or with every 2, 3, 4, 6, 8"
                " or 12 hours"
            )
        first, last = time(0), _END_OF_DAY
        if parts.window is not None:
            first, last = self._window(parts)
        times = [
            time(hour, minute)
            for hour in hours[:: int(every.number)]
            for minute in parts.minutes
        ]
        within = [each for each in times if first <= each <= last]
        if not within:
            raise PhraseError("none of its minutes is between its times")
        return grouped(within)

    def _crons(self, parts: Parts, groups: Sequence[Times]) -> Trigger:
        days = cron_days(_checked_days(parts))
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
                years = "*" if parts.years is None else spans(parts.years)
                text = f"{seconds} {text} {years}"
            found.append(CronTrigger(text, self._timezone))
        return _any_of(found)

    def _rules(
        self, parts: Parts, groups: Sequence[Times], start: Instant | None
    ) -> Trigger:
        """Recurrence rules, whose steps count from the first time there would be."""
        if parts.years is not None:
            raise PhraseError("the years only go with every day, week, month or year")
        every = _in_weeks(parts.every or Every(1, "month"))
        days = list(rule_days(parts))
        plain, counted = (
            [_rule(each, days, times) for times in groups]
            for each in (Every(1, every.unit), every)
        )
        if plain == counted:
            return _any_of([RecurrenceTrigger(each, self._timezone) for each in plain])
        begin = self._present.now if start is None else start.at - _MICROSECOND
        first = self._first(plain, begin)
        if start is None or start.counted:
            # A recurrence begins after its anchor.
            anchor = self._present.before(first, every)
            made = [
                RecurrenceTrigger(each, self._timezone, anchored_at=anchor)
                for each in counted
            ]
        else:
            made = [
                RecurrenceTrigger(each, self._timezone, start=first) for each in counted
            ]
        return _any_of(made)

    def _first(self, rules: Sequence[str], after: datetime) -> datetime:
        triggers = [
            RecurrenceTrigger(each, self._timezone, anchored_at=after) for each in rules
        ]
        found = [each.next_fire_time(after) for each in triggers]
        times = [each for each in found if each is not None]
        if not times:
            raise PhraseError("it never fires")
        return min(times)

    def _times(self, parts: Parts) -> Sequence[time]:
        if parts.times is None:
            raise PhraseError(
                "it does not say at what time: add one such as 'at 09:00'; what is"
                " counted in hours, such as 'every 24 hours', needs none"
            )
        return clear_times(parts.times, parts.part)

    def _window(self, parts: Parts) -> tuple[time, time]:
        assert parts.window is not None
        first, last = (clear_times([each], parts.part)[0] for each in parts.window)
        if first == last:
            raise PhraseError(f"nothing is between {first:%H:%M} and {last:%H:%M}")
        return first, last

    # With exceptions, and within bounds.

    def _without(self, parts: Parts) -> tuple[Parts, list[str | Trigger]]:
        """The parts without the days left out, as far as they can name them."""
        exceptions: list[str | Trigger] = []
        for said in parts.excluded:
            named = _named_without(parts, said)
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
            # An end alone counts from nowhere: it may have passed, and is no error.
            ends = end is not None and length is None and parts.count is None
            return limited if ends else limited.anchored(self._present.now)
        if start.counted:
            return LimitedTrigger(
                trigger,
                end=end,
                duration=length,
                limit=parts.count,
                anchored_at=start.at,
            )
        return LimitedTrigger(
            trigger, start=start.at, end=end, duration=length, limit=parts.count
        )


def _only(given: set[str], allowed: set[str], where: str) -> None:
    """Refuse what makes no sense beside the rest."""
    for name in sorted(given - allowed):
        raise PhraseError(f"it cannot say {SAID[name]} {where}")


def _is_once(parts: Parts) -> bool:
    if parts.day is not None or parts.later is not None:
        return True
    if parts.dates is None or parts.every is not None:
        return False
    if all(each.year is not None for each in parts.dates):
        return True
    shown = f"{parts.dates[0].day}.{parts.dates[0].month}."
    raise PhraseError(
        ambiguous(shown, ("every year on that day", "the day with its year"))
    )


def _is_plain_interval(parts: Parts) -> bool:
    every = parts.every
    if every is None or every.unit not in CLOCK_UNITS:
        return False
    return parts.given() <= {"every", *_BOUNDS}


def _is_stepped(every: Every) -> bool:
    """Whether every so many days, weeks, months or years are meant."""
    return every.unit not in CLOCK_UNITS and (
        every.number != 1 or every.unit == "fortnight"
    )


def _in_weeks(every: Every) -> Every:
    return Every(2 * every.number, "week") if every.unit == "fortnight" else every


def _checked_days(parts: Parts) -> Parts:
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
        raise PhraseError("it says in several ways on which days: write them with 'or'")
    if unit == "year" and parts.nth is not None and parts.months is None:
        parts = replace(parts, months=of_the_year(parts.nth))
    needed = {"week": {"weekdays"}, "fortnight": {"weekdays"}, "month": {"nth"}}
    needed["year"] = {"dates", "nth"}
    if unit in needed and not ways & needed[unit]:
        raise PhraseError(f"it does not say on which day of the {unit}")
    if not unit and not ways and parts.months is None:
        raise PhraseError("it does not say on which days: write 'every day at …'")
    if not unit and parts.lone is not None and parts.months is None:
        text = parts.lone.lower()
        raise PhraseError(ambiguous(text, (f"every {text}", f"this {text}")))
    return parts


def _named_without(parts: Parts, said: Mapping[str, object]) -> Parts | None:
    """The parts that name the other days, if they can."""
    if parts.group is not None or parts.nth is not None or parts.dates is not None:
        return None
    if parts.every is not None and _is_stepped(parts.every):
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


def _any_of(triggers: Sequence[Trigger]) -> Trigger:
    return triggers[0] if len(triggers) == 1 else AnyOfTrigger(triggers)
