"""The JSON schema of a handler's parameters."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from go_scheduler.handlers.payload import Payload
    from go_scheduler.json import JSON


def parameters_schema(payload: Payload) -> dict[str, JSON]:
    """The schema of a payload that is the arguments of a function.

    Raises:
        ConfigurationError: A parameter has no schema, or pydantic is not installed.
    """
    if find_spec("pydantic") is None:
        raise ConfigurationError(
            "the schema of a task's parameters is made by pydantic: install the extra"
            " types"
        )
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema

    adapters: Any = [
        (name, "validation", TypeAdapter(_annotation(annotation)))
        for name, annotation in payload.types.items()
    ]
    try:
        schemas, shared = TypeAdapter.json_schemas(adapters)
    except PydanticInvalidForJsonSchema as error:
        raise ConfigurationError(
            f"one of the parameters {', '.join(payload.types)} has no JSON schema:"
            f" {error.message.splitlines()[0]}"
        ) from None
    properties: dict[str, Any] = {
        name: dict(schemas[name, "validation"]) for name in payload.types
    }
    for name in payload.types.keys() - {*payload.required}:
        if (default := payload.default_of(name)) is not None:
            properties[name]["default"] = default
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(payload.required),
        "additionalProperties": payload.takes_others,
    }
    return cast("dict[str, JSON]", schema | shared)


def _annotation(annotation: object) -> Any:
    return Any if annotation is inspect.Parameter.empty else annotation
