"""The triggers that another trigger is made of: checked, shown and stored."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown
from go_scheduler.triggers.base import Trigger, read_field, write_field, years_of
from go_scheduler.triggers.combining.search import SearchedTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.triggers.years.years import Years

MOST_PARTS = 100
"""The most triggers that one may be made of, those within its parts included."""

DEEPEST = 10
"""The most triggers that may be nested in each other."""


def checked_part(name: str, value: object) -> Trigger:
    """A value that is to be a part of another trigger.

    Args:
        name: What to call it in an error.
        value: The value.

    Raises:
        InvalidTriggerError: It is no trigger, waits for the end of a run, runs on
            demand, or cannot be loaded here.
    """
    if not isinstance(value, Trigger):
        raise InvalidTriggerError(
            f"{name} must be a trigger, such as CronTrigger('0 9 * * *'), not"
            f" {shown(value)}"
        )
    if isinstance(value, UnknownTrigger):
        raise InvalidTriggerError(f"{name}: {value.reason}")
    if value.waits:
        raise InvalidTriggerError(
            f"{name} waits for the end of a run, so that it has no fire times to"
            f" combine: {shown(value)}; use an IntervalTrigger"
        )
    if isinstance(value, OnDemandTrigger):
        raise InvalidTriggerError(
            f"{name} never fires, so that it has no fire times to combine:"
            f" {shown(value)}; run_now() runs any definition on demand"
        )
    return value


def checked_items(name: str, value: object, what: str) -> Sequence[object]:
    """A value that is to be a list of something.

    Args:
        name: What to call it in an error.
        value: The value.
        what: What it is to hold, as in ``a list of triggers``.

    Raises:
        InvalidTriggerError: It is no list or tuple, empty or too long.
    """
    if not isinstance(value, list | tuple):
        raise InvalidTriggerError(f"{name} must be a list of {what}: {shown(value)}")
    if not 0 < len(value) <= MOST_PARTS:
        raise InvalidTriggerError(
            f"{name} must be 1 to {MOST_PARTS} {what}, not {len(value)}"
        )
    return value


def check_size(trigger: Trigger) -> None:
    """Refuse a trigger that is made of too many, or nested too deep.

    Raises:
        InvalidTriggerError: It is.
    """
    depth, number = _size(trigger)
    if depth > DEEPEST or number > MOST_PARTS:
        raise InvalidTriggerError(
            f"it is made of {number} triggers, {depth} deep, itself included; at most"
            f" {MOST_PARTS}, {DEEPEST} deep, make one"
        )


def anchored_part(part: Trigger, now: datetime) -> Trigger:
    """A part counting from ``now``, if it counts from somewhere not given.

    Raises:
        InvalidTriggerError: What its ``anchored`` returned is not equal to it.
    """
    anchored: object = part.anchored(now)
    if not isinstance(anchored, Trigger) or anchored != part:
        raise InvalidTriggerError(
            f"{shown(part)} is not equal to itself when anchored: {shown(anchored)}"
        )
    return anchored


def anchored_value(value: object, now: datetime) -> object:
    """A field's value with its triggers anchored; itself if none had to be."""
    if isinstance(value, Trigger):
        return anchored_part(value, now)
    if not isinstance(value, tuple):
        return value
    found = tuple(anchored_value(each, now) for each in value)
    return value if all(map(operator.is_, found, value)) else found


def in_brackets(trigger: Trigger) -> str:
    """Its description, in brackets if it could run into what follows."""
    text = trigger.describe()
    return f"({text})" if isinstance(trigger, SearchedTrigger) else text


def all_years_of(triggers: Sequence[Trigger], phase: int) -> list[Years] | None:
    """The fire times of several triggers as sets; None: some are not known as such.

    Args:
        triggers: The triggers.
        phase: At which microsecond of their seconds.
    """
    found = [years_of(each, phase) for each in triggers]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def to_json(value: object) -> JSON:
    """A field's value as JSON: triggers by their kind and state.

    Raises:
        InvalidTriggerError: A trigger cannot be stored.
    """
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, Trigger):
        kind, state = dump_trigger(value)
        return {"kind": kind, "state": state}
    return write_field(value)


def from_json(value: JSON) -> object:
    """The value that ``to_json`` was called on; an unknown trigger stays one."""
    if isinstance(value, list):
        return tuple(map(from_json, value))
    match value:
        case {"kind": str(kind), "state": state, **others} if not others:
            return load_trigger(kind, state)
    try:
        return read_field(value)
    except ValueError:
        # The check of the field says what it should be.
        return value


def _size(trigger: Trigger) -> tuple[int, int]:
    """How deep a trigger is nested, and of how many it is made."""
    if not isinstance(trigger, SearchedTrigger):
        return 1, 1
    depths, numbers = zip(*map(_size, trigger.parts()), strict=True)
    return 1 + max(depths), 1 + sum(numbers)
