"""Fire times that were computed by other data of a time zone, and what is meant now.

A definition has a ``next_fire_time`` and no record of the rules by which it was found.
These change: a government moves the clocks, and the data of the zone follow, sooner or
later, on one node before the other. Then the next fire time may be none any more, or
another one may come before it. What counts is the clock on the wall: each time of the
schedule is to run once, at the instant that the present rules give it, and not again if
it has run at the instant that others gave it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.firing.latest import latest_fire_time
from go_scheduler.triggers.base import next_fire_time_of
from go_scheduler.triggers.wall.zones import zone_of

if TYPE_CHECKING:
    from go_scheduler.triggers.base import Trigger

_MICROSECOND = timedelta(microseconds=1)
# Rules move a clock by three hours at most, unless by whole days, which makes no
# difference. What would move further was planned by another calendar, say, and stays.
_FURTHEST = timedelta(hours=12)


class LastFired(NamedTuple):
    """What has fired last of a definition.

    Attributes:
        at: The last fire time that has an instance; None: there is none, or none any
            more.
    """

    at: datetime | None


class DisplacedError(Exception):
    """What fires next can only be told by what has fired last."""


def is_displaced(trigger: Trigger, fire_time: datetime, until: datetime) -> bool:
    """Whether a next fire time is not what its trigger gives by the present rules.

    Args:
        trigger: The trigger; only one that reads the clock of a zone is asked.
        fire_time: The next fire time.
        until: Up to here there is nothing to come, or the fire time itself.
    """
    if not _reads_a_zone(trigger):
        return False
    start = min(fire_time - _MICROSECOND, until)
    found = next_fire_time_of(trigger, start)
    if found is None or found == fire_time:
        return found is None
    # What counts from where it is asked has no clock on a wall: it stays as planned.
    return next_fire_time_of(trigger, found - _MICROSECOND) == found


def replaced(
    trigger: Trigger, fire_time: datetime, until: datetime, last: LastFired
) -> datetime:
    """What a displaced fire time is by the present rules.

    That is its counterpart; if that has run, the next one; or what comes before that,
    unless it may have run.

    Args:
        trigger: The trigger.
        fire_time: The next fire time, by other rules.
        until: Up to here nothing is found but its counterpart.
        last: What has fired last.

    Returns:
        The fire time; the one given if no change of clocks explains it.
    """
    found = _counterpart(trigger, fire_time)
    if last.at is None:
        # What comes sooner may have run, and not be known any more.
        start = until + _FURTHEST
    else:
        done = max(last.at, _counterpart(trigger, last.at))
        if found <= done:
            found = next_fire_time_of(trigger, done) or fire_time
        start = max(until, done)
    coming = next_fire_time_of(trigger, start)
    if coming is not None and fire_time - coming < _FURTHEST:
        return min(found, coming)
    return found


def _counterpart(trigger: Trigger, instant: datetime) -> datetime:
    """The fire time that is nearest to one by other rules; of two the earlier one."""
    after = next_fire_time_of(trigger, instant - _MICROSECOND)
    reach = _FURTHEST if after is None else min(after - instant, _FURTHEST)
    first = next_fire_time_of(trigger, instant - reach - _MICROSECOND)
    if first is None:
        return instant
    if first < instant:
        return latest_fire_time(trigger, first, instant)
    return first if first - instant < _FURTHEST else instant


def _reads_a_zone(trigger: Trigger) -> bool:
    """Whether it, or a part of it, has a ``timezone`` other than UTC."""
    if getattr(trigger, "timezone", None) is not None:
        # To ask for it here lets its data be looked at, if it is a user's trigger.
        zone = zone_of(trigger)
        if zone is not None and zone != "UTC":
            return True
    return any(map(_reads_a_zone, trigger.parts()))
