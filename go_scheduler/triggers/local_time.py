"""Local times and the instants they stand for: where the clocks change.

Debian's cron rule: a fixed local time that does not exist fires once, at the end of the
gap; one that occurs twice fires once, the first time; what follows elapsed time fires
whenever the clock shows a matching time. A gap of three hours or more, such as a move
of the date line, fires nothing.
"""

from __future__ import annotations

from bisect import bisect
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from go_scheduler.errors import InvalidTriggerError

if TYPE_CHECKING:
    from collections.abc import Callable

    Search = Callable[[datetime], datetime | None]
    """Finds the first matching naive local time at or after a given one."""

_LONGEST_GAP = timedelta(hours=3)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_EARLIEST = datetime.min  # noqa: DTZ901 (local times are naive)
# They mean something else on each machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "right/")


def zone_key(timezone: object) -> str:
    """The name under which a time zone is stored.

    Args:
        timezone: A name of the IANA database, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: It is neither, or there is no zone of this name here.
    """
    key = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    if not isinstance(key, str):
        raise InvalidTriggerError(
            "timezone must be a name, such as 'Europe/Berlin', or a ZoneInfo that has"
            f" a name, not {timezone!r:.200}"
        )
    load_zone(key)
    return str(key)


# ZoneInfo itself keeps only eight zones that nobody holds.
@lru_cache(maxsize=1024)
def load_zone(key: str) -> tzinfo:
    """The time zone of a name.

    Raises:
        InvalidTriggerError: There is no zone of this name here.
    """
    if key == "UTC":
        return UTC
    try:
        if not key.startswith(_NOT_ZONES):
            return ZoneInfo(key)
    except (LookupError, OSError, ValueError):
        pass
    raise InvalidTriggerError(
        f"there is no time zone {key!r:.200}; names are such as 'Europe/Berlin'. If"
        " none is known, install tzdata"
    )


def next_instant(
    search: Search, after: datetime, zone: tzinfo, *, elapsed: bool
) -> datetime | None:
    """The first instant strictly later than another at which a local time matches.

    Args:
        search: Finds the first matching local time at or after a given one.
        after: In UTC.
        zone: Where the local times are read.
        elapsed: Whether to follow elapsed time where the clocks change.

    Returns:
        A time in UTC; None if there is none before the year 10000.
    """
    try:
        found = _next(search, after, zone, elapsed)
    except OverflowError:
        return None
    return None if found is None else found.replace(tzinfo=UTC)


def _next(
    search: Search, after: datetime, zone: tzinfo, elapsed: bool
) -> datetime | None:
    """As ``next_instant``, but naive."""
    if zone is UTC:
        return search(after.replace(tzinfo=None) + _MICROSECOND)
    local = _local(after, zone)
    if local is None:
        return _first(search, _EARLIEST, zone, elapsed)
    start = local.replace(fold=0) + _MICROSECOND
    if elapsed or local.fold:
        first, second = _offsets(local, zone)
        if second < first:
            # The clock is set back around here, and shows these times twice.
            change = _change(local, zone)
            end = change + first
            passes = [(start, first), (change + second, second)]
            if local.fold:
                passes = [(start, second)]
            for begin, offset in passes if elapsed else ():
                if (found := search(begin)) is not None and found < end:
                    return found - offset
            start = end
    return _first(search, start, zone, elapsed)


def _first(
    search: Search, start: datetime, zone: tzinfo, elapsed: bool
) -> datetime | None:
    """The instant of the first match from ``start`` on, where it first occurs."""
    while (found := search(start)) is not None:
        before, after = _offsets(found, zone)
        if after <= before:
            return found - before
        change = _change(found, zone)
        if not elapsed and after - before < _LONGEST_GAP:
            return change
        start = change + after
    return None


def _local(instant: datetime, zone: tzinfo) -> datetime | None:
    """What the clock shows, naive, with its fold; None: a time before the year 1."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        if instant.year == 1:
            return None
        raise


def _offsets(local: datetime, zone: tzinfo) -> tuple[timedelta, timedelta]:
    """The offsets at a local time: equal, or those before and after a change."""
    first = zone.utcoffset(local.replace(fold=0) if local.fold else local)
    second = zone.utcoffset(local.replace(fold=1))
    assert first is not None
    assert second is not None
    return first, second


def _change(local: datetime, zone: tzinfo) -> datetime:
    """The instant of the change that skips or repeats a local time; naive."""
    first, second = _offsets(local, zone)
    whole = local.replace(microsecond=0, fold=0)
    low, high = sorted((whole - first, whole - second))

    def changed(seconds: int) -> bool:
        instant = low + seconds * _SECOND
        return instant.replace(tzinfo=UTC).astimezone(zone).utcoffset() != first

    return low + bisect(range((high - low) // _SECOND), False, key=changed) * _SECOND
