"""The local times of a recurrence rule as sets."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.fire_time_sets import (
    ALL_DAY,
    NEVER_PERIODIC,
    CachedYears,
    Year,
    YearlySet,
    listed,
    multiples_of,
    on_days,
)
from go_scheduler.triggers.times import DAY, days_in, seconds_until

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from go_scheduler.triggers.fire_time_sets import SearchBudget
    from go_scheduler.triggers.recurrence.series import LocalTimes

_COST_OF_DAY = 3
_COST_OF_TIMES = 8
_TIMES_PER_UNIT = 32
_MOST_CACHED = 64
_FEW = 32


def times_of_rule(times: LocalTimes) -> YearlySet:
    """The local times of a rule as a set."""
    # The times are kept with their bits, so that no others get their identity.
    known: dict[int, tuple[Sequence[int], int]] = {}

    def bits(seconds: Sequence[int], budget: SearchBudget) -> int:
        if isinstance(seconds, range):
            budget.spend(_COST_OF_TIMES)
            multiples = multiples_of(seconds.step)
            return multiples << seconds.start & ALL_DAY if seconds else 0
        budget.spend(_COST_OF_TIMES + len(seconds) // _TIMES_PER_UNIT)
        if (found := known.get(id(seconds))) is None:
            found = seconds, _bits(seconds)
            if len(known) >= _MOST_CACHED:
                known.clear()
            known[id(seconds)] = found
        return found[1]

    @CachedYears
    def make(likeness: Hashable, year: int, budget: SearchBudget) -> Year:
        length = days_in(year)
        if (plain := times.plain(year)) is not None:
            days, seconds = plain
            return on_days(length, days, bits(seconds, budget))
        # Most days have the identical times, or equal steps.
        first = date(year, 1, 1).toordinal()
        found: dict[object, tuple[Sequence[int], int]] = {}
        for day, seconds in times.days(first, first + length - 1, budget):
            key = seconds if isinstance(seconds, range) else id(seconds)
            _, days = found.get(key, (seconds, 0))
            found[key] = seconds, days | 1 << day - first
            budget.spend(_COST_OF_DAY)
        return Year.of(
            length, [(bits(seconds, budget), days) for seconds, days in found.values()]
        )

    def find(year: int, budget: SearchBudget) -> Year:
        return make(times.likeness(year), year, budget)

    return YearlySet(find, 0 if times.settled else NEVER_PERIODIC)


def _bits(seconds: Sequence[int]) -> int:
    """Seconds of a day as the bits of an int."""
    if len(seconds) <= _FEW:
        return sum(1 << each for each in seconds)
    # With more of them it is quicker to write them down one beside the other.
    digits = bytearray(b"0" * DAY)
    for each in seconds:
        digits[-1 - each] = ord("1")
    return int(digits, 2)


def times_of_moments(moments: Collection[date]) -> YearlySet:
    """A set of moments: instants, local times, and dates with all their times."""
    times = sorted(each for each in moments if isinstance(each, datetime))
    days = [each.toordinal() for each in moments if not isinstance(each, datetime)]
    return listed(list(map(seconds_until, times)), days)


def is_instant(moment: date) -> bool:
    """Whether it is a time that is not local."""
    return isinstance(moment, datetime) and moment.tzinfo is not None
