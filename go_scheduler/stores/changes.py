"""What a change makes of what is stored: one rule for every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError, ConflictError
from go_scheduler.models import Outcome, Pause, RunEnd, TaskDefinition
from go_scheduler.models.changed import changed
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.messages import RunOutcome, Tombstone

EDITED = "its definition was given another trigger before it ran"
"""Why an instance is skipped whose fire time had passed when that happened."""


def check_each_once(definitions: Iterable[TaskDefinition]) -> None:
    """Refuse to put two definitions of one id: which one is to be kept?

    Raises:
        ConfigurationError: An id is there twice.
    """
    ids: set[UUID] = set()
    for each in definitions:
        if each.id in ids:
            raise ConfigurationError(f"definition {each.id} is there twice")
        ids.add(each.id)


def check_revision(
    new: TaskDefinition, stored: TaskDefinition | Tombstone | None
) -> None:
    """Refuse to put over what somebody else has changed.

    Raises:
        ConflictError: The revision that is set is not the stored one; or it is 0, that
            of a new one, and there is one.
    """
    if new.revision == 0 and not isinstance(stored, TaskDefinition):
        return
    revision = None if stored is None else stored.revision
    if new.revision is not None and new.revision != revision:
        raise ConflictError(new.id, expected=new.revision, revision=revision)


def check_is_as_read(read: TaskDefinition, revision: int | None) -> None:
    """Refuse what was decided by a definition that somebody has changed since.

    Raises:
        ConflictError: The revision that is stored is not the one that was read.
    """
    if read.revision != revision:
        raise ConflictError(read.id, expected=read.revision, revision=revision)


def goes_on(old: TaskDefinition, new: TaskDefinition) -> bool:
    """Whether a put leaves a stored definition its series of fire times."""
    return new.trigger == old.trigger


def created(
    new: TaskDefinition, now: datetime, *, revision: int, owner: str | None = None
) -> TaskDefinition:
    """A new definition as it is stored; an owner is whoever declares it."""
    return changed(
        new,
        owner=owner,
        note=new.note if new.paused else None,
        paused_at=now if new.paused else None,
        last_pause=None,
        completed_at=_completed_at(new, now),
        revision=revision,
    )


def kept(
    old: TaskDefinition, new: TaskDefinition, *, owner: str | None = None
) -> TaskDefinition:
    """A stored definition that a put leaves as it is."""
    return changed(old, named=old.named or new.named, owner=owner or old.owner)


def edited(
    old: TaskDefinition, new: TaskDefinition, *, owner: str | None = None
) -> TaskDefinition:
    """A stored definition that keeps its trigger, and with it its fire times."""
    return changed(
        new,
        trigger=old.trigger,
        named=old.named or new.named,
        owner=owner or old.owner,
        next_fire_time=old.next_fire_time,
        paused=old.paused,
        note=old.note,
        paused_at=old.paused_at,
        last_pause=old.last_pause,
        overdue=old.overdue,
        completed_at=old.completed_at,
        revision=next_revision(old),
    )


def rescheduled(
    old: TaskDefinition,
    new: TaskDefinition,
    now: datetime,
    *,
    owner: str | None = None,
) -> TaskDefinition:
    """A stored definition that gets another trigger: it starts anew."""
    return changed(
        new,
        named=old.named or new.named,
        owner=owner or old.owner,
        paused=old.paused,
        note=old.note,
        paused_at=old.paused_at,
        last_pause=old.last_pause,
        completed_at=_completed_at(new, now),
        revision=next_revision(old),
    )


def fired(
    old: TaskDefinition, next_fire_time: datetime | None, now: datetime
) -> TaskDefinition:
    """A stored definition that has fired: completed if nothing is left to wait for."""
    if next_fire_time is not None:
        return changed(old, next_fire_time=utc(next_fire_time, name="next_fire_time"))
    completed_at = old.completed_at if old.trigger.waits else now
    return changed(old, next_fire_time=None, completed_at=completed_at)


def resumed(old: TaskDefinition, now: datetime) -> TaskDefinition:
    """A paused definition after its resume, with the pause that it had."""
    return changed(
        old,
        paused=False,
        note=None,
        paused_at=None,
        last_pause=Pause(since=old.paused_at or now, until=now, note=old.note),
        revision=next_revision(old),
    )


def next_revision(old: TaskDefinition) -> int:
    """The revision after a change."""
    return (old.revision or 0) + 1


def is_over_at_once(new: TaskDefinition) -> bool:
    """Whether nothing is left to wait for: no fire time, no end of a run, nobody."""
    trigger = new.trigger
    if isinstance(trigger, OnDemandTrigger):
        return not trigger.lasting
    return new.next_fire_time is None and not trigger.waits


def run_end(outcome: RunOutcome) -> RunEnd:
    """As what a run is kept that did not succeed."""
    if outcome.hung:
        return RunEnd.HUNG
    if outcome.outcome is Outcome.CANCELLED:
        return RunEnd.CANCELLED
    return RunEnd.FAILED


def _completed_at(new: TaskDefinition, now: datetime) -> datetime | None:
    return now if is_over_at_once(new) else None
