"""The JSON Schema of all messages, for those who write or read them elsewhere."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic.json_schema import models_json_schema

from go_scheduler.dispatch.messages.actions import Cancel, Run
from go_scheduler.dispatch.messages.statuses import Status

FILE = "messages.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SAYS = ("version", "action")


def message_schema() -> dict[str, Any]:
    """The JSON Schema, 2020-12, of whatever goes over the bus.

    Its ``$defs`` are ``Run``, ``Cancel`` and ``Status``; a message is one of these,
    or an array of ``Status``. The file ``messages.schema.json`` beside the code of this
    is the same.
    """
    found: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_bytes())
    return found


def made_schema() -> dict[str, Any]:
    """The same, made of the messages as they are; a test compares it with the file."""
    kinds = (Run, Cancel, Status)
    _, made = models_json_schema([(each, "validation") for each in kinds])
    definitions = made["$defs"]
    for kind in kinds:
        schema = definitions[kind.__name__]
        required = {*schema["required"], *_SAYS} & kind.model_fields.keys()
        schema["required"] = sorted(required)
        for each in schema["properties"].values():
            each.pop("title", None)
    return {
        "$schema": _DIALECT,
        "title": "Messages of go_scheduler, version 1",
        "oneOf": [
            *({"$ref": f"#/$defs/{each.__name__}"} for each in kinds),
            {"type": "array", "items": {"$ref": "#/$defs/Status"}, "minItems": 1},
        ],
        "$defs": definitions,
    }
