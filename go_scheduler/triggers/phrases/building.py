"""From the parts of a phrase to a trigger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING

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
from go_scheduler.triggers.instants import MICROSECOND
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.phrases.moments import Present, duration
from go_scheduler.triggers.phrases.parts import (
    OF_DAYS,
    AllOf,
    AnyOf,
    Moment,
    Parts,
    only,
)
from go_scheduler.triggers.phrases.phrase_days import (
    check_often,
    other_days,
    whole_days,
)
from go_scheduler.triggers.phrases.phrase_times import times_of
from go_scheduler.triggers.phrases.phrase_words import PhraseError, ambiguous
from go_scheduler.triggers.phrases.recurring import Recurring, any_of
from go_scheduler.triggers.wall.zones import load_zone
from go_scheduler.triggers.words import MONTHS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.triggers.base import Trigger
    from go_scheduler.triggers.phrases.moments import Instant
    from go_scheduler.triggers.phrases.parts import Phrase

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
