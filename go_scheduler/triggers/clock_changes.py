"""When the clocks of a time zone change: found by asking it for its offsets."""

from __future__ import annotations

from bisect import bisect
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Change: TypeAlias = tuple[datetime, timedelta, timedelta]
"""An instant, and a zone's offsets before it and from it on."""

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# No zone of the database has kept an offset for less than three days.
_STEP = timedelta(days=3)


@lru_cache(maxsize=4096)
def changes(zone: tzinfo, year: int) -> Sequence[Change]:
    """When a zone's offset changes within a year; at its end, but not its beginning.

    Args:
        zone: Any time zone.
        year: As UTC counts it; from 1 to 9999.

    Returns:
        In order; the instants in UTC.
    """
    end = new_year(year + 1)
    instants = [new_year(year)]
    while instants[-1] < end:
        instants.append(instants[-1] + min(_STEP, end - instants[-1]))
    offsets = [offset_at(each, zone) for each in instants]
    return [
        (_change(low, high, zone), before, after)
        for (low, high), (before, after) in zip(
            pairwise(instants), pairwise(offsets), strict=True
        )
        if before != after
    ]


def new_year(year: int) -> datetime:
    """The beginning of a year in UTC, or of time, or the end of time."""
    if year < 1:
        return FIRST_INSTANT
    return LAST_INSTANT if year > MAXYEAR else datetime(year, 1, 1, tzinfo=UTC)


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """How far a zone's clock is ahead of UTC; less than zero: behind."""
    # A day from the ends of time, every local time can be told.
    inside = min(max(instant, FIRST_INSTANT + _DAY), LAST_INSTANT - _DAY)
    offset = inside.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _change(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """When the offset changes, between two instants at which it differs."""
    before = offset_at(low, zone)

    def changed(seconds: int) -> bool:
        return offset_at(low + seconds * _SECOND, zone) != before

    return low + bisect(range((high - low) // _SECOND), False, key=changed) * _SECOND
