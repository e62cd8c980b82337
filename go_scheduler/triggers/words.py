"""English words that triggers describe themselves with."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
"""As Python numbers them: monday is 0."""

NEVER_FROM_NOW_ON = "it never fires from now on"
"""The warning for it."""

_NTH = ("first", "second", "third", "fourth", "fifth")
_UNITS = (
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
    ("microsecond", timedelta(microseconds=1)),
)


def listed(words: Iterable[str]) -> str:
    """One or more words as people list them: ``a, b and c``."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def spans(
    numbers: Iterable[int], name: Callable[[int], str] = str, *, to: str = " to "
) -> Sequence[str]:
    """Numbers in order as words, three or more in a row as the first and the last.

    Args:
        numbers: In ascending order.
        name: The word of a number.
        to: Between the first and the last.
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        if len(run) > 2:
            words.append(f"{name(run[0])}{to}{name(run[-1])}")
        else:
            words += map(name, run)
    return words


def counted(unit: str, count: int) -> str:
    """Such as ``day`` and ``2 days``."""
    return unit if count == 1 else f"{count} {unit}s"


def ordinal(number: int) -> str:
    """Such as ``1st``."""
    tens, ones = divmod(number % 100, 10)
    suffix = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{suffix}"


def nth(number: int) -> str:
    """Such as ``first``, ``20th``, ``last`` and ``second to last``."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{nth(-number)} to last"
    return _NTH[number - 1] if number <= len(_NTH) else ordinal(number)


def month_name(number: int) -> str:
    """The name of a month; 1 is january."""
    return MONTHS[number - 1]


def clock_time(local: datetime | time) -> str:
    """A time of day as people write it: ``08:30``, with seconds only if there are."""
    return clock_at(local.hour * 3600 + local.minute * 60 + local.second)


def clock_at(second: int) -> str:
    """A second of the day as people write its time: ``08:30``."""
    minute, second = divmod(second, 60)
    text = f"{minute // 60:02}:{minute % 60:02}"
    return f"{text}:{second:02}" if second else text


def length(duration: timedelta) -> str:
    """Such as ``1 hour`` and ``90 minutes``: in the largest unit in which it is whole.

    Days are no such unit: on the clock, some are longer than others.
    """
    name, unit = next(each for each in _UNITS if not duration % each[1])
    count = duration // unit
    return f"{count} {name}{'' if count == 1 else 's'}"


def every(duration: timedelta) -> str:
    """Such as ``every hour`` and ``every 90 minutes``."""
    return f"every {length(duration).removeprefix('1 ')}"


def moment(at: datetime) -> str:
    """An instant in words: the time in UTC, as short as it is exact."""
    whole = not at.second and not at.microsecond
    return at.replace(tzinfo=None).isoformat(" ", "minutes" if whole else "auto") + "Z"
