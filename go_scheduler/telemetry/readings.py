"""Readings: the value of each figure, of what was gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.models.queue_stats import RETRIED
from go_scheduler.telemetry import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from go_scheduler.health import Health
    from go_scheduler.models import Counts
    from go_scheduler.telemetry.figures import Figure
    from go_scheduler.telemetry.gathering import Gathered

Reading: TypeAlias = tuple[tuple[str, ...], float]
"""The values of a figure's labels, and its own."""

Read: TypeAlias = "Callable[[Gathered], Iterable[Reading]]"
"""All of a figure's readings."""


def _counted(count: Callable[[Counts], int]) -> Read:
    return lambda found: ((of, count(each)) for of, each in found.counts.items())


def _ended(found: Gathered) -> Iterable[Reading]:
    for of, each in found.counts.items():
        for how, count in each.ended.items():
            if how != RETRIED:
                yield (*of, how), count


def _skipped(number: int) -> Read:
    return lambda found: ((of, each[number]) for of, each in found.skipped.items())


def _sum(count: Callable[[Health], int]) -> Read:
    return lambda found: [((), sum(map(count, found.health)))]


COUNTED: Mapping[Figure, Read] = {
    figures.FIRED: _counted(lambda each: each.fired),
    figures.STARTED: _counted(lambda each: each.lateness.total),
    figures.ENDED: _ended,
    figures.RETRIED: _counted(lambda each: each.ended.get(RETRIED, 0)),
    figures.SKIPPED: _skipped(0),
    figures.MISFIRES: _skipped(1),
}
"""The counters."""

PRESENT: Mapping[Figure, Read] = {
    figures.HELD: _sum(lambda each: each.waiting),
    figures.BUSY: _sum(lambda each: each.busy),
    figures.STUCK: _sum(lambda each: each.stuck_workers),
    figures.UNRECORDED: _sum(lambda each: each.unrecorded),
    figures.HEALTHY: lambda found: [((), min((e.ok for e in found.health), default=1))],
}
"""The gauges."""
