"""The first and the last instant, and the lengths of time that triggers take."""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, datetime, timedelta

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import seconds_of, shown

MICROSECOND = timedelta(microseconds=1)
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
FIRST_LOCAL_TIME = datetime.min  # noqa: DTZ901 (local times are naive)
LAST_LOCAL_TIME = datetime.max  # noqa: DTZ901

SECOND = 1_000_000
"""The microseconds of a second."""

DAY = 86_400
"""The seconds of a day."""

MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""How many days the months have; february in a year that is no leap year."""


def days_in(year: int) -> int:
    """How many days a year has."""
    return 366 if isleap(year) else 365


def microseconds_of(moment: datetime) -> int:
    """The number of an instant in UTC, or of a local time."""
    return (moment.replace(tzinfo=None) - FIRST_LOCAL_TIME) // MICROSECOND


def seconds_until(moment: datetime, microsecond: int = 0) -> int:
    """The number of seconds that begin before a moment.

    Args:
        moment: The moment.
        microsecond: So many microseconds late each second begins.
    """
    return -((microsecond - microseconds_of(moment)) // SECOND)


def just_after(instant: datetime) -> datetime | None:
    """The next instant there is; None at the end of time."""
    try:
        return instant + MICROSECOND
    except OverflowError:
        return None


_SHORTEST = timedelta(milliseconds=1)
_LONGEST = datetime.max - datetime(1970, 1, 1)  # noqa: DTZ001, DTZ901 (a length)


def step_of(every: timedelta | None, **units: float) -> timedelta:
    """The step that a trigger is given, as a timedelta or in units such as minutes.

    Args:
        every: The step; None: it is given by units.
        **units: How many of each of the units that ``timedelta`` has.

    Raises:
        InvalidTriggerError: It is missing, wrong, or given twice; or it is shorter than
            a millisecond, or it cannot pass before the year 10000.
    """
    given: dict[str, float] = {}
    for name, value in units.items():
        if value != 0:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidTriggerError(
                    f"{name} must be a number, not {shown(value)}"
                )
            given[name] = value
    if every is not None and given:
        raise InvalidTriggerError(
            f"every and {next(iter(given))}= say the same: pass one of them"
        )
    if every is None and not given:
        raise InvalidTriggerError(
            "every must be given, and longer than zero: as minutes=5, or as a timedelta"
        )
    try:
        every = timedelta(**given) if every is None else every
    except (OverflowError, ValueError):
        text = ", ".join(f"{name}={value}" for name, value in given.items())
        raise InvalidTriggerError(f"no length of time is so long: {text}") from None
    step = checked_length("every", every)
    if step < _SHORTEST:
        raise InvalidTriggerError(
            f"every must be at least a millisecond: {shown(step)}"
        )
    if step > _LONGEST:
        raise InvalidTriggerError(
            f"every must pass before the year 10000, counted from 1970: {shown(step)}"
        )
    return step


def checked_length(name: str, value: object) -> timedelta:
    """A value that is a timedelta longer than zero.

    Raises:
        InvalidTriggerError: It is something else.
    """
    if not isinstance(value, timedelta):
        raise InvalidTriggerError(
            f"{name} must be a timedelta, such as timedelta(minutes=5), not"
            f" {shown(value)}"
        )
    if value <= timedelta(0):
        raise InvalidTriggerError(
            f"{name} must be longer than zero: {seconds_of(value)}"
        )
    return value
