"""Between rows and values: definitions and their contents.

Reading never fails. A definition whose row holds what this process cannot read gets an
``UnknownTrigger`` that says why, so that it is reported, left alone and not lost.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from go_scheduler.checks import NOTE_LIMIT
from go_scheduler.errors import GoSchedulerError
from go_scheduler.json import JSON, FrozenObject, read_object
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.slots import overlap_of, slot_of
from go_scheduler.stores.sql.policy_json import dump_policies, load_policies
from go_scheduler.stores.sql.types import from_microseconds, to_microseconds, to_text
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from sqlalchemy import Row

    from go_scheduler.triggers.base import Trigger

DEFINITION_COLUMNS = (
    "key",
    "id",
    "queue",
    "priority",
    "expire_after",
    "next_fire_time",
    "paused",
    "note",
    "paused_at",
    "completed_at",
    "revision",
    "named",
    "owner",
)
"""The columns of a definition that are read back, as ``DefinitionRow`` has them."""

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
"""Stands for a time that cannot be read: most of them are later than any that can."""

NO_ID = UUID(int=0)
"""Stands for an id that cannot be read."""


class DefinitionRow(NamedTuple):
    """The columns of ``task_definitions`` that are read, as the driver has them."""

    key: UUID
    id: Any
    queue: Any
    priority: Any
    expire_after: Any
    next_fire_time: Any
    paused: Any
    note: Any
    paused_at: Any
    completed_at: Any
    revision: Any
    named: Any
    owner: Any


class Contents(NamedTuple):
    """The fields that a user set, apart from queue and expire_after."""

    name: str | None
    metadata: FrozenObject
    trigger: Trigger
    policies: Mapping[str, Any]


class ContentsRow(NamedTuple):
    """The texts of ``task_contents`` that contents are read from."""

    name: str | None
    metadata: str
    trigger_kind: str
    trigger_state: str
    policies: str


def write_contents(definition: TaskDefinition) -> ContentsRow:
    """The texts that ``read_contents`` reads."""
    kind, state = dump_trigger(definition.trigger)
    return ContentsRow(
        name=definition.name,
        metadata=to_text(definition.metadata),
        trigger_kind=kind,
        trigger_state=to_text(state),
        policies=to_text(dump_policies(definition)),
    )


def write_definition(definition: TaskDefinition) -> dict[str, object]:
    """The columns of ``task_definitions`` that a put sets."""
    expire_after = definition.expire_after
    overlap = overlap_of(definition, fired=False)
    return {
        "queue": definition.queue,
        "priority": definition.priority,
        "expire_after": None if expire_after is None else to_microseconds(expire_after),
        "waits": definition.trigger.waits,
        "slot": slot_of(definition, fired=False),
        "overlap": None if overlap is None else overlap.value,
        "revision": definition.revision,
        "named": definition.named,
        "owner": definition.owner,
    }


def read_contents(row: ContentsRow | Row[Any] | None) -> Contents:
    """The contents of a row, or a stand-in that says what is wrong with it."""
    if row is None:
        return _unreadable("", None, "it has no contents")
    state: JSON = None
    try:
        state = json.loads(row.trigger_state)
        metadata = read_object(row.metadata)
        policies = load_policies(json.loads(row.policies))
        trigger = load_trigger(row.trigger_kind, state)
        return Contents(row.name, metadata, trigger, policies)
    # A row that was written by other means than this package may hold anything.
    except Exception as error:
        return _unreadable(str(row.trigger_kind), state, str(error), name=row.name)


def _unreadable(
    kind: str, state: JSON, problem: str, *, name: str | None = None
) -> Contents:
    trigger = UnknownTrigger(kind, state, f"the stored row cannot be read: {problem}")
    return Contents(name, FrozenObject(), trigger, {})


def read_definition(
    row: DefinitionRow | Row[Any], contents: Contents
) -> TaskDefinition:
    """The definition of a row and its contents."""
    try:
        return TaskDefinition(
            trigger=contents.trigger,
            id=row.id,
            name=contents.name,
            queue=row.queue,
            priority=row.priority,
            metadata=contents.metadata,
            expire_after=_duration(row.expire_after),
            named=bool(row.named),
            owner=row.owner,
            next_fire_time=row.next_fire_time,
            paused=bool(row.paused),
            note=_note(row.note),
            paused_at=row.paused_at,
            completed_at=row.completed_at,
            revision=row.revision,
            **contents.policies,
        )
    except (GoSchedulerError, TypeError, OverflowError) as error:
        return _stand_in(row, contents, error)


def _stand_in(
    row: DefinitionRow | Row[Any], contents: Contents, error: Exception
) -> TaskDefinition:
    """A definition that keeps of its row what can be read."""
    return TaskDefinition(
        trigger=unknown(contents.trigger, f"the stored row cannot be read: {error}"),
        id=row.id if isinstance(row.id, UUID) else NO_ID,
        metadata=contents.metadata,
        named=bool(row.named),
        next_fire_time=read_time(row.next_fire_time),
        paused=bool(row.paused),
        paused_at=read_time(row.paused_at),
        completed_at=read_time(row.completed_at),
        revision=row.revision if isinstance(row.revision, int) else None,
    )


def missing_definition(key: object) -> TaskDefinition:
    """A stand-in for the definition of an instance that has none."""
    return TaskDefinition(
        trigger=UnknownTrigger("", None, "the definition of an instance is missing"),
        id=key if isinstance(key, UUID) else NO_ID,
    )


def unknown(trigger: Trigger, reason: str) -> UnknownTrigger:
    """A stand-in for a trigger, when anything of its row cannot be read."""
    try:
        kind, state = dump_trigger(trigger)
    # A trigger of a user's may raise anything.
    except Exception:
        kind, state = "", None
    return UnknownTrigger(kind, state, reason)


def read_time(value: object) -> datetime | None:
    """A time of a row, if it is one."""
    return value if isinstance(value, datetime) else None


def _note(value: object) -> str | None:
    """A note that can be kept, whatever was written into its column."""
    if not isinstance(value, str):
        return None
    return value.replace("\0", "")[:NOTE_LIMIT]


def _duration(value: int | None) -> timedelta | None:
    return None if value is None else from_microseconds(value)
