"""The trigger that counts from the end of the last run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.instead import write_instead
from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.lengths import step_of
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON, length

if TYPE_CHECKING:
    from collections.abc import Sequence


@write_instead("DelayTrigger(minutes=5)")
@dataclass(frozen=True, slots=True, init=False)
class DelayTrigger(Trigger):
    """Fires so long after the last run ended, well or badly; never two at once.

    The first run is so long after it was scheduled. How long is a timedelta, or
    written out: ``DelayTrigger(minutes=5)`` is ``DelayTrigger(timedelta(minutes=5))``.

    Attributes:
        every: How long after the end of one run the next is due; at least a
            millisecond.

    Args:
        every: As above, or None: the sum of the following.
        weeks: How many weeks of seven days, of 24 hours each.
        days: How many days of 24 hours.
        hours: How many hours.
        minutes: How many minutes.
        seconds: How many seconds.

    Raises:
        InvalidTriggerError: How long is not said, or twice, or is not at least a
            millisecond, or cannot pass before the year 10000.
    """

    kind: ClassVar[str] = "delay"
    waits: ClassVar[bool] = True

    every: timedelta

    def __init__(
        self,
        every: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        step = step_of(
            every,
            weeks=weeks,
            days=days,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
        )
        object.__setattr__(self, "every", step)

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
