"""Lateness: which claimed instances come too late to be run.

Decisions alone, as in ``intake``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.running.outcomes import runs_before
from go_scheduler.stores.slots import takes_slot
from go_scheduler.triggers.base import is_own, next_fire_time_of

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import CatchUp
    from go_scheduler.running.defaults import Defaults

_SINCE = "a later fire time has passed since"


class Asked:
    """What triggers have answered for a batch of instances: most answers hold for many.

    What follows a fire time follows whatever is between the two as well.
    """

    def __init__(self) -> None:
        self._last: dict[UUID, tuple[datetime, datetime | None]] = {}

    def next_fire_time(
        self, definition: TaskDefinition, after: datetime
    ) -> datetime | None:
        """When a definition's trigger fires next; None: never, or nobody can tell."""
        if (last := self._last.get(definition.id)) is not None:
            asked, coming = last
            if asked <= after and (coming is None or after < coming):
                return coming
        try:
            coming = next_fire_time_of(definition.trigger, after)
        # One that needs a calendar that is not registered here, say: it is as if it
        # never fired again.
        except Exception:
            coming = None
        self._last[definition.id] = after, coming
        return coming


def too_late(
    instance: TaskInstance,
    defaults: Defaults,
    *,
    now: datetime,
    asked: Asked | None = None,
) -> str | None:
    """Why an instance is not run, as it comes too late; None: it does not.

    What is later than its ``drop_after`` is not run in any case. What was missed is
    not, if it never ran and its ``catch_up`` would not have had an instance made of it
    now: its definition was edited since, or it was made ahead and nothing ran for a
    while.

    Args:
        instance: The instance, claimed or started.
        defaults: What holds for definitions that do not say.
        now: The store's time.
        asked: What triggers have answered for others of its batch.
    """
    late = now - instance.execute_at
    catch_up = instance.definition.catch_up or defaults.catch_up
    if late <= catch_up.grace and catch_up.drop_after is None:
        return None
    reason = _why_not(instance, defaults, catch_up, now, asked or Asked())
    pause = instance.definition.last_pause
    if reason is None or pause is None:
        return reason
    return pause.explained(reason, instance.execute_at, now)


def _why_not(
    instance: TaskInstance,
    defaults: Defaults,
    catch_up: CatchUp,
    now: datetime,
    asked: Asked,
) -> str | None:
    """Why it is not run, whatever pause it has waited for; None: it is."""
    reason = dropped(instance, defaults, now=now)
    if reason is not None or not _may_be_missed(instance):
        return reason
    late = now - instance.execute_at
    again = instance.attempt > 1
    if again and takes_slot(instance):
        # It was claimed in time, and has waited for its turn since.
        return None
    if again:
        # A node had it and died, or gave it back: nothing is lost by a failover.
        late -= 2 * defaults.lease
    return _missed(instance, catch_up, late, now, asked)


def dropped(instance: TaskInstance, defaults: Defaults, *, now: datetime) -> str | None:
    """Why an instance is not run in any case, as it comes too late; None: it may be."""
    catch_up = instance.definition.catch_up or defaults.catch_up
    if catch_up.drop_after is None:
        return None
    # What is backfilled is late by what it is, and what was run again by hand somebody
    # wants all the same.
    if instance.backfilled or instance.reopened_at is not None:
        return None
    late = now - instance.execute_at
    if instance.definition.trigger.waits or not catch_up.drops(late):
        return None
    return f"late by more than its drop_after of {catch_up.drop_after}"


def _may_be_missed(instance: TaskInstance) -> bool:
    """Whether it was made for a fire time of a series, and never ran."""
    never_ran = not runs_before(instance) and instance.reopened_at is None
    is_fired = instance.fire_time is not None and not instance.backfilled
    definition = instance.definition
    is_exempt = definition.trigger.waits or definition.overdue
    return never_ran and is_fired and not is_exempt


def _missed(
    instance: TaskInstance,
    catch_up: CatchUp,
    late: timedelta,
    now: datetime,
    asked: Asked,
) -> str | None:
    """Why what never ran does not run by its ``catch_up``, if it does not."""
    if catch_up.each is None or late <= catch_up.each:
        return None
    if catch_up.mode != "latest":
        return catch_up.why_not()
    if _has_passed_since(instance, now, asked):
        return catch_up.why_not(_SINCE)
    if catch_up.latest is None or late <= catch_up.latest:
        return None
    return catch_up.why_not()


def _has_passed_since(instance: TaskInstance, now: datetime, asked: Asked) -> bool:
    """Whether a later fire time has passed; what is foreign is not asked here."""
    definition, fire_time = instance.definition, instance.fire_time
    assert fire_time is not None
    coming = definition.next_fire_time
    if coming is not None and fire_time < coming <= now:
        return True
    trigger = definition.trigger
    if not (trigger.recurring and is_own(trigger)):
        return False
    coming = asked.next_fire_time(definition, fire_time)
    return coming is not None and coming <= now
