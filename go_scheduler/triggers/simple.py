"""The triggers that read no clock: an interval, a delay, one instant, and on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_type
from go_scheduler.json import JSON, NOTHING, FrozenObject
from go_scheduler.triggers.base import Progression, Trigger, checked_instant, utc
from go_scheduler.triggers.times import (
    MICROSECOND,
    microseconds_of,
    seconds_until,
    step_of,
)
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON, every, length, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.triggers.fire_time_sets import FireTimes


@write_instead("ExecuteOnceTrigger(datetime(2030, 1, 1, 9, tzinfo=UTC))")
@dataclass(frozen=True, slots=True)
class ExecuteOnceTrigger(Trigger):
    """Fires once, even when its time has passed before it is scheduled.

    Attributes:
        fire_at: When; kept in UTC.

    Raises:
        InvalidTriggerError: ``fire_at`` is not a datetime, or has no time zone.
    """

    kind: ClassVar[str] = "once"
    recurring: ClassVar[bool] = False

    fire_at: datetime

    def __post_init__(self) -> None:
        fire_at = checked_instant(self.fire_at, name="fire_at")
        object.__setattr__(self, "fire_at", fire_at)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Its one fire time, if that is later than a given instant.

        Args:
            after: Any aware instant.

        Returns:
            ``fire_at``; None if that is not later than ``after``.
        """
        return self.fire_at if self.fire_at > utc(after, name="after") else None

    def first_fire_time(self, now: datetime) -> datetime | None:
        """Its one fire time, also when it has passed.

        Args:
            now: When the definition is scheduled; it makes no difference.
        """
        return self.fire_at

    def _fire_times(self) -> FireTimes:
        # Most programs that fire once need no sets.
        from go_scheduler.triggers.fire_time_sets import at_one_microsecond, listed

        microsecond = self.fire_at.microsecond
        return at_one_microsecond(
            listed([seconds_until(self.fire_at, microsecond)]), microsecond
        )

    def describe(self) -> str:
        """Such as ``at 2030-01-01 09:00Z``."""
        return f"at {moment(self.fire_at)}"


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


_PASSING = FrozenObject(lasting=False)


@write_instead("OnDemandTrigger()")
@dataclass(frozen=True, slots=True)
class OnDemandTrigger(Trigger):
    """Never fires: ``enqueue()`` and ``run_now()`` make each instance.

    A definition that has it is never completed, and stays until it is deleted. One that
    does not last is completed as soon as it is scheduled: it can be run all the same,
    and is cleaned up when ``retention`` has passed and none of its instances is left.

    Args:
        lasting: Whether its definition stays.
    """

    kind: ClassVar[str] = "on_demand"
    recurring: ClassVar[bool] = False
    lasting: bool = True

    def to_dict(self) -> Mapping[str, JSON]:
        """Nothing, of one that lasts."""
        return NOTHING if self.lasting else _PASSING

    def __post_init__(self) -> None:
        check_type("lasting", self.lasting, bool)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """None.

        Args:
            after: Any aware instant; it makes no difference.
        """
        return None

    def describe(self) -> str:
        """``on demand``."""
        return "on demand"
