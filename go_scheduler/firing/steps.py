"""The steps of definitions: which fire times become instances, which are skipped."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.errors import StoreError
from go_scheduler.firing.displacement import DisplacedError, is_displaced, replaced
from go_scheduler.firing.latest import latest_fire_time
from go_scheduler.models import Skipped
from go_scheduler.stores.messages import Firing
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.firing.displacement import LastFired
    from go_scheduler.models import TaskDefinition
    from go_scheduler.triggers.base import Trigger

_MICROSECOND = timedelta(microseconds=1)
MOST_FIRE_TIMES = 1000
"""The most fire times of one definition that are computed one by one in a tick."""


class _Missed(NamedTuple):
    """Fire times that passed by more than the grace."""

    first: datetime
    before_last: datetime
    last: datetime
    number: int
    counted: bool


def plan(
    definition: TaskDefinition,
    *,
    now: datetime,
    until: datetime,
    most: int = MOST_FIRE_TIMES,
    last: LastFired | None = None,
) -> Firing:
    """One step of a definition.

    Each fire time up to ``until`` becomes an instance, but those missed by more than
    the grace of its ``catch_up``: they are skipped, all but the latest if nothing was
    missed by less.

    Args:
        definition: The definition, with a ``next_fire_time``.
        now: The store's time.
        until: How far ahead to go.
        most: The most missed fire times to count one by one, and the most to create.
        last: What has fired last of it, needed if its ``next_fire_time`` was computed
            by other data of a time zone.

    Raises:
        DisplacedError: It is needed.
        StoreError: Its ``next_fire_time`` cannot be read.
        Exception: Whatever its trigger raises, ``InvalidTriggerError`` for what it
            returns.
    """
    trigger, fire_time = definition.trigger, definition.next_fire_time
    if fire_time is None:
        raise StoreError("its stored next_fire_time cannot be read")
    if trigger.waits:
        return Firing(definition=definition, fire_times=(fire_time,))
    if last is not None:
        fire_time = replaced(trigger, fire_time, until, last)
    elif is_displaced(trigger, fire_time, until):
        raise DisplacedError
    grace = definition.catch_up.grace
    missed, following = _pass_over(trigger, fire_time, now - grace - _MICROSECOND, most)
    fire_times: list[datetime] = []
    if missed is not None and (following is None or following > now):
        fire_times.append(missed.last)
        missed = _without_last(missed)
    while following is not None and following <= until and len(fire_times) < most:
        fire_times.append(following)
        following = next_fire_time_of(trigger, following)
    return Firing(
        definition=definition,
        fire_times=tuple(fire_times),
        skipped=None if missed is None else _skip(missed, grace),
        next_fire_time=following,
    )


def _pass_over(
    trigger: Trigger, fire_time: datetime, cut: datetime, most: int
) -> tuple[_Missed | None, datetime | None]:
    """What was missed up to ``cut``, and the fire time after it."""
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
    return _Missed(fire_time, before_last, last, count, counted), following


def _without_last(missed: _Missed) -> _Missed | None:
    if missed.number == 1:
        return None
    return missed._replace(last=missed.before_last, number=missed.number - 1)


def _skip(missed: _Missed, grace: timedelta) -> Skipped:
    reason = f"missed by more than the grace of {grace}; a later fire time ran instead"
    if not missed.counted:
        reason += f"; there are more than the {missed.number} that were counted"
    return Skipped(
        first=missed.first, last=missed.last, count=missed.number, reason=reason
    )
