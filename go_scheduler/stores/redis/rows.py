"""Between values and what a Redis store keeps of them.

A time is 18 digits, the microseconds since the year 1: such texts are in the order of
the times, and any time that Python has is one. An id is 32 hexadecimal digits.

Definitions are found by sorted sets of ids. What is found so contains what is looked
for, or nearly: it is compared afterwards.

Reading never fails, as for the SQL stores: a definition that this process cannot read
gets an ``UnknownTrigger`` that says why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from go_scheduler.errors import GoSchedulerError
from go_scheduler.json import JSON, read_frozen, read_object, to_text
from go_scheduler.models import (
    Histogram,
    Pause,
    QueueStats,
    RunEnd,
    Stage,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.values import changed
from go_scheduler.stores.messages import Announcement, NodeContact, Tombstone
from go_scheduler.stores.rules import silence_of
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sql.rows import (
    UNREADABLE,
    ContentsRow,
    DefinitionRow,
    Unreadable,
    from_microseconds,
    missing_definition,
    read_definition,
    read_instance,
    read_overrides,
    write_contents,
)
from go_scheduler.triggers.base import UnknownTrigger, load_trigger

if TYPE_CHECKING:
    from go_scheduler.models import Silence
    from go_scheduler.stores.filters import DefinitionFilter

_FIRST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# A number that a script can reckon with: 142 years.
_MOST_MICROSECONDS = 2**52

Value = TypeVar("Value")


# What scripts are given.


def time_text(at: datetime | None) -> str:
    """The text of an aware time; an empty one of None."""
    if at is None:
        return ""
    since = at - _FIRST
    return f"{since.days * 86400 + since.seconds:012d}{since.microseconds:06d}"


def present(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those that are there: a script takes what is absent for nothing."""
    return {name: value for name, value in values.items() if value is not None}


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Those of these fields of a value that it has."""
    return {
        name: found for name in names if (found := getattr(value, name)) is not None
    }


def _micros(duration: timedelta) -> int:
    """A duration in microseconds, as far as a script can reckon."""
    micros = duration // _MICROSECOND
    return max(-_MOST_MICROSECONDS, min(micros, _MOST_MICROSECONDS))


def _plain(value: Any) -> Any:
    """What JSON has for a value: a message is an object of its fields."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    return fields_of(value, *value.__slots__)


_WRITERS: Mapping[type, Callable[[Any], object]] = {
    UUID: attrgetter("hex"),
    datetime: time_text,
    timedelta: _micros,
    set: list,
    frozenset: list,
}
# No value holds itself, and looking for that would take a third of the time.
write_arguments = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_plain, check_circular=False
).encode
"""The arguments of a script, as JSON."""


_MOST_FACETS = 64
_ANY = "metadata"
"""Holds those that have more parts than are indexed."""


def facets_of(definition: TaskDefinition) -> list[str]:
    """The sorted sets that a definition stands in, but for that of its owner."""
    parts = list(islice(_parts(definition.metadata), _MOST_FACETS + 1))
    found = [f"queue {definition.queue}", *dict.fromkeys(parts[:_MOST_FACETS])]
    if definition.name is not None:
        found.append(f"name {definition.name}")
    if len(parts) > _MOST_FACETS:
        found.append(_ANY)
    return found


def choices_of(where: DefinitionFilter) -> list[list[str]]:
    """For each condition the sorted sets one of which has what meets it."""
    names = None if where.name is None else [where.name]
    choices = {"name": names, "queue": where.queues, "owner": where.owners}
    parts = islice(_parts(where.metadata or {}), _MOST_FACETS)
    return [
        *(
            [f"f:{kind} {each}" for each in set(wanted)]
            for kind, wanted in choices.items()
            if wanted is not None
        ),
        *([f"f:{part}", f"f:{_ANY}"] for part in parts),
    ]


def _parts(metadata: Mapping[str, JSON]) -> Iterator[str]:
    """A text for each plain value in it, the same wherever that is contained."""
    for path, value in _leaves(metadata, ()):
        text = to_text([*path, _comparable(value)])
        digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        yield f"metadata {digest}"


def _leaves(
    value: JSON, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], JSON]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            # Wherever it stands in an array.
            yield from _leaves(part, (*path, 0))
    else:
        yield path, value


def _comparable(value: JSON) -> JSON:
    """The same for numbers that are equal, and another one for true than for 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


TIMES = ("next_fire_time", "completed_at")
"""What firing changes of a definition."""


def write_definition(definition: TaskDefinition) -> dict[str, Any]:
    """All that is kept of a definition but its revision; false: it has none."""
    expire_after = definition.expire_after
    # It is kept beside them: a script writes it.
    contents = write_contents(changed(definition, last_pause=None))
    lines = (
        contents.trigger_state,
        contents.metadata,
        contents.policies,
        to_text(facets_of(definition)),
    )
    values = {
        "priority": str(definition.priority),
        "expire_after": None if expire_after is None else str(_micros(expire_after)),
        "waits": definition.trigger.waits,
        "trigger_kind": contents.trigger_kind,
        "contents": "\n".join(lines),
        **{name: getattr(definition, name) for name in (*_SAME, *TIMES)},
    }
    return {
        name: "1" if value is True else False if value is None else value
        for name, value in values.items()
    }


_SAME = (
    "id",
    "queue",
    "overlap",
    "lock",
    "max_queue",
    "when_full",
    "named",
    "name",
    "owner",
    "paused",
    "note",
    "paused_at",
)


_ANNOUNCED = ("host", "pid", "version", "queues", "names", "lease", "stopping")


def write_announcement(announced: Announcement) -> str:
    """The text of what a node tells, but for its id."""
    return write_arguments(fields_of(announced, *_ANNOUNCED))


def write_stats(stats: QueueStats) -> dict[str, object]:
    """What a script keeps of counts."""
    value = {"ended": dict(stats.ended), "lateness": list(stats.lateness.buckets())}
    return {"at": stats.at, "queue": stats.queue, "value": write_arguments(value)}


# What scripts answer.


# Most values have been read just before: the times of a batch, the same few ids.
@lru_cache(maxsize=4096)
def read_time(text: str | None) -> datetime | Unreadable | None:
    """The time of a text."""
    if text is None:
        return None
    try:
        return _FIRST + timedelta(seconds=int(text[:12]), microseconds=int(text[12:]))
    except (ValueError, OverflowError):
        return UNREADABLE


@lru_cache(maxsize=4096)
def read_id(text: str | None) -> UUID | Unreadable | None:
    """The id of a text."""
    if text is None:
        return None
    try:
        return UUID(hex=text)
    except ValueError:
        return UNREADABLE


def given_time(text: str) -> datetime:
    """The time of a text that a script has written."""
    found = read_time(text)
    assert isinstance(found, datetime)
    return found


_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]


def _object(text: str) -> Mapping[str, Any]:
    """The object of a JSON text; one of nothing, if somebody has broken it."""
    try:
        found: Mapping[str, Any] = _scan(text, 0)[0]
    except (ValueError, StopIteration):
        return {}
    return found


def _json(text: str | None, read: Callable[[str], JSON]) -> Any:
    try:
        return None if text is None else read(text)
    except (ValueError, RecursionError):
        return UNREADABLE


def _number(text: Any) -> Any:
    try:
        return None if text is None else int(text)
    except (TypeError, ValueError, OverflowError):
        return UNREADABLE


_MOST_KNOWN, _MOST_CHARACTERS = 1024, 4096
_LINES = 4
"""Of a definition's contents, each a JSON text, which has no line feed."""


class Reader:
    """Reads what scripts answer; what definitions have in common is read once."""

    def __init__(self) -> None:
        self._cache = ContentsCache()
        self._known: dict[tuple[str, str | None], TaskDefinition] = {}

    def definition(self, view: Sequence[Any]) -> TaskDefinition:
        """The definition of a view: its life, its text, and that of its contents."""
        life, text, contents = view
        if len(text) + len(contents or "") >= _MOST_CHARACTERS:
            return self._read(life, text, contents)
        # It has its life, so that each text is one definition's; most are read again.
        # A server that has lost what was written gives a life or revision once more.
        if (known := self._known.get((text, contents))) is not None:
            return known
        read = self._read(life, text, contents)
        # A class that is unknown may still be imported.
        if not isinstance(read.trigger, UnknownTrigger):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text, contents] = read
        return read

    def _read(self, life: Any, text: str, contents: str | None) -> TaskDefinition:
        get: Callable[[str], Any] = _object(text).get
        row = DefinitionRow(
            life,
            read_id(get("id")),
            get("queue"),
            _number(get("priority")),
            _number(get("expire_after")),
            read_time(get("next_fire_time")),
            get("paused") is not None,
            get("note"),
            read_time(get("paused_at")),
            read_time(get("completed_at")),
            _number(get("revision")),
            get("named") is not None,
            get("owner"),
        )
        written = _contents(get, contents)
        found = self._cache.get(row.id, written)
        if found is None:
            found = self._cache.put(row.id, written, written)
        read = read_definition(row, found)
        since, until = read_time(get("pause_since")), read_time(get("pause_until"))
        # Somebody may have broken it by hand.
        if not isinstance(since, datetime) or not isinstance(until, datetime):
            return read
        pause = Pause(since=since, until=until, note=get("pause_note"))
        return changed(read, last_pause=pause)

    def definitions(self, views: Sequence[Any]) -> list[TaskDefinition]:
        """The definitions of views."""
        return [self.definition(each) for each in views]

    def instances(self, answer: Sequence[Any]) -> list[TaskInstance]:
        """The instances of an answer, which has their definitions beside them."""
        rows, payloads, definitions = answer
        payload = iter(payloads)
        of = {each[0]: self.definition(each) for each in definitions}
        return [
            read_instance(
                _values_of_row(row, next(payload) or "" if "body" in row else None),
                of.get(row["of"]) or missing_definition(None),
            )
            for row in _scan(f"[{','.join(rows)}]", 0)[0]
        ]


def _contents(get: Callable[[str], Any], text: str | None) -> ContentsRow | None:
    """The contents of a definition, of its object and its text; None: they are gone."""
    lines = (text or "").split("\n")
    if len(lines) != _LINES:
        return None
    state, metadata, policies, _ = lines
    return ContentsRow(get("name"), metadata, get("trigger_kind"), state, policies)


def _values_of_row(row: Mapping[str, Any], payload: str | None) -> list[Any]:
    """The values of an instance's columns, as ``read_instance`` takes them."""
    get = row.get
    return [
        read_id(get("id")),
        get("of"),
        read_time(get("fire_time")),
        read_time(get("execute_at")),
        read_time(get("due_at")),
        get("attempt"),
        get("runs"),
        get("hangs"),
        read_id(get("claimed_by")),
        read_time(get("expires_at")),
        read_time(get("started_at")),
        get("outcome"),
        get("error"),
        get("cancel_requested"),
        _json(payload, read_object),
        get("key"),
        get("backfilled"),
        read_time(get("reopened_at")),
        read_time(get("created_at")),
        get("trace_context"),
        read_overrides(get("overrides")),
        get("queue"),
        read_time(get("completed_at")),
        get("ended_attempt"),
        get("parked"),
        get("worker"),
        _json(get("result"), read_frozen),
        _json(get("client"), read_frozen),
        read_time(get("accepted_at")),
        read_time(get("start_by")),
        _json(get("progress"), read_frozen),
        get("given_back"),
        read_time(get("skipped_first")),
        read_time(get("skipped_last")),
        get("skipped_count"),
        get("skipped_reason"),
    ]


def read_ids(texts: Iterable[str]) -> list[UUID]:
    """The ids of texts that a script has written."""
    return list(map(read_id, texts))  # type: ignore[arg-type]


def read_silences(lapsed: Sequence[str]) -> Mapping[UUID, Silence | None]:
    """What is known of runs on a bus, by their rows before a claim took them over."""
    found = {}
    for get in (_object(each).get for each in lapsed):
        times = map(read_time, map(get, ("started_at", "accepted_at", "start_by")))
        started_at, accepted_at, start_by = times
        # Whoever cannot tell when it was takes it over as one of no bus.
        if UNREADABLE not in (started_at, accepted_at, start_by):
            found[read_id(get("id"))] = silence_of(
                started_at,  # type: ignore[arg-type]
                accepted_at=accepted_at,  # type: ignore[arg-type]
                start_by=start_by,  # type: ignore[arg-type]
                worker=get("worker"),
            )
    return found  # type: ignore[return-value]


def read_tombstone(values: Sequence[Any]) -> Tombstone | None:
    """The tombstone of what is remembered; None if it cannot be read."""
    id, kind, state, revision, completed_at = values
    try:
        return Tombstone(
            id=read_id(id),  # type: ignore[arg-type]
            trigger=load_trigger(kind, json.loads(state)),
            revision=int(revision),
            completed_at=given_time(completed_at),
        )
    except (GoSchedulerError, ValueError):
        return None


def read_run(instance_id: UUID, text: str) -> TaskRun:
    """The run that a script has kept as this text."""
    get: Callable[[str], Any] = _object(text).get
    lost_in = get("lost_in")
    return TaskRun(
        instance_id=instance_id,
        attempt=get("attempt"),
        node=read_id(get("node")),  # type: ignore[arg-type]
        started_at=read_time(get("started_at")),  # type: ignore[arg-type]
        ended_at=given_time(get("ended_at")),
        outcome=RunEnd(get("outcome")),
        error=get("error"),
        worker=get("worker"),
        lost_in=None if lost_in is None else Stage(lost_in),
    )


def read_contact(node: str, text: str) -> NodeContact:
    """The contact that is kept of a node."""
    values = json.loads(text[36:])
    if "lease" in values:
        values["lease"] = from_microseconds(values["lease"])
    for name in {"queues", "names"} & values.keys():
        values[name] = tuple(values[name])
    announced = Announcement(node=read_id(node), **values)  # type: ignore[arg-type]
    return NodeContact(
        announced=announced, since=given_time(text[:18]), until=given_time(text[18:36])
    )


def read_stats(member: str, text: str) -> QueueStats:
    """The counts that a script has kept."""
    values = json.loads(text)
    buckets = (
        (None if bound is None else from_microseconds(bound), count)
        for bound, count in values["lateness"]
    )
    return QueueStats(
        at=given_time(member[:18]),
        queue=member[18:].partition("\0")[0],
        ended=values["ended"],
        lateness=Histogram.of(buckets),
    )
