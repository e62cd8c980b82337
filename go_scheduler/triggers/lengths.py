"""The lengths of time that triggers take: refused if they are none."""

from __future__ import annotations

from datetime import datetime, timedelta

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = datetime.max - datetime(1970, 1, 1)  # noqa: DTZ001, DTZ901 (a length)


def check_every(value: object) -> None:
    """Refuse a step that is not a timedelta of at least a millisecond that can pass.

    Raises:
        InvalidTriggerError: It is something else.
    """
    every = checked_length("every", value)
    if every < _SHORTEST:
        raise InvalidTriggerError(
            f"every must be at least a millisecond: {shown(every)}"
        )
    if every > _LONGEST:
        raise InvalidTriggerError(
            f"every must pass before the year 10000, counted from 1970: {shown(every)}"
        )


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
        raise InvalidTriggerError(f"{name} must be longer than zero: {shown(value)}")
    return value
