"""Where the clocks of a zone are changed within a part of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from go_scheduler.triggers.wall.zones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.dashboard.strips.window import Window

_STEP = timedelta(hours=6)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """A change of the clocks.

    Attributes:
        at: When it is.
        share: Where it is in the window, from 0 to 1.
        text: What it is, for a person to read.
    """

    at: datetime
    share: float
    text: str


def clock_changes(timezone: str | None, window: Window) -> list[ClockChange]:
    """All that there are in a zone within a window, earliest first.

    Args:
        timezone: The name of the zone; None: there is none, and so no change.
        window: The part of time.
    """
    if timezone is None:
        return []
    zone = load_zone(timezone)
    return [
        ClockChange(at=at, share=window.share(at), text=_text(zone, timezone, at))
        for at in _changes(zone, window)
    ]


def _changes(zone: tzinfo, window: Window) -> Iterator[datetime]:
    low = window.start
    while low < window.end:
        high = min(low + _STEP, window.end)
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
