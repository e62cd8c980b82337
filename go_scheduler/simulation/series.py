"""The fire times that a definition would have."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.firing.jitter import jitter_of
from go_scheduler.models import DefinitionState
from go_scheduler.triggers.asking import asked
from go_scheduler.triggers.base import checked_fire_time, next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from go_scheduler.models import TaskDefinition

_MICROSECOND = timedelta(microseconds=1)


def fire_times(
    definition: TaskDefinition, start: datetime, end: datetime, duration: timedelta
) -> Iterator[datetime]:
    """Those from a start up to an end, in order.

    One that was read from a store goes on as it is kept there; any other begins as if
    it were scheduled at the start. What is paused or has ended has none.

    Args:
        definition: Its trigger may raise, and then this does; as it does of a third
            party's that hangs.
        start: From then on.
        end: Not at that.
        duration: How long its runs last, if its trigger waits for their end.
    """
    times = _fire_times(definition, start, end, duration)
    while (at := asked(definition.trigger, lambda: next(times, None))) is not None:
        yield at


def _fire_times(
    definition: TaskDefinition, start: datetime, end: datetime, duration: timedelta
) -> Iterator[datetime]:
    if definition.state is not DefinitionState.ACTIVE:
        return
    at = _first(definition, start)
    trigger = definition.trigger.anchored(start)
    while at is not None and at < end:
        yield at
        after = at
        if trigger.waits:
            # However short a run is, the next begins later.
            after = max(at + jitter_of(definition, at) + duration, at + _MICROSECOND)
        at = next_fire_time_of(trigger, after)


def _first(definition: TaskDefinition, start: datetime) -> datetime | None:
    trigger = definition.trigger
    if definition.revision is None:
        first = trigger.anchored(start).first_fire_time(start)
        first = None if first is None else checked_fire_time(trigger, first)
    else:
        first = definition.next_fire_time
    if first is None or first >= start:
        return first
    # What is missed by then runs once at most: when the first node looks.
    if trigger.waits or not trigger.recurring:
        return start
    return next_fire_time_of(trigger, start - _MICROSECOND)
