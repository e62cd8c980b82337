"""All messages of a bus, to and from JSON, in version 1, and their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from go_scheduler.checks import LONGEST
from go_scheduler.errors import ConfigurationError
from go_scheduler.pydantic_messages import worded

VERSION: Literal[1] = 1
"""The version of all messages that this package writes, and reads."""

_Read = TypeVar("_Read")


def _read_seconds(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    most = LONGEST.total_seconds()
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= most
    ):
        raise PydanticCustomError(
            "seconds", "it must be a number of seconds, of zero to 100 years"
        )
    return timedelta(seconds=value)


def _write_seconds(value: timedelta) -> float:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


Seconds = Annotated[
    timedelta,
    BeforeValidator(_read_seconds),
    PlainSerializer(_write_seconds, return_type=int | float),
    WithJsonSchema(
        {"type": "number", "minimum": 0, "maximum": LONGEST.total_seconds()}
    ),
]
Instant = Annotated[
    AwareDatetime, WithJsonSchema({"type": "string", "format": "date-time"})
]
Name = Annotated[str, Field(min_length=1)]
Attempt = Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
Object = dict[str, Any]


class Message(BaseModel):
    """One message: a value, read from JSON that may have more fields than we know."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    version: Literal[1] = VERSION
    """The version of the format. Whoever knows no such version refuses the message."""

    instance_id: UUID
    """The instance."""

    attempt: Attempt
    """Which attempt to run it: with ``instance_id``, the run that this is about."""

    def to_bytes(self) -> bytes:
        """Its JSON text, in UTF-8, as it goes over the bus."""
        return self.model_dump_json().encode()


def read(kind: TypeAdapter[_Read], body: bytes) -> _Read:
    """The message that is in a body.

    Raises:
        ConfigurationError: It is no such message, or in a version that is not known.
    """
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        named = [str(each) for each in first["loc"]]
        where = f"{'.'.join(named)}: " if named else ""
        raise ConfigurationError(
            f"a message of the bus cannot be read: {where}{worded(first)}"
        ) from None


class Run(Message):
    """Run an instance: one attempt of it, by whoever is the first to accept it."""

    action: Literal["run"] = "run"
    """What to do."""

    task: str | None
    """The name of its definition: which task it is; null: it has no name."""

    queue: Name
    """The queue it is in."""

    definition_id: UUID
    """Its definition."""

    fire_time: Instant | None
    """The trigger's own time; null: it was made without one."""

    execute_at: Instant
    """When it was to run."""

    payload: Object | None
    """What it is to run with; null: nothing."""

    metadata: Object
    """That of its definition."""

    key: str | None
    """Its key: no other instance of its definition has the same; null: none."""

    runs: Annotated[int, Field(strict=True, ge=0)]
    """How often it has been run before: more than zero, it is a repetition."""

    start_by: Instant | None
    """When it is taken for lost unless somebody has accepted it; null: never."""

    heartbeat_timeout: Seconds
    """How long it may be silent, once begun, before it is taken for lost."""

    timeout: Seconds | None
    """How long it may run; null: as long as it gives signs of life."""

    trace_context: str | None = None
    """The trace it was asked for in, as the header ``traceparent`` has it."""

    trace_state: str | None = None
    """What belongs to that, as the header ``tracestate`` has it."""


class Cancel(Message):
    """End a run, if it is there: somebody asked for it, or it is another's now."""

    action: Literal["cancel"] = "cancel"
    """What to do."""

    reason: Literal["cancelled", "lost"]
    """Asked for; or the run has been lost, and nothing that it says counts."""


_ACTION: TypeAdapter[Run | Cancel] = TypeAdapter(
    Annotated[Run | Cancel, Field(discriminator="action")]
)


def read_action(body: bytes) -> Run | Cancel:
    """What a worker is told to do.

    Raises:
        ConfigurationError: It is no such message, or in a version that is not known;
            the text says which field, and does not repeat the message.
    """
    return read(_ACTION, body)


class Said(StrEnum):
    """What a status may say."""

    ACCEPTED = "accepted"
    STARTED = "started"
    HEARTBEAT = "heartbeat"
    PROGRESS = "progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"


def _writable(text: object) -> object:
    """A text as UTF-8 can have it, whatever a system has said."""
    if isinstance(text, str):
        return text.encode(errors="backslashreplace").decode()
    return text


class Status(Message):
    """What a worker says of a run that it has."""

    status: Said
    """What has become of it."""

    worker: Name
    """What the worker calls itself: ``control.{worker}`` is the topic it hears."""

    at: Instant
    """When it says so, by its own clock."""

    progress: Any = None
    """How far it has come: any JSON value. With *progress*, *heartbeat*."""

    result: Any = None
    """What came of it: any JSON value. With *succeeded*."""

    error: Annotated[str | None, BeforeValidator(_writable)] = None
    """What went wrong, for a person to read. With *failed* and *released*."""

    retry: bool | None = None
    """False: it is not to be tried again, whatever its policy. With *failed*."""

    retry_in: Seconds | None = None
    """After how many seconds to try again, in place of its policy's. With *failed*."""

    started_at: Instant | None = None
    """When it began, by the worker's clock. With *succeeded* and *failed*."""

    ended_at: Instant | None = None
    """When it ended, likewise."""

    delay: Seconds | None = None
    """For how many seconds nobody is to have it; without, more each time, from one to
    sixty. With *released*."""

    def to_bytes(self) -> bytes:
        """Its JSON text, without what is not said."""
        absent = {name for name, value in self if value is None}
        return self.model_dump_json(exclude=absent).encode()


_STATUS: TypeAdapter[Status] = TypeAdapter(Status)
# What is refused costs much more than what is read.
_MOST_READ = 1000
_STATUSES: TypeAdapter[list[Status]] = TypeAdapter(
    Annotated[list[Status], Field(min_length=1, max_length=_MOST_READ)]
)


def read_statuses(body: bytes) -> Sequence[Status | ConfigurationError]:
    """What a worker says in one message: one status, or an array of them.

    Returns:
        The statuses, in their order; in the place of what is none, why it is none.
    """
    if not body.lstrip().startswith(b"["):
        return [_read_one(body)]
    try:
        return _STATUSES.validate_json(body)
    except ValidationError:
        return _read_each(body)


def many_to_bytes(statuses: Sequence[bytes]) -> bytes:
    """One message of statuses that are messages themselves."""
    if len(statuses) == 1:
        return statuses[0]
    return b"[%b]" % b",".join(statuses)


def _read_each(body: bytes) -> Sequence[Status | ConfigurationError]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        # Said as it is of any other text.
        return [_read_one(body)]
    if not found:
        error = "a message of the bus cannot be read: it is an array of no statuses"
        return [ConfigurationError(error)]
    if len(found) > _MOST_READ:
        error = (
            f"a message of the bus has {len(found)} statuses, and at most {_MOST_READ}"
        )
        return [ConfigurationError(f"{error} are read: write more messages")]
    return [_read_one(json.dumps(each).encode()) for each in found]


def _read_one(body: bytes) -> Status | ConfigurationError:
    try:
        return read(_STATUS, body)
    except ConfigurationError as error:
        return error


FILE = "messages.schema.json"


def message_schema() -> dict[str, Any]:
    """The JSON Schema, 2020-12, of whatever goes over the bus.

    Its ``$defs`` are ``Run``, ``Cancel`` and ``Status``; a message is one of these,
    or an array of ``Status``. The file ``messages.schema.json`` beside the code of this
    is the same.
    """
    found: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_bytes())
    return found
