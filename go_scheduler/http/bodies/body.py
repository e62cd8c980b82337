"""Common types of bodies: durations, instants, ids, pages, and refusals."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from go_scheduler.checks import KEY_LIMIT, parse_id
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.problems import invalid
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic.fields import FieldInfo

_Given = TypeVar("_Given")
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_Model = TypeVar("_Model", bound=BaseModel)

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_MOST = 10


def _read_seconds(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("seconds", "it must be a number of seconds")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise PydanticCustomError(
            "seconds", "it is no number of seconds within 100 years"
        ) from None


def _read_definition(text: str) -> UUID:
    return parse_id(text) or TaskDefinition.id_for(text)


def _write_seconds(value: timedelta) -> float:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _read_instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _RFC_3339.fullmatch(value.upper()):
        try:
            return datetime.fromisoformat(value.upper())
        except ValueError:
            # There is no such day or time of day.
            pass
    raise PydanticCustomError(
        "instant",
        "it must be a time as RFC 3339 has it, with its offset, such as"
        " 2030-01-01T09:00:00Z or 2030-01-01T09:00:00+02:00 (in a URL, %2B02:00)",
    )


Seconds = Annotated[
    timedelta,
    BeforeValidator(_read_seconds),
    PlainSerializer(_write_seconds, return_type=int | float),
    WithJsonSchema({"type": "number"}),
]
"""A duration, in seconds."""

SecondsCount = Annotated[float, Field(ge=0, le=3_155_760_000, allow_inf_nan=False)]
"""A duration of at most a century, in seconds, which a URL may have as well."""

Instant = Annotated[
    datetime,
    BeforeValidator(_read_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time as RFC 3339 has it, with its offset; answered in UTC."""

Id = Annotated[UUID, Strict(False)]
"""An id, as a text."""

DefinitionId = Annotated[
    UUID, BeforeValidator(_read_definition), WithJsonSchema({"type": "string"})
]
"""The id of a definition in a URL, given as it is or by its key."""

Key = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": KEY_LIMIT})
]
"""The key of a definition, which the core validates."""

Name = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200})
]
"""A short text, which the core validates."""

Object = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
"""Any JSON object, which the core validates."""

Limit = Annotated[int, Field(ge=1, le=1000)]
"""The most items of a page."""


def filled(model: type[_Model], value: object, **others: Any) -> _Model:
    """A model with the fields of a value.

    Args:
        model: The class of the model.
        value: The value, with attributes of the same names.
        **others: The fields that the value does not have as they are.
    """
    given = {
        field.alias or name: others[name] if name in others else getattr(value, name)
        for name, field in model.model_fields.items()
    }
    return model(**given)


def if_given(value: _Given | None, of: Callable[[_Given], _Made]) -> _Made | None:
    """Convert a value; None stays None."""
    return None if value is None else of(value)


def _unknown(name: str, names: list[str]) -> str:
    near = get_close_matches(name[:200], names, n=1)
    if near:
        return f"there is no such field: did you mean {near[0]}?"
    return f"there is no such field: known are {', '.join(names)}"


def _is_set(field: FieldInfo) -> bool:
    """Whether a field is writable, and not read-only."""
    extra = field.json_schema_extra
    return not (isinstance(extra, dict) and extra.get("readOnly"))


class Given(BaseModel):
    """A request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _check_known(cls, value: object) -> object:
        if isinstance(value, dict):
            names = [each.alias or name for name, each in cls.model_fields.items()]
            unknown = [str(each) for each in value if each not in names]
            if unknown:
                # Read-only fields may be sent back, and are not suggested.
                own = cls.model_fields.items()
                known = [each.alias or name for name, each in own if _is_set(each)]
                fields = {each: _unknown(each, known) for each in unknown[:_MOST]}
                raise PydanticCustomError(
                    "unknown", "there are fields that nobody knows", {"fields": fields}
                )
        return value


class Body(Given):
    """A JSON body; no value is coerced."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Query(Given):
    """The query of a URL; its texts are parsed."""


class PageQuery(Query):
    """Which page of a list."""

    after: Annotated[str | None, Field(max_length=500)] = Field(
        None, description="Read on from a page: its `next`."
    )
    limit: Limit = Field(100, description="The most items of a page.")


class Answer(BaseModel):
    """What is answered as JSON."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """The answer for a value with the same fields."""
        return filled(cls, value)


class PageOf(Answer, Generic[_Item]):
    """A page of a list."""

    items: list[_Item]
    next: str | None = Field(
        description="Pass it on as `after` to read the next page; null: there is none."
    )


@contextmanager
def of_field(
    field: str, names: Sequence[str] = (), *, otherwise: str = ""
) -> Iterator[None]:
    """Turn errors of the core within the context into problems of a field.

    Args:
        field: The path of the field; empty: the whole body.
        names: The fields below it. An error that begins with one of these names is
            an error of that field.
        otherwise: The field of an error that begins with no name.
    """
    try:
        yield
    except ConfigurationError as error:
        text = str(error)
        path, _, rest = text.partition(": ")
        if field and path.startswith(f"{field}.") and " " not in path:
            raise invalid(path, rest) from None
        first = text.partition(" ")[0].partition("[")[0].rstrip(",:")
        below = first if first in names else otherwise
        raise invalid(".".join(filter(None, (field, below))), text) from None


def read_object(field: str, text: str) -> dict[str, Any]:
    """Parse a JSON object in a query.

    Raises:
        Problem: 422, it is no JSON object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid(
            field, f'it must be a JSON object such as {{"order": 7}}: {shown(text)}'
        )
    return found
