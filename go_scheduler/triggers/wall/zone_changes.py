"""Where the clocks of a zone are changed within a part of time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.triggers.wall.zones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

_STEP = timedelta(hours=6)
_SECOND = timedelta(seconds=1)


def zone_changes(
    timezone: str, start: datetime, end: datetime
) -> list[tuple[datetime, str]]:
    """All that there are from a start up to an end, earliest first, each in words.

    Args:
        timezone: The name of the zone.
        start: Aware, in UTC.
        end: Likewise.
    """
    zone = load_zone(timezone)
    return [(at, _text(zone, timezone, at)) for at in _changes(zone, start, end)]


def _changes(zone: tzinfo, start: datetime, end: datetime) -> Iterator[datetime]:
    low = start
    while low < end:
        high = min(low + _STEP, end)
        if _offset(zone, low) != _offset(zone, high):
            yield _first_second(zone, low, high)
        low = high


def _first_second(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """The first second after a change that is between two instants."""
    before = _offset(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) / 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _offset(zone: tzinfo, at: datetime) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def _text(zone: tzinfo, name: str, at: datetime) -> str:
    before, after = (at - _SECOND).astimezone(zone), at.astimezone(zone)
    moved = (after.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    way = "forward" if moved > timedelta() else "back"
    minutes = abs(moved) // timedelta(minutes=1)
    return f"clocks in {name} go {way} by {minutes} min, to {after:%H:%M}"
