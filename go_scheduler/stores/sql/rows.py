"""Between rows and values: definitions, instances and contacts.

Reading never fails. A row that was written by other means than this package may hold
anything. Its value is read as ``UNREADABLE``: it affects its own row, and not all that
are fetched with it. A definition whose row holds what this process cannot read gets an
``UnknownTrigger`` that says why, and an instance whose row cannot be read belongs to
one, so that it is reported, not run and not lost.

Of policies a field that has its default is left out, and one that only a newer version
knows cannot be read.
"""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_type_hints
from uuid import UUID

from sqlalchemy import CHAR, TIMESTAMP, BigInteger, Text, TypeDecorator, Uuid

from go_scheduler.checks import NOTE_LIMIT, check_type
from go_scheduler.errors import StoreError
from go_scheduler.json import (
    JSON,
    FrozenObject,
    read_frozen,
    read_object,
    read_value,
    to_text,
)
from go_scheduler.models import (
    OVERRIDABLE,
    POLICIES,
    Outcome,
    Pause,
    Skipped,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.models.values import changed, copier, trusted
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.stores.rules import (
    checked_overrides,
    overlap_of,
    silence_of,
    slot_of,
)
from go_scheduler.triggers.base import UnknownTrigger, dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Row
    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine

    from go_scheduler.models import Silence
    from go_scheduler.triggers.base import Trigger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Unreadable:
    """A value in the database that is none of ours, such as a time past 9999."""

    def __repr__(self) -> str:
        return "an unreadable value"


UNREADABLE: Final = Unreadable()


def to_microseconds(duration: timedelta) -> int:
    """A duration as durations are kept in every table."""
    return duration // _MICROSECOND


def from_microseconds(count: int) -> timedelta:
    """The duration that was kept as this."""
    return timedelta(microseconds=count)


def to_sqlite_time(at: datetime) -> int:
    """A time as SQLite keeps it: microseconds since 1970, in UTC."""
    return (at - _EPOCH) // _MICROSECOND


# Most values have been read just before: the times of a batch, the same few keys.
@lru_cache(maxsize=4096)
def from_sqlite_time(value: object) -> datetime | Unreadable | None:
    """The time that SQLite keeps as this."""
    if value is None:
        return None
    if not isinstance(value, int):
        return UNREADABLE
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return UNREADABLE


@lru_cache(maxsize=4096)
def from_server_time(value: object) -> datetime | Unreadable | None:
    """The time that a server whose time zone is UTC writes as this text.

    A connection of the user's has read it already, in whatever zone is the user's.
    """
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return datetime.fromisoformat(str(value))
    except (ValueError, OverflowError):
        return UNREADABLE


def to_sqlite_id(id: UUID) -> str:
    """An id as SQLite keeps it: 32 hexadecimal digits."""
    return id.hex


@lru_cache(maxsize=4096)
def from_sqlite_id(value: object) -> UUID | Unreadable | None:
    """The id that SQLite keeps as this."""
    if value is None:
        return None
    try:
        found = UUID(int=int(value, 16))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return UNREADABLE
    # An id in capitals, or with hyphens, is one that no statement would find again.
    return found if found.hex == value else UNREADABLE


class _Exact(TypeDecorator[Any]):
    """A value that SQLite has no type of its own for."""

    cache_ok = True
    _to_sqlite: Callable[[Any], object]
    _from_sqlite: Callable[[object], object]

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        if dialect.name != "sqlite":
            return None
        convert = type(self)._to_sqlite
        return lambda value: None if value is None else convert(value)

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        return type(self)._from_sqlite if dialect.name == "sqlite" else None


class Time(_Exact):
    """An aware instant, to the microsecond."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True
    _to_sqlite = staticmethod(to_sqlite_time)
    _from_sqlite = staticmethod(from_sqlite_time)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """A whole number on SQLite."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(TIMESTAMP(timezone=True))

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        """A server's text is read here: the driver is slow to."""
        return super().result_processor(dialect, coltype) or from_server_time


class Id(_Exact):
    """A UUID."""

    impl = Uuid
    cache_ok = True
    _to_sqlite = staticmethod(to_sqlite_id)
    _from_sqlite = staticmethod(from_sqlite_id)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text on SQLite."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(CHAR(32))
        return dialect.type_descriptor(Uuid())


class Ids(TypeDecorator[Any]):
    """Several UUIDs, as a statement tells them: a JSON text on SQLite."""

    impl = Text
    cache_ok = True

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        """The ids."""
        return _read_ids if dialect.name == "sqlite" else None


def _read_ids(text: str | None) -> Sequence[UUID] | None:
    return None if text is None else [UUID(each) for each in json.loads(text)]


class Overrides(TypeDecorator[Any]):
    """The fields that an instance has of its own, as text."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> object:
        """The fields by their names, as a definition has them."""
        return read_overrides(value)


class Value(TypeDecorator[Any]):
    """A JSON value of any kind: written as text, and read as the value, read-only.

    No JSON type of a database keeps every number as it is.
    """

    impl = Text
    cache_ok = True
    _read = staticmethod(read_frozen)

    def process_result_value(self, value: object, dialect: Dialect) -> Any:
        """The value, read-only."""
        if value is None:
            return None
        try:
            return self._read(str(value))
        except (ValueError, RecursionError):
            return UNREADABLE


class Object(Value):
    """A JSON object."""

    cache_ok = True
    _read = staticmethod(read_object)


def write_policies(definition: TaskDefinition) -> str:
    """The key, and what is not the default, as ``read_contents`` reads them."""
    values = _policies_of(definition)
    key = definition.key
    if values == _DEFAULTS and key is None:
        return "{}"
    policies = zip(_READERS, values, _DEFAULTS, strict=True)
    given = {
        name: _dump(value) for name, value, default in policies if value != default
    }
    return to_text(given if key is None else {**given, "key": key})


def without_key(policies: str) -> tuple[str, str | None]:
    """The policies that many definitions have in common, and the key of this one."""
    if '"key"' not in policies:
        return policies, None
    given = json.loads(policies)
    key = given.pop("key", None)
    if key is not None:
        check_type("key", key, str)
    return to_text(given), key


# Most definitions have those of others, or none.
@lru_cache(maxsize=1024)
def load_policies(text: str) -> Mapping[str, Any]:
    """Arguments of ``TaskDefinition``.

    Raises:
        Exception: They are not as ``write_policies`` writes them.
    """
    return {name: _READERS[name](value) for name, value in json.loads(text).items()}


def write_overrides(overrides: Mapping[str, Any] | None) -> str | None:
    """The text that ``read_overrides`` reads."""
    if overrides is None:
        return None
    return to_text({name: _dump(value) for name, value in overrides.items()})


# Many jobs have the same.
@lru_cache(maxsize=256)
def read_overrides(text: object) -> Mapping[str, Any] | Unreadable | None:
    """The fields that an instance has of its own, as they are kept."""
    if text is None:
        return None
    try:
        given = read_object(str(text))
        return checked_overrides(
            {name: _OVERRIDES[name](value) for name, value in given.items()}
        )
    # A row that was written by other means than this package may hold anything.
    except Exception:
        return UNREADABLE


def _dump(value: Any) -> JSON:
    if isinstance(value, timedelta):
        return to_microseconds(value)
    if type(value) in _POLICIES:
        return {each.name: _dump(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Pause):
        return [value.since.isoformat(), value.until.isoformat(), value.note]
    plain: JSON = value
    return plain


def _reader(kind: type) -> Callable[[Mapping[str, Any]], object]:
    durations = {
        name
        for name, hint in get_type_hints(kind).items()
        if timedelta in (hint, *get_args(hint))
    }

    def read(stored: Mapping[str, Any]) -> object:
        return kind(
            **{
                # What may be a number as well is kept as one with a point.
                name: from_microseconds(value)
                if name in durations and isinstance(value, int)
                else value
                for name, value in stored.items()
            }
        )

    return read


def _read_pause(stored: Any) -> Pause:
    since, until, note = stored
    return Pause(
        since=datetime.fromisoformat(since),
        until=datetime.fromisoformat(until),
        note=note,
    )


_POLICIES = (RetryPolicy, CatchUp)
_HINTS = get_type_hints(TaskDefinition)


def _reader_of(name: str) -> Callable[[Any], object]:
    """What reads the field of this name."""
    hint = _HINTS[name]
    kind = next(each for each in (*get_args(hint), hint) if each is not type(None))
    if kind in _POLICIES:
        return _reader(kind)
    if isinstance(kind, str):
        # One of several texts.
        return str
    special: Mapping[type, Callable[[Any], object]] = {
        timedelta: from_microseconds,
        Pause: _read_pause,
    }
    return special.get(kind, kind)


# What says how long a run may take has a column.
_KEPT = (*POLICIES[1:], "last_pause", "overdue", "trace_context")
_READERS = {name: _reader_of(name) for name in _KEPT}
_policies_of = attrgetter(*_READERS)
_OVERRIDES: Mapping[str, Callable[[Any], object]] = {
    name: _reader_of(name) for name in OVERRIDABLE
} | {"metadata": lambda kept: kept}
_FIELDS = {each.name: each for each in fields(TaskDefinition)}
_DEFAULTS = tuple(_FIELDS[each].default for each in _READERS)


EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
"""Stands for a time that cannot be read: most of them are later than any that can."""

NO_ID = UUID(int=0)
"""Stands for an id that cannot be read."""

_ANY_TRIGGER = UnknownTrigger("", None, "")


# What definitions that are alike have each for itself.
_with_its_own: Callable[..., TaskDefinition] = copier(
    TaskDefinition,
    *("trigger", "id", "key", "metadata", "named", "next_fire_time", "paused", "note"),
    *("paused_at", "completed_at", "revision", "_revision_of"),
)


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


DEFINITION_COLUMNS = DefinitionRow._fields


class Contents(NamedTuple):
    """The fields that a user set, apart from columns; policies as they are kept."""

    name: str | None
    metadata: Mapping[str, JSON]
    trigger: Trigger
    policies: str
    key: str | None = None


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
        definition.name,
        to_text(definition.metadata) if definition.metadata else "{}",
        kind,
        to_text(state),
        write_policies(definition),
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
        policies, key = without_key(row.policies)
        load_policies(policies)
        trigger = load_trigger(row.trigger_kind, state)
        return Contents(row.name, metadata, trigger, policies, key)
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
    return _with_its_own(
        like,
        contents.trigger,
        row.id,
        contents.key,
        contents.metadata,
        bool(row.named),
        row.next_fire_time,
        bool(row.paused),
        _note(row.note),
        row.paused_at,
        row.completed_at,
        row.revision,
        row.id,
    )


def _check_readable(row: DefinitionRow | Row[Any]) -> None:
    if row.revision.__class__ is not int:
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
    "payload",
    "key",
    "backfilled",
    "reopened_at",
    "created_at",
    "trace_context",
    "overrides",
)
"""The columns to be read of an instance that is claimed."""
INSTANCE_COLUMNS = (
    *CLAIMED_COLUMNS,
    "queue",
    "completed_at",
    "ended_attempt",
    "parked",
    "worker",
    "result",
    "client",
    "accepted_at",
    "start_by",
    "progress",
    "given_back",
    "skipped_first",
    "skipped_last",
    "skipped_count",
    "skipped_reason",
)
"""The columns to be read of any other: all but those that only statements use."""

_OUTCOMES = {None: None} | {outcome.value: outcome for outcome in Outcome}
_OUTCOME = INSTANCE_COLUMNS.index("outcome")
_NOT_READ = (None,) * (len(INSTANCE_COLUMNS) - len(CLAIMED_COLUMNS))
_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
_OVERLAPS = {None: None} | {overlap.value: overlap for overlap in Overlap}
_STAND_INS = {
    "id": NO_ID,
    "execute_at": LATEST,
    "due_at": LATEST,
    "skipped_first": LATEST,
    "skipped_last": LATEST,
}


def read_instance(values: Sequence[Any], definition: TaskDefinition) -> TaskInstance:
    """The instance whose ``INSTANCE_COLUMNS`` have these values.

    Of one that is claimed those beyond ``CLAIMED_COLUMNS`` may be left out.
    """
    if Unreadable in map(type, values) or values[_OUTCOME] not in _OUTCOMES:
        definition, values = _repaired(values, definition)
    id, _, fire_time, execute_at, due_at, attempt, runs, hangs, *rest = values
    claimed_by, expires_at, started_at, outcome, error, *rest = rest
    cancel_requested, payload, key, backfilled, reopened_at, *rest = rest
    created_at, trace_context, overrides, *rest = rest
    if overrides:
        definition = changed(definition, **overrides)
    queue, completed_at, ended_attempt, parked, *rest = rest or _NOT_READ
    if completed_at is not None and queue != definition.queue:
        definition = changed(definition, queue=queue)
    worker, result, client, *rest = rest
    on_bus, given_back, of_skipped = rest[:3], rest[3], rest[4:]
    return _instance(
        id,
        definition,
        fire_time,
        execute_at,
        due_at,
        attempt,
        runs,
        hangs,
        claimed_by,
        expires_at,
        started_at,
        completed_at,
        _OUTCOMES[outcome],
        ended_attempt,
        error,
        bool(cancel_requested),
        bool(parked),
        _skipped(fire_time or execute_at, *of_skipped),
        payload,
        key,
        _OVERLAPS.get(backfilled, Overlap.ALLOW),
        reopened_at,
        worker,
        result,
        created_at,
        client,
        trace_context,
        *on_bus,
        given_back,
        overrides,
    )


def _skipped(at: Any, first: Any, last: Any, count: Any, reason: Any) -> Skipped | None:
    if count is not None:
        return Skipped(first=first, last=last, count=count, reason=reason)
    return None if reason is None else Skipped.itself(at, reason)


def _repaired(
    values: Sequence[Any], definition: TaskDefinition
) -> tuple[TaskDefinition, Sequence[Any]]:
    """Values that can be read, and a definition that keeps it from running."""
    named = dict(zip(INSTANCE_COLUMNS, values, strict=False))
    bad = [name for name, value in named.items() if value is UNREADABLE]
    for name in bad:
        named[name] = _STAND_INS.get(name)
    if named["outcome"] not in _OUTCOMES:
        bad.append("outcome")
        named["outcome"] = Outcome.FAILED.value
    reason = f"the row of an instance cannot be read: {', '.join(bad)}"
    trigger = unknown(definition.trigger, reason)
    return replace(definition, trigger=trigger), tuple(named.values())


_ANNOUNCED = ("queues", "names", "host", "pid", "version", "lease", "stopping")
CONTACT_COLUMNS = ("node", "contact_since", "seen_at", *_ANNOUNCED)


def read_contacts(rows: Sequence[Any]) -> list[NodeContact]:
    """The contacts of rows of ``CONTACT_COLUMNS``, but for what cannot be read."""
    return [
        NodeContact(announced=_announcement(node, *announced), since=since, until=until)
        for node, since, until, *announced in rows
        if Unreadable not in (type(node), type(since), type(until))
    ]


def write_announcement(announced: Announcement) -> Mapping[str, object]:
    """The columns of what a node tells, but for its id."""
    values = {name: getattr(announced, name) for name in _ANNOUNCED}
    return values | {
        "queues": _write_words(announced.queues),
        "names": _write_words(announced.names),
        "lease": None if announced.lease is None else to_microseconds(announced.lease),
    }


def _announcement(node: Any, queues: Any, names: Any, *others: Any) -> Announcement:
    host, pid, version, lease, stopping = others
    return Announcement(
        node=node,
        host=host,
        pid=pid,
        version=version,
        queues=_read_words(queues),
        names=_read_words(names),
        lease=from_microseconds(lease) if isinstance(lease, int) else None,
        stopping=bool(stopping),
    )


def _write_words(words: Sequence[str] | None) -> str | None:
    return None if words is None else json.dumps(list(words))


def _read_words(text: str | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, json.loads(text)))  # type: ignore[arg-type]
    # A row that was written by other means than this package may hold anything.
    except (ValueError, TypeError):
        return None


def silences_of(rows: Iterable[Any]) -> dict[UUID, Silence]:
    """By the ids of instances, of rows as they were before they were claimed.

    Args:
        rows: Of ``id``, ``began``, ``taken_at``, ``due_by`` and ``ran_by``.
    """
    found = {}
    for row in rows:
        times = row.began, row.taken_at, row.due_by
        # Whoever cannot tell when it was takes it over as one of no bus.
        if UNREADABLE not in times:
            silence = silence_of(
                row.began,
                accepted_at=row.taken_at,
                start_by=row.due_by,
                worker=row.ran_by,
            )
            if silence is not None:
                found[row.id] = silence
    return found


class Columns:
    """The columns that a statement returns, and how their values are read.

    Args:
        columns: In their order, each by a name of its own.
        dialect: The driver's, whose values these are.
    """

    def __init__(self, columns: Iterable[ColumnElement[Any]], dialect: Dialect) -> None:
        columns = list(columns)
        row = namedtuple("_Row", [str(each.key) for each in columns])  # type: ignore[misc]
        # As its ``_make`` does it, without a call of Python's for each row.
        self._row = partial(tuple.__new__, row)
        types = (each.type.dialect_impl(dialect) for each in columns)
        reads = (each.result_processor(dialect, None) for each in types)
        self._reads = [
            (number, read) for number, read in enumerate(reads) if read is not None
        ]

    def read(self, rows: Sequence[Iterable[object]]) -> Sequence[Any]:
        """Named tuples of the values of rows, which are as the driver has them."""
        if not rows:
            return []
        # Column by column: that takes a third of the steps.
        columns: list[Iterable[object]] = list(zip(*rows, strict=True))
        for number, read in self._reads:
            columns[number] = map(read, columns[number])
        return list(map(self._row, zip(*columns, strict=True)))
