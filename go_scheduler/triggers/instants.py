"""Instants: the first and the last, and each as a number since the year 1 began."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MICROSECOND = timedelta(microseconds=1)
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)

SECOND = 1_000_000
"""The microseconds of a second."""

_EARLIEST = datetime.min  # noqa: DTZ901 (local times are naive)


def microseconds_of(moment: datetime) -> int:
    """The number of an instant in UTC, or of a local time."""
    return (moment.replace(tzinfo=None) - _EARLIEST) // MICROSECOND


def seconds_until(moment: datetime, phase: int = 0) -> int:
    """How many seconds there are that begin, with a phase, before a moment."""
    return -((phase - microseconds_of(moment)) // SECOND)


def just_after(instant: datetime) -> datetime | None:
    """The next instant there is; None at the end of time."""
    try:
        return instant + MICROSECOND
    except OverflowError:
        return None
