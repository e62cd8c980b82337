"""What workers say of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from go_scheduler.dispatch.messages.message import (
    Instant,
    Message,
    Name,
    Seconds,
    read,
)
from go_scheduler.errors import ConfigurationError


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

    optional = frozenset(
        {
            "delay",
            "ended_at",
            "error",
            "progress",
            "result",
            "retry",
            "retry_in",
            "started_at",
        }
    )

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


_STATUS: TypeAdapter[Status] = TypeAdapter(Status)
# What is refused costs much more than what is read.
_MOST = 1000
_STATUSES: TypeAdapter[list[Status]] = TypeAdapter(
    Annotated[list[Status], Field(min_length=1, max_length=_MOST)]
)


def read_status(body: bytes) -> Status:
    """What a worker says.

    Raises:
        ConfigurationError: It is no such message, or in a version that is not known;
            the text says which field, and does not repeat the message.
    """
    return read(_STATUS, body)


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
    if len(found) > _MOST:
        error = f"a message of the bus has {len(found)} statuses, and at most {_MOST}"
        return [ConfigurationError(f"{error} are read: write more messages")]
    return [_read_one(json.dumps(each).encode()) for each in found]


def _read_one(body: bytes) -> Status | ConfigurationError:
    try:
        return read_status(body)
    except ConfigurationError as error:
        return error
