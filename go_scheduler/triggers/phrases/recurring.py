"""Phrases that fire again and again, as cron expressions or recurrence rules."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from go_scheduler.triggers.combining import AnyOfTrigger
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.instants import MICROSECOND
from go_scheduler.triggers.phrases.parts import Every, only
from go_scheduler.triggers.phrases.phrase_days import checked_days, cron_days, rule_days
from go_scheduler.triggers.phrases.phrase_times import steps_of, times_of
from go_scheduler.triggers.phrases.phrase_words import PhraseError
from go_scheduler.triggers.phrases.times_of_day import field_of, grouped
from go_scheduler.triggers.recurrence import RecurrenceTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.triggers.base import Trigger
    from go_scheduler.triggers.phrases.moments import Instant, Present
    from go_scheduler.triggers.phrases.parts import Parts
    from go_scheduler.triggers.phrases.times_of_day import Times

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
