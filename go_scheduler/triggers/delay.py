"""The trigger that counts from the end of the last run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.json import FrozenObject
from go_scheduler.triggers.base import Trigger, checked_instant, utc
from go_scheduler.triggers.times import step_of
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON, length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.json import JSON


@write_instead("DelayTrigger(minutes=5)")
@dataclass(frozen=True, slots=True, init=False)
class DelayTrigger(Trigger):
    """Fires a fixed time after the end of the last run, which may have failed.

    There are never two runs at once. The first run is the same time after scheduling,
    unless ``first_at`` says when. The time is a timedelta, or a sum of units:
    ``DelayTrigger(minutes=5)`` is ``DelayTrigger(timedelta(minutes=5))``.

    Attributes:
        every: How long after the end of one run the next is due; at least a
            millisecond.
        first_at: When the first run is due, kept in UTC. If it is None or has passed,
            the first run is due ``every`` after scheduling. It is not part of the
            trigger's value: a changed one does not start the definition anew.

    Args:
        every: As above, or None: the sum of the following.
        first_at: As above.
        weeks: How many weeks of seven days, of 24 hours each.
        days: How many days of 24 hours.
        hours: How many hours.
        minutes: How many minutes.
        seconds: How many seconds.

    Raises:
        InvalidTriggerError: The time is missing or given twice, is shorter than a
            millisecond, or cannot pass before the year 10000; or ``first_at`` is not an
            aware datetime.
    """

    kind: ClassVar[str] = "delay"
    waits: ClassVar[bool] = True

    every: timedelta
    first_at: datetime | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __init__(
        self,
        every: timedelta | None = None,
        *,
        first_at: datetime | None = None,
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
        if first_at is not None:
            first_at = checked_instant(first_at, name="first_at")
        object.__setattr__(self, "first_at", first_at)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The instant ``every`` later than a given one, or the first one.

        Args:
            after: Any aware instant: the end of the last run. Before ``first_at``, the
                answer is that.

        Returns:
            A time in UTC; None if it lies beyond the year 9999.
        """
        after = utc(after, name="after")
        if self.first_at is not None and after < self.first_at:
            return self.first_at
        try:
            return after + self.every
        except OverflowError:
            return None

    def warnings(self, now: datetime) -> Sequence[str]:
        """A warning if its next fire time lies beyond the year 9999.

        Args:
            now: When it is scheduled.
        """
        return () if self.next_fire_time(now) else (NEVER_FROM_NOW_ON,)

    def describe(self) -> str:
        """Such as ``5 minutes after each run``."""
        return f"{length(self.every)} after each run"

    def to_dict(self) -> Mapping[str, JSON]:
        """The trigger's fields as JSON; ``first_at`` only if it was given."""
        state = super(DelayTrigger, self).to_dict()
        if self.first_at is not None:
            return state
        return FrozenObject((each, state[each]) for each in state if each != "first_at")
