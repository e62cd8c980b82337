"""The base classes of events, and the ids that events have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from go_scheduler.models import Skipped, TaskDefinition, TaskInstance


class Line(NamedTuple):
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        text: With places for values, such as ``%(node)s``.
        values: Values besides the fields of the event, whose durations are in seconds,
            and ``of`` and ``what``, which name its definition.
        ids: The values that are attributes of the record; None: the ids of the event.
        with_traceback: Whether the traceback of the event's exception follows.
    """

    level: int
    text: str
    values: Mapping[str, object] = {}
    ids: Sequence[str] | None = None
    with_traceback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. All times are the store's, in UTC."""

    @property
    def _line(self) -> Line | None:
        """Its line in the log; None: it has none."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEvent(Event):
    """Something that has happened to a definition.

    Attributes:
        definition_id: Which.
        name: Its name, if it has one.
        queue: Its queue.
    """

    definition_id: UUID
    name: str | None
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvent(Event):
    """Something that has happened to an instance that a node has claimed.

    Attributes:
        instance_id: Which.
        attempt: The claim that it is about: ``(instance_id, attempt)`` is the fencing
            token.
        definition_id: Its definition.
        name: The definition's name, if it has one.
        queue: The definition's queue.
    """

    instance_id: UUID
    attempt: int
    definition_id: UUID
    name: str | None
    queue: str


class DefinitionIds(TypedDict):
    """The fields of each event of a definition."""

    definition_id: UUID
    name: str | None
    queue: str


class SkippedIds(DefinitionIds):
    """The fields of each event of skipped fire times."""

    first: datetime
    last: datetime
    count: int
    reason: str


class InstanceIds(DefinitionIds):
    """The fields of each event of an instance."""

    instance_id: UUID
    attempt: int


def of_definition(definition: TaskDefinition) -> DefinitionIds:
    """The fields that identify this definition in an event."""
    return {
        "definition_id": definition.id,
        "name": definition.name,
        "queue": definition.queue,
    }


def of_skipped(definition: TaskDefinition, skipped: Skipped) -> SkippedIds:
    """The fields of an event of fire times of this definition that were skipped."""
    return {
        **of_definition(definition),
        "first": skipped.first,
        "last": skipped.last,
        "count": skipped.count,
        "reason": skipped.reason,
    }


def of_instance(instance: TaskInstance) -> InstanceIds:
    """The fields that identify this instance in an event."""
    return {
        **of_definition(instance.definition),
        "instance_id": instance.id,
        "attempt": instance.attempt,
    }
