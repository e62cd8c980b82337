"""The times of day that a phrase names, or that it goes through in steps."""

from __future__ import annotations

from datetime import time, timedelta
from typing import TYPE_CHECKING

from go_scheduler.triggers.phrases.moments import duration
from go_scheduler.triggers.phrases.parts import OF_DAYS
from go_scheduler.triggers.phrases.phrase_words import PhraseError, ambiguous
from go_scheduler.triggers.phrases.times_of_day import (
    DAY,
    clear_times,
    grouped,
    seconds_of,
    stepped,
    time_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.phrases.parts import Every, Parts
    from go_scheduler.triggers.phrases.times_of_day import Times

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
