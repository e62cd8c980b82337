"""Conversion of triggers to a kind and a state, as stores keep them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError, UnknownTriggerError
from go_scheduler.formatting import shown
from go_scheduler.json import JSON
from go_scheduler.triggers.base import (
    KIND_IS_A_FIELD,
    Trigger,
    find,
    is_registered,
    name_of,
    why_unknown,
)

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class UnknownTrigger(Trigger):
    """Stands for a stored trigger that this process cannot load.

    It keeps what was stored, so that nothing is lost, and leaves firing to a node that
    knows the kind.

    Attributes:
        unknown_kind: The kind in the store.
        state: The state in the store.
        reason: Why it could not be loaded.
    """

    unknown_kind: str
    state: JSON = field(hash=False)
    reason: str = field(compare=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Refuse: only a process that knows the kind can tell.

        Raises:
            UnknownTriggerError: Always.
        """
        raise UnknownTriggerError(self.reason)

    def describe(self) -> str:
        """Say why this process does not know when it fires."""
        return f"not known here: {self.reason}"


def dump_trigger(trigger: Trigger) -> tuple[str, JSON]:
    """A trigger's kind and state, as a store keeps them.

    Raises:
        InvalidTriggerError: The trigger's class has no kind of its own, or is a
            dataclass that can be changed, or the trigger has a state that is not JSON.
    """
    if isinstance(trigger, UnknownTrigger):
        return trigger.unknown_kind, trigger.state
    _check_class(type(trigger))
    kind = getattr(trigger, "kind", None)
    if not isinstance(kind, str) or not is_registered(type(trigger), kind):
        raise InvalidTriggerError(
            f"{name_of(type(trigger))} needs a `kind` of its own, its stable name in"
            " the store"
        )
    return kind, trigger.to_dict()


@cache
def _check_class(cls: type[Trigger]) -> None:
    """Refuse a dataclass that is not frozen, or that has its kind as a field."""
    if not is_dataclass(cls):
        return
    if any(each.name == "kind" for each in fields(cls)):
        raise InvalidTriggerError(f"{name_of(cls)}{KIND_IS_A_FIELD}")
    if not cls.__dataclass_params__.frozen:
        raise InvalidTriggerError(
            f"{name_of(cls)} can be changed, and a trigger is a value: write"
            " @dataclass(frozen=True)"
        )


def load_trigger(kind: str, state: JSON) -> Trigger:
    """The trigger of a stored kind and state; never raises.

    Returns:
        The trigger; an ``UnknownTrigger`` that keeps both if this process has no such
        kind or the kind does not accept the state.
    """
    try:
        cls = find(kind)
        if cls is None:
            return UnknownTrigger(kind, state, why_unknown(kind))
        if not isinstance(state, Mapping):
            raise InvalidTriggerError(f"it is no object: {shown(state)}")
        return cls.from_dict(state)
    except Exception as error:
        reason = f"the stored state of a {shown(kind)} trigger does not load: {error}"
        return UnknownTrigger(kind, state, reason)
