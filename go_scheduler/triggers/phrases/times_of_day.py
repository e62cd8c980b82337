"""Times of day, as cron expressions and recurrence rules write them."""

from __future__ import annotations

from collections import defaultdict
from datetime import time
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.phrases.phrase_words import PhraseError, ambiguous
from go_scheduler.triggers.words import spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
