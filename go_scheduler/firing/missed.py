"""Fire times that were missed: passed over in few steps, however many they are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.firing.latest import latest_fire_time
from go_scheduler.models import Skipped
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from go_scheduler.triggers.base import Trigger

_MICROSECOND = timedelta(microseconds=1)


class Missed(NamedTuple):
    """Fire times that are too late to run, each of them.

    Attributes:
        first: The first.
        before_last: The last but one, if there are two.
        last: The last.
        number: How many were counted.
        counted: Whether there are no more than that.
    """

    first: datetime
    before_last: datetime
    last: datetime
    number: int = 1
    counted: bool = True

    def without_last(self) -> Missed | None:
        """Those before the last; None: there are none."""
        if self.number == 1:
            return None
        return self._replace(last=self.before_last, number=self.number - 1)

    def skipped(self, reason: str) -> Skipped:
        """The record of all of them."""
        if not self.counted:
            reason += f"; there are more than the {self.number} that were counted"
        return Skipped(
            first=self.first, last=self.last, count=self.number, reason=reason
        )


def and_missed(missed: Missed | None, fire_time: datetime) -> Missed:
    """These, and a later one too."""
    if missed is None:
        return Missed(fire_time, fire_time, fire_time)
    return missed._replace(
        before_last=missed.last, last=fire_time, number=missed.number + 1
    )


def pass_over(
    trigger: Trigger, fire_time: datetime, cut: datetime, most: int
) -> tuple[Missed | None, datetime | None]:
    """What there is from a fire time up to ``cut``, and the fire time after it."""
    if fire_time > cut:
        return None, fire_time
    before_last = last = fire_time
    count = 1
    following = next_fire_time_of(trigger, fire_time)
    while following is not None and following <= cut and count < most:
        before_last, last = last, following
        count += 1
        following = next_fire_time_of(trigger, following)
    counted = following is None or following > cut
    if following is not None and not counted:
        last = latest_fire_time(trigger, following, cut)
        before_last = latest_fire_time(trigger, fire_time, last - _MICROSECOND)
        following = next_fire_time_of(trigger, last)
    return Missed(fire_time, before_last, last, count, counted), following
