"""The numbers that the fields of a cron expression match."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from go_scheduler.triggers.cron.cron_days import CronDays

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TIMES = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """The fields of a cron expression; each set of numbers is the bits of an int.

    Attributes:
        seconds: Seconds of the minute.
        minutes: Minutes of the hour.
        hours: Hours of the day.
        days: Days of the month and of the week.
        months: Months of the year.
        years: Years; empty if any will do.
        elapsed: Whether it follows elapsed time where the clocks change.
    """

    seconds: int
    minutes: int
    hours: int
    days: CronDays
    months: int
    years: frozenset[int]
    elapsed: bool

    def times_of_day(self) -> Sequence[timedelta]:
        """The times of day that match, in order; none if they are more than 1,440."""
        return _times_of_day(self.hours, self.minutes, self.seconds)


def numbers(bits: int) -> Sequence[int]:
    """The numbers that the bits of an int stand for, in order."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


@lru_cache(maxsize=256)
def _times_of_day(hours: int, minutes: int, seconds: int) -> Sequence[timedelta]:
    if prod(map(int.bit_count, (hours, minutes, seconds))) > _MOST_TIMES:
        return ()
    return tuple(
        timedelta(hours=hour, minutes=minute, seconds=second)
        for hour in numbers(hours)
        for minute in numbers(minutes)
        for second in numbers(seconds)
    )
