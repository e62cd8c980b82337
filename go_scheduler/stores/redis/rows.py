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
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from go_scheduler.errors import GoSchedulerError
from go_scheduler.json import read_frozen, read_object, to_text
from go_scheduler.models import (
    Pause,
    RunEnd,
    Stage,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.values import changed
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sql.rows import (
    UNREADABLE,
    ContentsRow,
    DefinitionRow,
    Unreadable,
    missing_definition,
    read_definition,
    read_instance,
    silences_of,
    write_contents,
)
from go_scheduler.triggers.stored import UnknownTrigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from go_scheduler.json import JSON
    from go_scheduler.models import Silence

_FIRST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# A number that a script can reckon with: 142 years.
_MOST_MICROSECONDS = 2**52

Value = TypeVar("Value")


def time_text(at: datetime) -> str:
    """The text of an aware time."""
    since = at - _FIRST
    return f"{since.days * 86400 + since.seconds:012d}{since.microseconds:06d}"


def maybe_time_text(at: datetime | None) -> str | None:
    """The text of a time, if it is one."""
    return None if at is None else time_text(at)


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


def micros(duration: timedelta) -> int:
    """A duration in microseconds, as far as a script can reckon."""
    return max(-_MOST_MICROSECONDS, min(duration // _MICROSECOND, _MOST_MICROSECONDS))


def fresh_id() -> str:
    """The text of a random id."""
    digits = token_hex(16)
    return f"{digits[:12]}4{digits[13:16]}a{digits[17:]}"


def present(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those that are there: a script takes what is absent for nothing."""
    return {name: value for name, value in values.items() if value is not None}


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


def choices_of(
    *,
    metadata: Mapping[str, JSON] | None,
    name: str | None,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> list[list[str]]:
    """For each condition the sorted sets one of which has what meets it."""
    found = [] if name is None else [[f"name {name}"]]
    if queues is not None:
        found.append([f"queue {each}" for each in set(queues)])
    if owners is not None:
        found.append([f"owner {each}" for each in set(owners)])
    parts = islice(_parts(metadata or {}), _MOST_FACETS)
    return [*found, *([part, _ANY] for part in parts)]


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


_MOST_KNOWN, _MOST_CHARACTERS = 1024, 4096
_LINES = 4
"""Of a definition's contents, each a JSON text, which has no line feed."""
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]
_ENDS = {end.value: end for end in RunEnd}


def write_definition(definition: TaskDefinition) -> dict[str, object]:
    """What a put sets of a definition; false: it has none."""
    expire_after = definition.expire_after
    # It is kept beside them: a script writes it.
    contents = write_contents(changed(definition, last_pause=None))
    values = {
        "queue": definition.queue,
        "priority": str(definition.priority),
        "expire_after": None if expire_after is None else str(micros(expire_after)),
        "waits": definition.trigger.waits,
        "overlap": definition.overlap.value,
        "lock": definition.lock,
        "max_queue": definition.max_queue,
        "when_full": definition.when_full,
        "named": definition.named,
        "name": definition.name,
        "trigger_kind": contents.trigger_kind,
        "contents": "\n".join(
            (
                contents.trigger_state,
                contents.metadata,
                contents.policies,
                to_text(facets_of(definition)),
            )
        ),
    }
    return _written(values)


def write_kept(definition: TaskDefinition) -> dict[str, object]:
    """What else a new definition has, and one that gets another trigger."""
    return _written(
        {
            "next_fire_time": maybe_time_text(definition.next_fire_time),
            "completed_at": maybe_time_text(definition.completed_at),
        }
    )


def write_new(definition: TaskDefinition) -> dict[str, object]:
    """All that a new definition has, but for its revision."""
    return {
        "id": definition.id.hex,
        **write_definition(definition),
        **write_kept(definition),
        **_written(
            {
                "owner": definition.owner,
                "paused": definition.paused,
                "note": definition.note,
                "paused_at": maybe_time_text(definition.paused_at),
            }
        ),
    }


def _written(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: "1" if value is True else False if value is None else value
        for name, value in values.items()
    }


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


def _object(text: str) -> Mapping[str, Any]:
    """The object of a JSON text; one of nothing, if somebody has broken it."""
    try:
        found: Mapping[str, Any] = _scan(text, 0)[0]
    except (ValueError, StopIteration):
        return {}
    return found


def _contents(get: Callable[[str], Any], text: str | None) -> ContentsRow | None:
    """The contents of a definition, of its object and its text; None: they are gone."""
    lines = (text or "").split("\n")
    if len(lines) != _LINES:
        return None
    state, metadata, policies, _ = lines
    return ContentsRow(get("name"), metadata, get("trigger_kind"), state, policies)


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


def given_time(text: str) -> datetime:
    """The time of a text that a script has written."""
    found = read_time(text)
    assert isinstance(found, datetime)
    return found


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
    attempt, node, started_at, ended_at, outcome, *rest = text.split("\0")
    lost_in, worker, error = rest
    return TaskRun(
        instance_id=instance_id,
        attempt=int(attempt),
        node=read_id(node or None),  # type: ignore[arg-type]
        started_at=given_time(started_at) if started_at else None,
        ended_at=given_time(ended_at),
        outcome=_ENDS[outcome],
        error=error[1:] if error else None,
        worker=worker[1:] if worker else None,
        lost_in=Stage(lost_in) if lost_in else None,
    )


def read_silences(lapsed: Sequence[Sequence[str]]) -> Mapping[UUID, Silence]:
    """What is known of runs on a bus that a claim has taken over, by their ids."""
    return silences_of(
        _Lapsed(
            read_id(id),
            began=read_time(began),
            taken_at=read_time(taken_at or None),
            due_by=read_time(due_by or None),
            ran_by=ran_by or None,
        )
        for id, began, taken_at, due_by, ran_by in lapsed
    )


class _Lapsed(NamedTuple):
    id: Any
    began: Any
    taken_at: Any
    due_by: Any
    ran_by: str | None
