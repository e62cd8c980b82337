"""What happens to a definition between the user and the store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.checks import check_type
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    InvalidTriggerError,
)
from go_scheduler.json import freeze
from go_scheduler.models import TaskDefinition
from go_scheduler.models.changed import changed
from go_scheduler.shown import shown
from go_scheduler.triggers.base import (
    STATE_LIMIT,
    Trigger,
    checked_fire_time,
    is_brief,
    is_own,
    next_fire_time_of,
)
from go_scheduler.triggers.stored import dump_trigger, load_trigger
from go_scheduler.triggers.years.effort import UndecidedError

if TYPE_CHECKING:
    from datetime import datetime


def prepare(
    definition: TaskDefinition, now: datetime, at_latest: datetime | None = None
) -> TaskDefinition:
    """Anchor a definition's trigger and ask for its first fire time.

    Args:
        definition: The definition.
        now: The store's time, or a little earlier.
        at_latest: The latest that it may be; None: it is ``now``.

    Raises:
        ConfigurationError: It is no definition.
        InvalidTriggerError: Its trigger raised, does not survive being stored, or
            returned what is no fire time, or none that is later.
    """
    _check_one(definition)
    given = definition.trigger
    try:
        trigger = given.anchored(now)
        if trigger.waits and not is_own(trigger):
            raise InvalidTriggerError(
                f"{shown(given)} waits for the end of a run, which only this package's"
                " own triggers may: theirs is called where nothing may hang"
            )
        first = trigger.first_fire_time(now)
        if first is not None:
            first = checked_fire_time(trigger, first)
            _check_that_it_goes_on(trigger, first)
        _check_storable(trigger, given)
    except GoSchedulerError:
        raise
    except Exception as error:
        raise InvalidTriggerError(f"{shown(given)} raised {shown(error)}") from error
    # It is asked for all the same. Whoever asks for now must not come too late by that.
    passed = first is not None and first <= (at_latest or now)
    overdue = passed and not trigger.recurring
    return changed(definition, trigger=trigger, next_fire_time=first, overdue=overdue)


def next_after_end(definition: TaskDefinition, now: datetime) -> datetime | None:
    """When a definition that waits for its instance's end fires, if it ends now."""
    if not definition.trigger.waits:
        return None
    return next_fire_time_of(definition.trigger, now)


def _check_one(definition: object) -> None:
    if isinstance(definition, list | tuple):
        raise ConfigurationError(
            "definition must be a TaskDefinition, and schedule_all() takes several:"
            f" {shown(definition)}"
        )
    check_type("definition", definition, TaskDefinition)


def _check_that_it_goes_on(trigger: Trigger, first: datetime) -> None:
    """Refuse a trigger of the user's that answers with what it was asked about."""
    if not is_own(trigger):
        # One that stays open after its first fire time fires then all the same.
        with suppress(UndecidedError):
            next_fire_time_of(trigger, first)


def _check_storable(trigger: Trigger, given: Trigger) -> None:
    """Refuse a trigger that would be another one when it is loaded."""
    if trigger is given and is_own(trigger) and is_brief(trigger):
        return
    kind, given_state = dump_trigger(trigger)
    if trigger != given:
        raise InvalidTriggerError(
            f"{shown(given)} is not equal to itself when anchored: {shown(trigger)};"
            " fields that anchored() fills in must be compare=False"
        )
    if is_own(trigger):
        return
    try:
        state = freeze(
            given_state, name=f"the state of {shown(given)}", limit=STATE_LIMIT
        )
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None
    loaded = load_trigger(kind, state)
    if loaded != trigger:
        raise InvalidTriggerError(
            f"{shown(trigger)} is another trigger when stored and loaded:"
            f" {shown(loaded)}"
        )
