"""The trigger that counts elapsed time from an anchor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers.base import Progression, Trigger, checked_instant, utc
from go_scheduler.triggers.times import MICROSECOND, microseconds_of, step_of
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON, every, moment

if TYPE_CHECKING:
    from collections.abc import Sequence


@write_instead("IntervalTrigger(minutes=5)")
@dataclass(frozen=True, slots=True, init=False)
class IntervalTrigger(Trigger):
    """Fires at its anchor and at every multiple of its step after it, without drift.

    It counts elapsed time, so a day is 24 hours; for nine o'clock each day use a
    ``CronTrigger``. The step is a timedelta, or a sum of units, which may be fractions:
    ``IntervalTrigger(minutes=5)`` is ``IntervalTrigger(timedelta(minutes=5))``.

    Attributes:
        every: The time from one fire time to the next; at least a millisecond.
        anchor: The first fire time, kept in UTC; None: count from when the definition
            is first scheduled, so that it first fires ``every`` later.
        anchored_at: What it counts from if no anchor is given. Kept by the store and
            not part of the trigger's value.

    Args:
        every: As above, or None: the sum of the following.
        anchor: As above.
        anchored_at: As above.
        weeks: How many weeks of seven days, of 24 hours each.
        days: How many days of 24 hours.
        hours: How many hours.
        minutes: How many minutes.
        seconds: How many seconds.

    Raises:
        InvalidTriggerError: The step is missing or given twice, is shorter than a
            millisecond, or cannot pass before the year 10000; or an anchor is not an
            aware datetime.
    """

    kind: ClassVar[str] = "interval"

    every: timedelta
    anchor: datetime | None = None
    anchored_at: datetime | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __init__(
        self,
        every: timedelta | None = None,
        anchor: datetime | None = None,
        *,
        anchored_at: datetime | None = None,
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
        for name, value in (("anchor", anchor), ("anchored_at", anchored_at)):
            instant = None if value is None else checked_instant(value, name=name)
            object.__setattr__(self, name, instant)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first multiple of ``every`` from the anchor later than a given instant.

        Args:
            after: Any aware instant; before the anchor, the answer is the anchor.

        Returns:
            A time in UTC; None if it lies beyond the year 9999. Without any anchor, the
            time ``every`` later than ``after``.
        """
        after = utc(after, name="after")
        anchor = self.anchor or self.anchored_at or after
        if after < anchor:
            return anchor
        try:
            return anchor + ((after - anchor) // self.every + 1) * self.every
        except OverflowError:
            return None

    def warnings(self, now: datetime) -> Sequence[str]:
        """A warning if its next fire time lies beyond the year 9999.

        Args:
            now: When it is scheduled.
        """
        return () if self.anchored(now).next_fire_time(now) else (NEVER_FROM_NOW_ON,)

    def describe(self) -> str:
        """Such as ``every 15 minutes``, with its anchor if one was given."""
        text = every(self.every)
        return f"{text} starting {moment(self.anchor)}" if self.anchor else text

    def anchored(self, now: datetime) -> Self:
        """This trigger counting from ``now``, unless it counts from somewhere already.

        Args:
            now: When the definition is first scheduled; aware.
        """
        if self.anchor is not None or self.anchored_at is not None:
            return self
        return replace(self, anchored_at=now)

    def _progression(self) -> Progression | None:
        first = self.anchor or self.anchored_at
        if first is None:
            return None
        return Progression(microseconds_of(first), self.every // MICROSECOND)
