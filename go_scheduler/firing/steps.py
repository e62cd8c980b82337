"""The steps of definitions: which fire times become instances, which are skipped.

A definition has a ``next_fire_time`` and no record of the rules by which it was found.
These change: a government moves the clocks, and the data of the zone follow, sooner or
later, on one node before the other. Then the next fire time may be none any more, or
another one may come before it. What counts is the clock on the wall: each time of the
schedule is to run once, at the instant that the present rules give it, and not again if
it has run at the instant that others gave it.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError
from go_scheduler.firing.latest import (
    Missed,
    and_missed,
    jitter_of,
    latest_fire_time,
    pass_over,
)
from go_scheduler.models import Skipped, TaskDefinition
from go_scheduler.policies import CatchUp
from go_scheduler.stores.messages import Firing
from go_scheduler.stores.rules import FULL
from go_scheduler.triggers.base import Trigger, next_fire_time_of
from go_scheduler.triggers.local_time import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def within_queue(firing: Firing, room: int) -> Firing:
    """A step of so many instances at most.

    While there is room the step ends before what is beyond it; without any, that is
    recorded as skipped.

    Args:
        firing: The step, with fire times.
        room: How many more may wait; none if it is not above zero.
    """
    times = firing.fire_times
    if len(times) <= room:
        return firing
    if room > 0:
        return replace(
            firing,
            fire_times=times[:room],
            execute_times=firing.execute_times[:room],
            next_fire_time=times[room],
        )
    reason = FULL % firing.definition.max_queue
    skipped = Skipped(first=times[0], last=times[-1], count=len(times), reason=reason)
    if (before := firing.skipped) is not None:
        skipped = Skipped(
            first=min(before.first, skipped.first),
            last=max(before.last, skipped.last),
            count=before.count + skipped.count,
            reason=f"{before.reason}; {reason}",
        )
    return replace(firing, fire_times=(), execute_times=(), skipped=skipped)


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


_INSTEAD = "a later fire time ran instead"
MOST_FIRE_TIMES = 1000
"""The most fire times of one definition that are computed one by one in a tick."""


def plan(
    definition: TaskDefinition,
    *,
    now: datetime,
    until: datetime,
    catch_up: CatchUp = CatchUp(),
    most: int = MOST_FIRE_TIMES,
    last: LastFired | None = None,
) -> Firing:
    """One step of a definition.

    Each fire time up to ``until`` becomes an instance, but those that are too late to
    run by its ``catch_up``: they are recorded as skipped, all but the latest if that is
    to run.

    Args:
        definition: The definition, with a ``next_fire_time``.
        now: The store's time.
        until: How far ahead to go.
        catch_up: If the definition does not say.
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
        return _firing(definition, [fire_time])
    if last is not None:
        fire_time = replaced(trigger, fire_time, until, last)
    elif is_displaced(trigger, fire_time, until):
        raise DisplacedError
    catch_up = definition.catch_up or catch_up
    if definition.overdue:
        catch_up = catch_up.dropping_alone
    spread = definition.jitter or ZERO
    missed, following = _missed(trigger, fire_time, catch_up, now - spread, most)
    fire_times: list[datetime] = []
    looked_at = 0
    while following is not None and following <= until and looked_at < most:
        late = now - following - jitter_of(definition, following)
        if catch_up.each is not None and late > catch_up.each:
            missed = and_missed(missed, following)
        else:
            fire_times.append(following)
        following = next_fire_time_of(trigger, following)
        looked_at += 1
    if missed is None:
        return _firing(definition, fire_times, following)
    latest = missed.last
    coming = fire_times if following is None else [*fire_times, following]
    instead = any(latest < each <= now for each in coming)
    late = now - latest - jitter_of(definition, latest)
    skipped: Missed | None = missed
    if not instead and _runs(catch_up, late):
        skipped, instead = missed.without_last(), True
        insort(fire_times, latest)
        if len(fire_times) > most:
            following = fire_times.pop()
    reason = catch_up.why_not(_INSTEAD if instead else None)
    record = None if skipped is None else _record(definition, skipped, reason)
    return _firing(definition, fire_times, following, record)


def _missed(
    trigger: Trigger,
    fire_time: datetime,
    catch_up: CatchUp,
    now: datetime,
    most: int,
) -> tuple[Missed | None, datetime | None]:
    """What is too late to run, each of it, and the fire time after it."""
    late = catch_up.each
    if late is None:
        return None, fire_time
    return pass_over(trigger, fire_time, now - late - _MICROSECOND, most)


def _runs(catch_up: CatchUp, late: timedelta) -> bool:
    """Whether the latest of what was missed runs, as no later one does."""
    most = catch_up.latest
    return catch_up.mode == "latest" and (most is None or late <= most)


def _record(definition: TaskDefinition, skipped: Missed, reason: str) -> Skipped:
    pause = definition.last_pause
    if pause is not None:
        reason = pause.explained(reason, skipped.first, skipped.last)
    return skipped.skipped(reason)


def _firing(
    definition: TaskDefinition,
    fire_times: Sequence[datetime],
    next_fire_time: datetime | None = None,
    skipped: Skipped | None = None,
) -> Firing:
    execute_times: Iterable[datetime] = ()
    if definition.jitter:
        execute_times = (each + jitter_of(definition, each) for each in fire_times)
    return Firing(
        definition=definition,
        fire_times=tuple(fire_times),
        skipped=skipped,
        next_fire_time=next_fire_time,
        execute_times=tuple(execute_times),
    )
