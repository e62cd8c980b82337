"""When the clocks of a time zone change: found by asking it for its offsets."""

from __future__ import annotations

from bisect import bisect
from calendar import isleap
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.triggers.instants import FIRST_INSTANT, LAST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Sequence

Change: TypeAlias = tuple[datetime, timedelta, timedelta]
"""An instant, and a zone's offsets before it and from it on."""


_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# No zone of the database has kept an offset for less than three days.
_STEP = timedelta(days=3)
# By rules, none keeps one for less than a month, as Morocco does in Ramadan.
_STEP_OF_RULES = timedelta(days=20)
_RULED = 2038
# Before railways were built, no zone had another offset than its first one.
_FIRST_YEAR = 1800
SETTLED = 2100
"""From this year on, years with the same calendar have the same changes.

By then the database has said all that it says of single years, and what remains is a
rule for each zone.
"""


@lru_cache(maxsize=4096)
def changes(zone: tzinfo, year: int) -> Sequence[Change]:
    """When a zone's offset changes within a year; at its end, but not its beginning.

    Args:
        zone: Any time zone.
        year: As UTC counts it; from 1 to 9999.

    Returns:
        In order; the instants in UTC.
    """
    if (alike := year_alike(year)) != year:
        later = new_year(year) - new_year(alike)
        return [
            (at + later, before, after) for at, before, after in changes(zone, alike)
        ]
    end = new_year(year + 1)
    step = _STEP if year < _RULED else _STEP_OF_RULES
    instants = [new_year(year)]
    while instants[-1] < end:
        instants.append(instants[-1] + min(step, end - instants[-1]))
    offsets = [offset_at(each, zone) for each in instants]
    return [
        (_change(low, high, zone), before, after)
        for (low, high), (before, after) in zip(
            pairwise(instants), pairwise(offsets), strict=True
        )
        if before != after
    ]


def year_alike(year: int) -> int:
    """A year that has the same changes, from before there were any or under rules."""
    if _FIRST_YEAR <= year < SETTLED or year in (1, MAXYEAR):
        return year
    years = _EARLY_YEARS if year < _FIRST_YEAR else _LAST_YEARS
    return years[isleap(year), date(year, 1, 1).weekday()]


_EARLY_YEARS, _LAST_YEARS = (
    {(isleap(year), date(year, 1, 1).weekday()): year for year in range(first, end)}
    for first, end in ((_FIRST_YEAR - 60, _FIRST_YEAR - 10), (SETTLED, SETTLED + 40))
)


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
