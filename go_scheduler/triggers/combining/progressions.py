"""Instants at equal distances: where several meet, and where some leave out all others.

Arithmetic finds this. Steps of 86,399 and 86,291 seconds meet once in 236 years: a walk
from one instant to the next would take too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import gcd, lcm
from typing import TYPE_CHECKING

from go_scheduler.triggers.base import Progression, Trigger, utc
from go_scheduler.triggers.times import FIRST_INSTANT, MICROSECOND, microseconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST_MICROSECOND = microseconds_of(datetime.max.replace(tzinfo=UTC))
_MOST_IN_TURN = 100_000


@dataclass(frozen=True)
class ProgressionTrigger(Trigger):
    """Fires at the instants of a progression; it only stands in for others."""

    progression: Progression

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first of them later than an instant."""
        first, step = self.progression
        passed = microseconds_of(utc(after, name="after")) - first
        number = first + max(passed // step + 1, 0) * step
        return instant(number) if number <= _LAST_MICROSECOND else None

    def _progression(self) -> Progression:
        return self.progression


def instant(number: int) -> datetime:
    """The instant of a number of microseconds, or the last one of all."""
    return FIRST_INSTANT + min(number, _LAST_MICROSECOND) * MICROSECOND


def meeting(one: Progression, other: Progression) -> Progression | None:
    """The instants that two have in common; None: there are none."""
    common = gcd(one.step, other.step)
    apart = other.first - one.first
    if apart % common:
        return None
    cycle = other.step // common
    ahead = apart // common * pow(one.step // common, -1, cycle) % cycle
    step = one.step * cycle
    met = one.first + ahead * one.step
    late = max(one.first, other.first) - met
    return Progression(met + max(-(-late // step), 0) * step, step)


def covered_from(one: Progression, others: Sequence[Progression]) -> int | None:
    """From when on each instant of one is among those of others.

    Returns:
        A number of microseconds; None: never, or that would take too long to find out.
    """
    found = [each for other in others if (each := meeting(one, other))]
    # The others as numbers of its instants: every so many, from one on.
    cycles = [each.step // one.step for each in found]
    if 1 in cycles:
        return found[cycles.index(1)].first
    together = lcm(*cycles)
    if not found or together > _MOST_IN_TURN:
        return None
    covered = bytearray(together)
    for each, cycle in zip(found, cycles, strict=True):
        number = (each.first - one.first) // one.step
        covered[number % cycle :: cycle] = b"\1" * (together // cycle)
    return max(each.first for each in found) if all(covered) else None
