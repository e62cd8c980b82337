"""The trigger that fires at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers.base import Trigger, checked_instant, utc
from go_scheduler.triggers.times import seconds_until
from go_scheduler.triggers.words import moment

if TYPE_CHECKING:
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
