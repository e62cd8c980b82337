"""What all events have in common, and the ids that they are told with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict
from uuid import UUID

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import Skipped, TaskDefinition, TaskInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. All times are the store's, in UTC."""


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
    """What each event of a definition has."""

    definition_id: UUID
    name: str | None
    queue: str


class SkippedIds(DefinitionIds):
    """What each event of skipped fire times has."""

    first: datetime
    last: datetime
    count: int
    reason: str


class InstanceIds(TypedDict):
    """What each event of an instance has."""

    instance_id: UUID
    attempt: int
    definition_id: UUID
    name: str | None
    queue: str


def of_definition(definition: TaskDefinition) -> DefinitionIds:
    """The ids that an event of this definition has."""
    return {
        "definition_id": definition.id,
        "name": definition.name,
        "queue": definition.queue,
    }


def of_skipped(definition: TaskDefinition, skipped: Skipped) -> SkippedIds:
    """What an event of skipped fire times of this definition has."""
    return {
        **of_definition(definition),
        "first": skipped.first,
        "last": skipped.last,
        "count": skipped.count,
        "reason": skipped.reason,
    }


def of_instance(instance: TaskInstance) -> InstanceIds:
    """The ids that an event of this instance has."""
    definition = instance.definition
    return {
        "instance_id": instance.id,
        "attempt": instance.attempt,
        "definition_id": definition.id,
        "name": definition.name,
        "queue": definition.queue,
    }
