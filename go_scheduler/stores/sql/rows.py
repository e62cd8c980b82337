"""Between rows and values: definitions and their contents.

Reading never fails. A definition whose row holds what this process cannot read gets an
``UnknownTrigger`` that says why, so that it is reported, left alone and not lost.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from go_scheduler.checks import NOTE_LIMIT, check_type
from go_scheduler.errors import StoreError
from go_scheduler.json import JSON, FrozenObject, read_object, read_value, to_text
from go_scheduler.models import TaskDefinition
from go_scheduler.models.trusted import trusted
from go_scheduler.stores.slots import overlap_of, slot_of
from go_scheduler.stores.sql.policy_json import dump_policies, load_policies
from go_scheduler.stores.sql.types import (
    UNREADABLE,
    Unreadable,
    from_microseconds,
    to_microseconds,
)
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

_ANY_TRIGGER = UnknownTrigger("", None, "")
_definition: Callable[..., TaskDefinition] = trusted(TaskDefinition)


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
    """The fields that a user set, apart from columns; policies as they are kept."""

    name: str | None
    metadata: Mapping[str, JSON]
    trigger: Trigger
    policies: str


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
    policies = dump_policies(definition)
    return ContentsRow(
        definition.name,
        to_text(definition.metadata) if definition.metadata else "{}",
        kind,
        to_text(state),
        to_text(policies) if policies else "{}",
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
        state = read_value(row.trigger_state)
        metadata = read_object(row.metadata)
        load_policies(row.policies)
        trigger = load_trigger(row.trigger_kind, state)
        return Contents(row.name, metadata, trigger, row.policies)
    # A row that was written by other means than this package may hold anything.
    except Exception as error:
        return _unreadable(str(row.trigger_kind), state, str(error), name=row.name)


def _unreadable(
    kind: str, state: JSON, problem: str, *, name: str | None = None
) -> Contents:
    trigger = UnknownTrigger(kind, state, f"the stored row cannot be read: {problem}")
    return Contents(name, FrozenObject(), trigger, "{}")


def read_definition(
    row: DefinitionRow | Row[Any], contents: Contents
) -> TaskDefinition:
    """The definition of a row and its contents."""
    try:
        _check_readable(row)
        like = _like(
            row.queue,
            row.priority,
            row.expire_after,
            contents.name,
            row.owner,
            contents.policies,
        )
    except Exception as error:
        return _stand_in(row, contents, error)
    named = like.name, like.queue, like.priority
    limits = like.expire_after, like.timeout, like.start_timeout, like.heartbeat_timeout
    few = like.max_per_node, like.max_queue, like.when_full
    return _definition(
        contents.trigger,
        row.id,
        *named,
        contents.metadata,
        *limits,
        like.retry,
        like.catch_up,
        like.jitter,
        like.overlap,
        like.lock,
        *few,
        bool(row.named),
        like.owner,
        row.next_fire_time,
        bool(row.paused),
        _note(row.note),
        row.paused_at,
        like.last_pause,
        like.overdue,
        like.trace_context,
        row.completed_at,
        row.revision,
        row.id,
    )


def _check_readable(row: DefinitionRow | Row[Any]) -> None:
    check_type("revision", row.revision, int)
    if Unreadable in map(type, row):
        bad = [each for each in DEFINITION_COLUMNS if getattr(row, each) is UNREADABLE]
        raise StoreError(f"{', '.join(bad)}: {UNREADABLE}")


# Definitions are many, and what many of them have in common is checked once.
@lru_cache(maxsize=1024)
def _like(
    queue: Any,
    priority: Any,
    expire_after: Any,
    name: str | None,
    owner: Any,
    policies: str,
) -> TaskDefinition:
    """One of which all this is so, by what is kept of it."""
    return TaskDefinition(
        trigger=_ANY_TRIGGER,
        name=name,
        queue=queue,
        priority=priority,
        expire_after=None if expire_after is None else from_microseconds(expire_after),
        owner=owner,
        **load_policies(policies),
    )


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
