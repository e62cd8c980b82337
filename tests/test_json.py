"""JSON values are copied, read-only, and nothing but what every store can keep."""

from __future__ import annotations

import copy
import json
import pickle
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import ConfigurationError
from go_scheduler.json import (
    FrozenArray,
    FrozenObject,
    contains,
    freeze,
    is_same,
    read_object,
    read_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.json import JSON

LIMIT = 1000
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=3)
    ),
    max_leaves=10,
)


class Colour(str, Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


class Shade(StrEnum):
    DARK = "dark"


class Size(IntEnum):
    LARGE = 3


class Text(str):
    __slots__ = ()


class Weight(float):
    __slots__ = ()


def frozen(value: object) -> FrozenObject:
    return freeze(value, name="metadata", limit=LIMIT)


def refusal(value: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        frozen(value)
    return str(caught.value)


@settings(deadline=None, max_examples=50)
@given(VALUES)
def test_what_is_json_is_kept_as_it_is(value: object) -> None:
    kept = freeze({"value": value}, name="metadata", limit=10**6)
    assert kept == {"value": value}
    assert json.loads(json.dumps(kept)) == kept


def test_an_object_may_be_any_mapping_and_an_array_a_tuple() -> None:
    assert frozen(MappingProxyType({"a": (1, [2])})) == {"a": [1, [2]]}


def test_subclasses_of_plain_values_become_plain_values() -> None:
    given = {
        Text("key"): Text("text"),
        "colour": Colour.RED,
        "shade": Shade.DARK,
        "size": Size.LARGE,
        "weight": Weight(1.5),
    }
    kept = frozen(given)
    assert kept == {
        "key": "text",
        "colour": "red",
        "shade": "dark",
        "size": 3,
        "weight": 1.5,
    }
    assert {type(key) for key in kept} == {str}
    assert [type(value) for value in kept.values()] == [str, str, str, int, float]


def test_what_is_frozen_already_is_not_copied_again() -> None:
    kept = frozen({"a": 1})
    assert frozen(kept) is kept


@pytest.mark.parametrize(
    ("value", "method", "arguments"),
    [
        ({"a": 1}, "__setitem__", ["a", 1]),
        ({"a": 1}, "__delitem__", ["a"]),
        ({"a": 1}, "clear", []),
        ({"a": 1}, "pop", ["a"]),
        ({"a": 1}, "popitem", []),
        ({"a": 1}, "setdefault", ["b", 1]),
        ({"a": 1}, "update", [{"a": 2}]),
        ({"a": 1}, "__ior__", [{"a": 2}]),
        ([3, 2], "__setitem__", [0, 1]),
        ([3, 2], "__delitem__", [0]),
        ([3, 2], "append", [1]),
        ([3, 2], "clear", []),
        ([3, 2], "extend", [[1]]),
        ([3, 2], "insert", [0, 1]),
        ([3, 2], "pop", []),
        ([3, 2], "remove", [3]),
        ([3, 2], "reverse", []),
        ([3, 2], "sort", []),
        ([3, 2], "__iadd__", [[1]]),
        ([3, 2], "__imul__", [2]),
    ],
)
def test_every_change_is_refused(
    value: object, method: str, arguments: list[object]
) -> None:
    kept = frozen({"it": value})["it"]
    assert isinstance(kept, FrozenObject | FrozenArray)
    with pytest.raises(TypeError, match="read-only"):
        getattr(kept, method)(*arguments)
    assert kept == value


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_a_copy_is_equal_and_read_only_as_well(
    copied: Callable[[FrozenObject], FrozenObject],
) -> None:
    twin = copied(frozen({"a": [1, {"b": 2}]}))
    assert twin == {"a": [1, {"b": 2}]}
    assert type(twin) is FrozenObject
    array = twin["a"]
    assert isinstance(array, FrozenArray)
    assert type(array[1]) is FrozenObject


@pytest.mark.parametrize("value", [None, [1], "text", 5])
def test_what_is_no_object_is_refused(value: object) -> None:
    assert refusal(value) == f"metadata must be a mapping, not {value!r}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "metadata['a'] is nan, which JSON cannot hold"),
        (float("inf"), "metadata['a'] is inf, which JSON cannot hold"),
        (float("-inf"), "metadata['a'] is -inf, which JSON cannot hold"),
        (b"bytes", "metadata['a'] is bytes, which JSON cannot hold"),
        ({1}, "metadata['a'] is a set, which JSON cannot hold"),
        (OSError(), "metadata['a'] is an OSError, which JSON cannot hold"),
        ("\0", "metadata['a'] holds a NUL, which no database keeps"),
        ("\ud800", "metadata['a'] holds a lone surrogate, which no database keeps"),
        (
            [1, {"b": "\0"}],
            "metadata['a'][1]['b'] holds a NUL, which no database keeps",
        ),
        ({1: 2}, "metadata['a'] has the key 1; JSON keys are strings"),
        ({"\0": 2}, "metadata['a'] holds a NUL, which no database keeps"),
    ],
)
def test_what_no_store_can_keep_is_refused_with_its_place(
    value: object, message: str
) -> None:
    assert refusal({"a": value}) == message


def test_a_number_too_long_to_be_written_is_refused() -> None:
    assert frozen({"a": -(10**600)}) == {"a": -(10**600)}
    assert refusal({"a": 10**5000}) == (
        "metadata['a'] is a number of so many digits that it cannot be written as text"
    )


def test_what_holds_itself_is_refused() -> None:
    array: list[object] = []
    array.append(array)
    assert "is nested more than 100 deep, or holds itself" in refusal({"a": array})
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    assert refusal(mapping).startswith("metadata['self']['self']")


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_hundred_levels_are_kept_and_no_more() -> None:
    assert frozen(nested(100)) == nested(100)
    assert "more than 100 deep" in refusal(nested(101))
    array: list[object] = []
    for _ in range(98):
        array = [array]
    assert frozen({"a": array}) == {"a": array}
    assert frozen({"a": [array]}) == {"a": [array]}
    assert "more than 100 deep" in refusal({"a": [[array]]})


def test_the_limit_counts_bytes_of_text_in_utf_8() -> None:
    assert len(json.dumps({"a": "é" * 496}, ensure_ascii=False)) < LIMIT
    fits = {"a": "é" * ((LIMIT - 8) // 2)}
    assert frozen(fits) == fits
    assert refusal({"a": fits["a"] + "x"}) == (
        "metadata is 1001 bytes as JSON; at most 1000 are kept: store large payloads"
        " elsewhere and keep a reference to them here"
    )


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, True),
        ({"a": 1}, {"a": {}}, False),
        ([1, 2, 3], [3, 1], True),
        ([1, 2], [1, 1], True),
        ([1, 2], [4], False),
        ([{"a": 1, "b": 2}], [{"b": 2}], True),
        ("ab", ["a"], False),
        (1, [1], False),
        ({"a": [1]}, {"a": 1}, False),
        ("ab", "a", False),
        ("ab", "ab", True),
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        (True, True, True),
        (None, None, True),
        (None, False, False),
    ],
)
def test_containment_is_that_of_sql(outer: JSON, inner: JSON, expected: bool) -> None:
    assert contains(outer, inner) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [1, None]}, {"a": [1, None]}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ([1, 2], [2, 1], False),
        ({}, {"a": None}, False),
    ],
)
def test_the_same_is_what_has_the_same_text(
    one: JSON, other: JSON, expected: bool
) -> None:
    assert is_same(one, other) is expected


def test_shared_parts_that_add_up_to_billions_are_refused_at_once() -> None:
    value: object = 1
    for _ in range(90):
        value = [value, value]
    with pytest.raises(ConfigurationError, match="one value too many"):
        freeze({"a": value}, name="metadata", limit=64 * 1024)


@given(st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=4))
@settings(max_examples=100)
def test_what_was_written_is_read_as_it_was_frozen(value: dict[str, JSON]) -> None:
    for text in (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        json.dumps(value, indent=1),
    ):
        read = read_object(text)
        assert read == value
        assert _kinds(read) == _kinds(freeze(value, name="it", limit=100_000))


def _kinds(value: JSON) -> object:
    if isinstance(value, dict):
        return type(value), {name: _kinds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return type(value), [_kinds(inner) for inner in value]
    return type(value)


@pytest.mark.parametrize("text", ["1", ' {"a": [1]}', '{"a":[1]} ', "NaN", '"{}"'])
def test_any_value_is_read_wherever_spaces_are(text: str) -> None:
    assert repr(read_value(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", "x", "{}x", "1 2"])
def test_a_text_that_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1",
        "[1]",
        "{}x",
        '{"a":1e999}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":' + "9" * 400 + ".0}",
        '{"a":' + "9" * 5000 + "}",
        '{"a":"\\u0000"}',
        '{"a":"\\ud800"}',
        '{"a":"b\nc"}',
        '{"a":' * 102 + "1" + "}" * 102,
    ],
)
def test_a_text_that_is_no_sound_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_object(text)
