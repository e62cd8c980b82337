"""Instants that follow each other at equal distances."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

from go_scheduler.triggers.instants import SECOND
from go_scheduler.triggers.years.cells import ALL_TIMES, DAY, days_in, first_second
from go_scheduler.triggers.years.years import (
    NEVER,
    UNSETTLED,
    Remembered,
    Years,
    after_year_of,
)

if TYPE_CHECKING:
    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort

_DAYS_PER_UNIT = 4
_PER_CELL = 8
_MOST_PHASES = 8


class ProgressionYears(Years):
    """A first second, and one after each so many more, for ever.

    Args:
        first: The first one.
        step: How many.
    """

    def __init__(self, first: int, step: int) -> None:
        self._first = first
        self._step = step
        self._known: Remembered[Cells] = Remembered(len)

    @property
    def settled(self) -> int:
        """Once it has begun, if weeks alike have the same; else it never is."""
        if 7 * DAY % self._step:
            return UNSETTLED
        return after_year_of(self._first)

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        number = days_in(year)
        # From the beginning of the year: years alike have begun alike.
        first = self._first - first_second(year)
        if first < 0:
            first %= self._step
        first = min(first, number * DAY)
        return self._known.get(
            (first, number), lambda: self._made(first, number, effort)
        )

    def _made(self, first: int, number: int, effort: Effort) -> Cells:
        by_first: dict[int, int] = {}
        for day in range(number):
            second = first - day * DAY
            if second < 0:
                second %= self._step
            second = min(second, DAY)
            by_first[second] = by_first.get(second, 0) | 1 << day
        effort.spend(number // _DAYS_PER_UNIT + _PER_CELL * len(by_first))
        multiples = comb(self._step)
        return {
            multiples << second & ALL_TIMES: days for second, days in by_first.items()
        }


@lru_cache(maxsize=64)
def comb(step: int) -> int:
    """The multiples of a step within a day."""
    number = (DAY - 1) // step + 1
    return ((1 << number * step) - 1) // ((1 << step) - 1) if number > 1 else 1


def progression(first: int, step: int, phase: int) -> Years:
    """Some of the instants at equal distances: those at whole seconds and a phase.

    Args:
        first: The first of all, in microseconds.
        step: How far they are apart, likewise.
        phase: So many microseconds after a whole second.
    """
    common = gcd(step, SECOND)
    if (phase - first) % common:
        return NEVER
    cycle = SECOND // common
    ahead = (phase - first) // common * pow(step // common, -1, cycle) % cycle
    return ProgressionYears((first + ahead * step) // SECOND, step // common)


def phases(first: int, step: int) -> frozenset[int] | None:
    """At how many microseconds after a whole second such instants are.

    Returns:
        None: at more than a few.
    """
    number = SECOND // gcd(step, SECOND)
    if number > _MOST_PHASES:
        return None
    return frozenset((first + index * step) % SECOND for index in range(number))
