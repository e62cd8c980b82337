"""What somebody has broken in a Redis by hand is read as unreadable, value by value."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.stores.redis import rows
from go_scheduler.stores.redis.rows import read_id, read_time
from go_scheduler.stores.sql.rows import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_time, "soon"),
        (read_time, "9" * 18),
        (read_id, "another"),
        (rows._number, "many"),
        (rows._number, {}),
        (rows._number, float("inf")),
        (partial(rows._json, read=json.loads), "{"),
    ],
    ids=["time", "too late", "id", "number", "object", "infinite", "json"],
)
def test_a_value_that_cannot_be_read_is_unreadable(
    read: Callable[[Any], object], text: object
) -> None:
    assert read(text) is UNREADABLE


@pytest.mark.parametrize(
    "read",
    [read_time, read_id, rows._number, partial(rows._json, read=json.loads)],
    ids=["time", "id", "number", "json"],
)
def test_a_value_that_is_not_there_is_none(read: Callable[[Any], object]) -> None:
    assert read(None) is None


@pytest.mark.parametrize("text", ["", "{"])
def test_an_object_that_cannot_be_read_is_one_of_nothing(text: str) -> None:
    assert rows._object(text) == {}


@pytest.mark.parametrize("text", [None, "", "one\nline"])
def test_contents_that_lack_a_part_are_gone(text: str | None) -> None:
    assert rows._contents(str, text) is None
