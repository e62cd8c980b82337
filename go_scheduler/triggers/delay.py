"""The trigger that counts from the end of the last run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.instead import write_instead
from go_scheduler.shown import shown
from go_scheduler.triggers.base import Trigger, utc

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER_FROM_NOW_ON = "it never fires from now on"
"""The warning for it."""

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = datetime.max - datetime(1970, 1, 1)  # noqa: DTZ001, DTZ901 (a length)


@write_instead("DelayTrigger(timedelta(minutes=5))")
@dataclass(frozen=True, slots=True)
class DelayTrigger(Trigger):
    """Fires so long after the last run ended, well or badly; never two at once.

    The first run is so long after it was scheduled.

    Attributes:
        every: How long after the end of one run the next is due; at least a
            millisecond.

    Raises:
        InvalidTriggerError: ``every`` is not a timedelta of at least a millisecond, or
            cannot pass before the year 10000.
    """

    kind: ClassVar[str] = "delay"
    waits: ClassVar[bool] = True

    every: timedelta

    def __post_init__(self) -> None:
        check_every(self.every)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The instant ``every`` later than a given one.

        Args:
            after: Any aware instant: the end of the last run.

        Returns:
            A time in UTC; None if it lies beyond the year 9999.
        """
        try:
            return utc(after, name="after") + self.every
        except OverflowError:
            return None

    def warnings(self, now: datetime) -> Sequence[str]:
        """That it lies beyond the end of time.

        Args:
            now: When it is scheduled.
        """
        return () if self.next_fire_time(now) else (NEVER_FROM_NOW_ON,)

    def describe(self) -> str:
        """Such as ``5 minutes after each run``."""
        return f"{length(self.every)} after each run"


def check_every(every: object) -> None:
    """Refuse what is not a timedelta of at least a millisecond that can pass.

    Raises:
        InvalidTriggerError: It is something else.
    """
    check_length("every", every)
    assert isinstance(every, timedelta)
    if every < _SHORTEST:
        raise InvalidTriggerError(
            f"every must be at least a millisecond: {shown(every)}"
        )
    if every > _LONGEST:
        raise InvalidTriggerError(
            f"every must pass before the year 10000, counted from 1970: {shown(every)}"
        )


def check_length(name: str, value: object) -> None:
    """Refuse what is not a timedelta longer than zero.

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


_UNITS = (
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
    ("microsecond", timedelta(microseconds=1)),
)


def length(duration: timedelta) -> str:
    """A length of time in words, in the largest unit in which it is whole.

    Days are no such unit: on the clock, some are longer than others.
    """
    name, unit = next(each for each in _UNITS if not duration % each[1])
    count = duration // unit
    return f"{count} {name}{'' if count == 1 else 's'}"
