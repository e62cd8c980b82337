"""What all messages have in common: to and from JSON, in version 1."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, TypeVar
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
from go_scheduler.worded import worded

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
    optional: ClassVar[frozenset[str]] = frozenset()

    version: Literal[1] = VERSION
    """The version of the format. Whoever knows no such version refuses the message."""

    instance_id: UUID
    """The instance."""

    attempt: Attempt
    """Which attempt to run it: with ``instance_id``, the run that this is about."""

    def to_bytes(self) -> bytes:
        """Its JSON text, in UTF-8, as it goes over the bus."""
        absent = {each for each in self.optional if getattr(self, each) is None}
        return self.model_dump_json(exclude=absent).encode()


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
