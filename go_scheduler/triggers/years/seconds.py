"""Moments as numbers: of the microseconds, or seconds, since the year 1 began."""

from __future__ import annotations

from datetime import datetime, timedelta

SECOND = 1_000_000
"""The microseconds of a second."""

_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = datetime.min  # noqa: DTZ901 (local times are naive)


def microseconds_of(moment: datetime) -> int:
    """The number of an instant in UTC, or of a local time."""
    return (moment.replace(tzinfo=None) - _EARLIEST) // _MICROSECOND


def seconds_until(moment: datetime, phase: int = 0) -> int:
    """How many seconds there are that begin, with a phase, before a moment."""
    return -((phase - microseconds_of(moment)) // SECOND)
