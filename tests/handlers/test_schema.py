"""JSON schemas of payloads: what fits, what does not, and what no schema may do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from go_scheduler.handlers.schema import DIALECT, Schema, _validator_class
from tests.case_tables import json_table
from tests.handlers.conftest import refused

ORDER = {
    "$schema": DIALECT,
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 1},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "required": ["number"],
    "additionalProperties": False,
    "$defs": {
        "item": {
            "type": "object",
            "properties": {"price": {"type": "number"}, "of": {"$ref": "#/$defs/item"}},
        }
    },
}


def unfit(payload: dict[str, Any], schema: dict[str, Any] = ORDER) -> str:
    return refused(Schema(schema).check, payload)


def test_what_fits_passes() -> None:
    Schema(ORDER).check({"number": 7, "items": [{"price": 1.5, "of": {"price": 2}}]})
    Schema({}).check({"anything": None})


@pytest.mark.parametrize(
    ("payload", "answer"),
    json_table("handlers/schema_payloads"),
)
def test_what_does_not_fit_is_refused_with_its_path(
    payload: dict[str, Any], answer: str
) -> None:
    assert unfit(payload) == answer


def test_of_what_is_long_the_beginning_is_shown_and_what_was_expected() -> None:
    answer = unfit({"number": "x" * 10_000})
    assert answer.endswith("... is not of type 'integer'") or len(answer) < 600
    assert "is not of type 'integer'" in answer
    deep = {"type": "object", "additionalProperties": {"type": "null"}}
    assert len(unfit({"x" * 10_000: 1}, deep)) < 1100


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": "x" * 70_000}, [1]])
def test_what_no_store_keeps_is_refused_before_the_schema(payload: Any) -> None:
    assert unfit(payload, {}).startswith("payload")


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        *json_table("handlers/schema_refusals"),
        ({"enum": ["x" * 70_000]}, "schema is 70013 bytes as JSON"),
    ],
)
def test_what_is_no_schema_of_a_payload_is_refused(schema: Any, answer: str) -> None:
    assert refused(Schema, schema).startswith(answer)


def test_a_property_may_be_called_as_a_keyword_is() -> None:
    schema = Schema({"properties": {"$ref": {"type": "string"}, "$id": {}}})
    schema.check({"$ref": "https://example.org", "$id": 7})


def test_an_anchor_may_be_referred_to() -> None:
    schema = {
        "$ref": "#whole",
        "$defs": {"a": {"$anchor": "whole", "maxProperties": 1}},
    }
    Schema(schema).check({"a": 1})
    assert unfit({"a": 1, "b": 2}, schema).startswith("payload: {'a': 1, 'b': 2} has")


def test_a_schema_that_goes_round_is_refused_when_it_is_met() -> None:
    answer = unfit({}, {"$ref": "#"})
    assert answer == (
        "payload cannot be checked: its schema refers to itself too often, or without"
        " end"
    )


@pytest.mark.slow
def test_a_small_schema_that_would_take_for_ever_is_given_up() -> None:
    parts = {
        f"p{number}": {"allOf": [{"$ref": f"#/$defs/p{number + 1}"}] * 2}
        for number in range(60)
    }
    schema = {"$ref": "#/$defs/p0", "$defs": parts | {"p60": {}}}
    assert "too often" in unfit({}, schema)


def test_without_jsonschema_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _validator_class.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert "install the extra types" in refused(Schema, {})
    _validator_class.cache_clear()
