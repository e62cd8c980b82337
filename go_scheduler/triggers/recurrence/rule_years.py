"""The local times of a recurrence rule as sets."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.instants import seconds_until
from go_scheduler.triggers.years.cells import DAY, days_in, on_days
from go_scheduler.triggers.years.progression_years import comb
from go_scheduler.triggers.years.years import UNSETTLED, ListedYears, Remembered, Years

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from go_scheduler.triggers.recurrence.local_times import LocalTimes
    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort

# With more times than these it is quicker to write them down one beside the other.
_MOST_ONE_BY_ONE = 32
_PER_DAY = 3


class RuleYears(Years):
    """The times of a rule, year by year.

    Args:
        times: What finds them.
    """

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._known: Remembered[Cells] = Remembered(len)
        self._seconds: Remembered[tuple[int, Sequence[int]]] = Remembered()

    @property
    def settled(self) -> int:
        """From the beginning or never, as INTERVAL counts."""
        return 0 if self._times.settled else UNSETTLED

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        return self._known.get(
            self._times.likeness(year), lambda: self._made(year, effort)
        )

    def _made(self, year: int, effort: Effort) -> Cells:
        first, number = date(year, 1, 1).toordinal(), days_in(year)
        if (plain := self._times.plain(year)) is not None:
            days, times = plain
            effort.spend(_effort(times))
            return on_days(days, number, self._bits(times))
        # Most days have the identical times, or equal steps.
        by_times: dict[object, tuple[Sequence[int], int]] = {}
        rest = (1 << number) - 1
        for day, times in self._times.days(first, first + number - 1, effort):
            bit = 1 << day - first
            key = times if isinstance(times, range) else id(times)
            days = by_times[key][1] if key in by_times else 0
            by_times[key] = times, days | bit
            rest ^= bit
            effort.spend(_PER_DAY)
        found = {0: rest} if rest else {}
        for times, days in by_times.values():
            effort.spend(_effort(times))
            seconds = self._bits(times)
            found[seconds] = found.get(seconds, 0) | days
        return found

    def _bits(self, times: Sequence[int]) -> int:
        return self._seconds.get(id(times), lambda: (_bits(times), times))[0]


def years_of_moments(moments: Collection[date]) -> Years:
    """Single moments as sets: instants, local times, and dates with all their times."""
    times = sorted(each for each in moments if isinstance(each, datetime))
    days = [each.toordinal() for each in moments if not isinstance(each, datetime)]
    return ListedYears(list(map(seconds_until, times)), days)


def is_instant(moment: date) -> bool:
    """Whether it is a time that is not local."""
    return isinstance(moment, datetime) and moment.tzinfo is not None


def _effort(times: Sequence[int]) -> int:
    return 8 if isinstance(times, range) else 8 + len(times) // _MOST_ONE_BY_ONE


def _bits(times: Sequence[int]) -> int:
    """Seconds of a day as the bits of an int."""
    if isinstance(times, range):
        return comb(times.step) << times.start & (1 << DAY) - 1 if times else 0
    if len(times) <= _MOST_ONE_BY_ONE:
        return sum(1 << each for each in times)
    digits = bytearray(b"0" * DAY)
    for each in times:
        digits[-1 - each] = ord("1")
    return int(digits, 2)
