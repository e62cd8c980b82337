"""The steps of definitions: which fire times become instances, which are skipped."""

from __future__ import annotations

from bisect import insort
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError
from go_scheduler.firing.displacement import DisplacedError, is_displaced, replaced
from go_scheduler.firing.jitter import jitter_of
from go_scheduler.firing.missed import and_missed, pass_over
from go_scheduler.policies import CatchUp
from go_scheduler.stores.messages import Firing
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from go_scheduler.firing.displacement import LastFired
    from go_scheduler.firing.missed import Missed
    from go_scheduler.models import Skipped, TaskDefinition
    from go_scheduler.triggers.base import Trigger

_MICROSECOND = timedelta(microseconds=1)
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
    if definition.jitter is not None:
        execute_times = (each + jitter_of(definition, each) for each in fire_times)
    return Firing(
        definition=definition,
        fire_times=tuple(fire_times),
        skipped=skipped,
        next_fire_time=next_fire_time,
        execute_times=tuple(execute_times),
    )
