"""Between rows and values: definitions, their contents, instances.

Reading never fails. A definition whose row holds what this process cannot read gets an
``UnknownTrigger`` that says why, so that it is reported, left alone and not lost.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from go_scheduler.checks import NOTE_LIMIT
from go_scheduler.errors import GoSchedulerError
from go_scheduler.json import JSON, FrozenObject, read_object
from go_scheduler.models import Outcome, Skipped, TaskDefinition, TaskInstance
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.stores.messages import NodeContact, Tombstone
from go_scheduler.stores.sql.types import (
    UNREADABLE,
    Unreadable,
    from_microseconds,
    to_microseconds,
)
from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from sqlalchemy import Row

# What is kept of a definition and read back, in the order of ``DefinitionRow``.
DEFINITION_COLUMNS = (
    "key",
    "id",
    "queue",
    "expire_after",
    "next_fire_time",
    "paused",
    "note",
    "completed_at",
    "revision",
    "named",
)

# What is kept of an instance and has to be read of one that has just been claimed.
CLAIMED_COLUMNS = (
    "id",
    "definition_key",
    "fire_time",
    "execute_at",
    "due_at",
    "attempt",
    "runs",
    "hangs",
    "claimed_by",
    "expires_at",
    "started_at",
    "outcome",
    "error",
    "cancel_requested",
)
# And of any other: all but what only statements use.
INSTANCE_COLUMNS = (
    *CLAIMED_COLUMNS,
    "completed_at",
    "ended_attempt",
    "skipped_last",
    "skipped_count",
    "skipped_reason",
)

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
"""Stands for a time that cannot be read: most of them are later than any that can."""

_NO_ID = UUID(int=0)
_OUTCOMES = {None: None} | {outcome.value: outcome for outcome in Outcome}
# A frozen value's own __init__ takes twice as long.
_ASSIGN = [getattr(TaskInstance, each.name).__set__ for each in fields(TaskInstance)]
_OUTCOME = INSTANCE_COLUMNS.index("outcome")
_SKIPPED = INSTANCE_COLUMNS.index("skipped_last")
_STAND_INS = {
    "id": _NO_ID,
    "execute_at": LATEST,
    "due_at": LATEST,
    "skipped_last": LATEST,
}


CONTACT_COLUMNS = ("node", "contact_since", "seen_at", "queues")


class DefinitionRow(NamedTuple):
    """The columns of ``task_definitions`` that are read, as the driver has them."""

    key: UUID
    id: Any
    queue: Any
    expire_after: Any
    next_fire_time: Any
    paused: Any
    note: Any
    completed_at: Any
    revision: Any
    named: Any


class Contents(NamedTuple):
    """What a user wrote into a definition, apart from its queue and expire_after."""

    name: str | None
    metadata: FrozenObject
    trigger: Trigger
    retry: RetryPolicy
    catch_up: CatchUp


class ContentsRow(NamedTuple):
    """The texts of ``task_contents`` that contents are read from."""

    name: str | None
    metadata: str
    trigger_kind: str
    trigger_state: str
    policies: str


def write_contents(definition: TaskDefinition) -> ContentsRow:
    """What ``read_contents`` reads."""
    kind, state = dump_trigger(definition.trigger)
    return ContentsRow(
        name=definition.name,
        metadata=_dump(definition.metadata),
        trigger_kind=kind,
        trigger_state=_dump(state),
        policies=_dump(
            {
                "retry": {"max_attempts": definition.retry.max_attempts},
                "catch_up": {"grace": to_microseconds(definition.catch_up.grace)},
            }
        ),
    )


def write_definition(definition: TaskDefinition) -> dict[str, object]:
    """The columns of ``task_definitions`` that a put sets."""
    expire_after = definition.expire_after
    return {
        "queue": definition.queue,
        "expire_after": None if expire_after is None else to_microseconds(expire_after),
        "waits": definition.trigger.waits,
        "revision": definition.revision,
        "named": definition.named,
    }


def read_contents(row: ContentsRow | Row[Any] | None) -> Contents:
    """What ``write_contents`` wrote, or a stand-in that says what is wrong with it."""
    if row is None:
        return _unreadable("", None, "it has no contents")
    state: JSON = None
    try:
        state = json.loads(row.trigger_state)
        metadata = read_object(row.metadata)
        # What a newer version wrote, and this one would not do, raises a TypeError.
        retry, catch_up = _read_policies(**json.loads(row.policies))
        trigger = load_trigger(row.trigger_kind, state)
        return Contents(row.name, metadata, trigger, retry, catch_up)
    # Whoever wrote the row by hand may have written anything.
    except Exception as error:
        return _unreadable(str(row.trigger_kind), state, str(error), name=row.name)


def _read_policies(
    *, retry: dict[str, Any], catch_up: dict[str, Any]
) -> tuple[RetryPolicy, CatchUp]:
    grace = from_microseconds(catch_up.pop("grace"))
    return RetryPolicy(**retry), CatchUp(grace=grace, **catch_up)


def _unreadable(
    kind: str, state: JSON, problem: str, *, name: str | None = None
) -> Contents:
    trigger = UnknownTrigger(kind, state, f"the stored row cannot be read: {problem}")
    return Contents(name, FrozenObject(), trigger, RetryPolicy(), CatchUp())


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
            metadata=contents.metadata,
            expire_after=_duration(row.expire_after),
            retry=contents.retry,
            catch_up=contents.catch_up,
            named=bool(row.named),
            next_fire_time=row.next_fire_time,
            paused=bool(row.paused),
            note=_note(row.note),
            completed_at=row.completed_at,
            revision=row.revision,
        )
    except (GoSchedulerError, TypeError, OverflowError) as error:
        return _stand_in(row, contents, error)


def _stand_in(
    row: DefinitionRow | Row[Any], contents: Contents, error: Exception
) -> TaskDefinition:
    """A definition that keeps of its row what can be read."""
    return TaskDefinition(
        trigger=_unknown(contents.trigger, f"the stored row cannot be read: {error}"),
        id=row.id if isinstance(row.id, UUID) else _NO_ID,
        metadata=contents.metadata,
        named=bool(row.named),
        next_fire_time=read_time(row.next_fire_time),
        paused=bool(row.paused),
        completed_at=read_time(row.completed_at),
        revision=row.revision if isinstance(row.revision, int) else None,
    )


def missing_definition(key: object) -> TaskDefinition:
    """What stands for the definition of an instance that has none."""
    return TaskDefinition(
        trigger=UnknownTrigger("", None, "the definition of an instance is missing"),
        id=key if isinstance(key, UUID) else _NO_ID,
    )


def read_contacts(rows: Sequence[Row[Any]]) -> list[NodeContact]:
    """The contacts of rows of ``CONTACT_COLUMNS``, but for what cannot be read."""
    return [
        NodeContact(node=node, since=since, until=until, queues=_read_queues(queues))
        for node, since, until, queues in rows
        if Unreadable not in (type(node), type(since), type(until))
    ]


def write_queues(queues: Sequence[str]) -> str:
    """The column of a node's queues."""
    return json.dumps(list(queues))


def _read_queues(text: str | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, json.loads(text)))  # type: ignore[arg-type]
    # Whoever wrote it by hand may have written anything.
    except (ValueError, TypeError):
        return None


def read_tombstone(row: Row[Any]) -> Tombstone | None:
    """What a row of ``task_tombstones`` says; None if it cannot be read."""
    try:
        return Tombstone(
            id=row.id,
            trigger=load_trigger(row.trigger_kind, json.loads(row.trigger_state)),
            revision=row.revision,
            completed_at=utc(row.completed_at, name="completed_at"),
        )
    except (GoSchedulerError, ValueError):
        return None


def read_instance(values: Sequence[Any], definition: TaskDefinition) -> TaskInstance:
    """The instance whose ``INSTANCE_COLUMNS`` have these values."""
    if Unreadable in map(type, values) or values[_OUTCOME] not in _OUTCOMES:
        definition, values = _repaired(values, definition)
    # By position: this is done for every run, and names take twice as long. In between
    # is what stands in both in one order, fire_time to started_at.
    id, _, *same, outcome, error, cancel_requested, completed_at, ended_attempt = (
        values[:_SKIPPED]
    )
    last, count, reason = values[_SKIPPED:]
    skipped = None
    if count is not None:
        skipped = Skipped(first=same[0], last=last, count=count, reason=reason)
    assigned = (
        id,
        definition,
        *same,
        completed_at,
        _OUTCOMES[outcome],
        ended_attempt,
        error,
        bool(cancel_requested),
        skipped,
    )
    instance = object.__new__(TaskInstance)
    for assign, value in zip(_ASSIGN, assigned, strict=True):
        assign(instance, value)
    return instance


def _repaired(
    values: Sequence[Any], definition: TaskDefinition
) -> tuple[TaskDefinition, Sequence[Any]]:
    """Values that can be read, and a definition that keeps it from running."""
    named = dict(zip(INSTANCE_COLUMNS, values, strict=True))
    bad = [name for name, value in named.items() if value is UNREADABLE]
    for name in bad:
        named[name] = _STAND_INS.get(name)
    if named["outcome"] not in _OUTCOMES:
        bad.append("outcome")
        named["outcome"] = Outcome.FAILED.value
    reason = f"the row of an instance cannot be read: {', '.join(bad)}"
    trigger = _unknown(definition.trigger, reason)
    return replace(definition, trigger=trigger), tuple(named.values())


def _unknown(trigger: Trigger, reason: str) -> UnknownTrigger:
    try:
        kind, state = dump_trigger(trigger)
    # Foreign code may do anything.
    except Exception:
        kind, state = "", None
    return UnknownTrigger(kind, state, reason)


def read_time(value: object) -> datetime | None:
    """A time of a row, if it is one."""
    return value if isinstance(value, datetime) else None


def _note(value: object) -> str | None:
    """A note, or what can be read of one that was written by hand."""
    if not isinstance(value, str):
        return None
    return value.replace("\0", "")[:NOTE_LIMIT]


def _duration(value: int | None) -> timedelta | None:
    return None if value is None else from_microseconds(value)


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
