"""The latest fire time up to an instant, those that were missed, and their jitter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from go_scheduler.clock import ZERO
from go_scheduler.models import Skipped, TaskDefinition
from go_scheduler.triggers.base import Trigger, next_fire_time_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def jitter_of(definition: TaskDefinition, fire_time: datetime) -> timedelta:
    """From zero up to its ``jitter``: the same on each node and at any time.

    Args:
        definition: By its id, so that many of one schedule are spread.
        fire_time: Each has its own.
    """
    if not definition.jitter:
        return ZERO
    instant = (fire_time - _EPOCH) // _MICROSECOND
    key = definition.id.bytes + instant.to_bytes(8, signed=True)
    # Here, as few have any: it takes long to import.
    from hashlib import blake2b

    drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
    return drawn % (definition.jitter // _MICROSECOND + 1) * _MICROSECOND


def latest_fire_time(trigger: Trigger, low: datetime, until: datetime) -> datetime:
    """The latest fire time that is not after ``until``, by bisection.

    Args:
        trigger: Its fire times do not depend on where the search starts.
        low: A fire time that is not after ``until``.
        until: The end.
    """
    high = until
    while low < high:
        following = next_fire_time_of(trigger, low)
        if following is None or following > until:
            break
        middle = following + (high - following) / 2
        beyond = next_fire_time_of(trigger, middle)
        if beyond is None or beyond > until:
            low, high = following, middle
        else:
            low = beyond
    return low


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
