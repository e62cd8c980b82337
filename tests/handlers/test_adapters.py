"""What the values of a parameter are checked by, with pydantic and without."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from go_scheduler import ConfigurationError, HandlerRegistry
from go_scheduler.handlers import payload
from go_scheduler.handlers.payload import Adapter

ODD: list[object] = [1.5, "1", True, None, (1, 2), [1], {"a": 1}, {1}, date.min]

# Of each type: what is one of its values, and what is none.
PLAIN: list[tuple[object, list[object], list[object]]] = [
    (int, [1, 10**30], [*ODD, 3.0]),
    (float, [1, 1.5], ["1", True, None, [1.5]]),
    (bool, [True, False], [0, 1, "true", None]),
    (str, ["a", ""], [1, None, b"a", ["a"]]),
    (None, [None], [0, False, "None", []]),
    (list, [[], [1, "a", None], (1, 2)], [1, "ab", {}, {1}, None]),
    (list[int], [[], [1], (1, 2)], [["1"], [True], [1, None], {}, 1]),
    (list[Any], [[], [1, "a"]], [1, {}]),
    (list[list[str]], [[["a"], []]], [["a"], [[1]]]),
    (tuple, [(), (1, "a"), [1]], [1, "ab", {}]),
    (tuple[int, ...], [(), (1, 2), [1]], [("1",), 1, {}]),
    (tuple[()], [(), []], [(1,), ["a"], 1, {}]),
    (tuple[int, str], [(1, "a"), [1, "a"]], [(1,), (1, 2), (1, "a", 2), "1a"]),
    (dict, [{}, {"a": [1]}], [[], [("a", 1)], "a", None]),
    (dict[str, int], [{}, {"a": 1}], [{"a": "1"}, {"a": True}, [[]]]),
    (dict[str, list[int]], [{"a": [1]}], [{"a": ["1"]}, {"a": 1}]),
    (str | None, ["a", None], [1, ["a"]]),
    (Optional[int], [1, None], ["1", True]),  # noqa: UP045
    (Union[int, str], [1, "1"], [1.5, True, None]),  # noqa: UP007
    (list[int] | dict[str, int], [[1], {"a": 1}], [["a"], {"a": "b"}, 1]),
    (Literal["a", 1, None], ["a", 1, None], ["b", True, 1.0, 0]),
    (list[Literal["a", "b"]] | bool, [["a"], True], [["c"], 1]),
    (Any, [1, "a", None, [], {}], []),
    (object, [1, "a", None, [], {}], []),
]


class Colour(StrEnum):
    RED = "red"


class Order(BaseModel):
    number: int = Field(alias="no")
    on: date = date.min


@dataclass
class Parcel:
    to: str
    weight: float = 1.0


@pytest.fixture
def without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "find_spec", lambda _: None)


@pytest.fixture(params=["with pydantic", "without"])
def either_way(request: pytest.FixtureRequest) -> None:
    if request.param == "without":
        request.getfixturevalue("without_pydantic")


@pytest.mark.usefixtures("either_way")
class TestPlainTypes:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [(each, value) for each, good, _ in PLAIN for value in good],
    )
    def test_a_value_of_it_is_taken_as_it_is(
        self, annotation: object, value: Any
    ) -> None:
        adapter = Adapter("x", annotation)
        assert adapter.dump(value) is value
        stored: Any = list(value) if isinstance(value, tuple) else value
        taken: Any = adapter.load(stored)
        expected = tuple(stored) if "tuple" in str(annotation) else stored
        assert (taken, type(taken)) == (expected, type(expected))

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [(each, value) for each, _, bad in PLAIN for value in bad],
    )
    def test_nothing_else_is_taken(self, annotation: object, value: Any) -> None:
        adapter = Adapter("x", annotation)
        for check in (adapter.dump, adapter.load):
            with pytest.raises(ValueError, match=r"^x must be .*, not "):
                check(value)

    def test_the_refusal_shows_type_and_value(self) -> None:
        with pytest.raises(
            ValueError, match=r"^x must be list\[int\] \| None, not \['a'\]$"
        ):
            Adapter("x", list[int] | None).dump(["a"])

    def test_a_handler_may_change_what_it_is_given(self) -> None:
        payload: Any = {"a": [[1]]}
        taken: Any = Adapter("x", dict[str, list[list[int]]]).load(payload)
        taken["a"][0].append(2)
        assert payload == {"a": [[1]]}


class TestOtherTypes:
    @pytest.mark.parametrize(
        ("annotation", "value", "stored"),
        [
            (Order, Order(no=7, on=date(2030, 1, 2)), {"no": 7, "on": "2030-01-02"}),
            (Order, {"no": 7}, {"no": 7}),
            (Parcel, Parcel("Ada"), {"to": "Ada", "weight": 1.0}),
            (list[UUID], [UUID(int=5)], [str(UUID(int=5))]),
            (date | None, date(2030, 1, 2), "2030-01-02"),
            (date, "2030-01-02", "2030-01-02"),
            (Decimal, Decimal("1.5"), "1.5"),
            (Colour, Colour.RED, "red"),
            (dict[int, str], {1: "a"}, {"1": "a"}),
            (Annotated[int, Field(gt=0)], 1, 1),
        ],
    )
    def test_a_value_is_given_or_written_as_json(
        self, annotation: Any, value: Any, stored: object
    ) -> None:
        adapter = Adapter("x", annotation)
        assert adapter.dump(value) == stored
        again = adapter.load(adapter.dump(value))
        assert adapter.dump(adapter.load(stored)) == adapter.dump(again)

    @pytest.mark.parametrize(
        ("annotation", "value", "problem"),
        [
            (Parcel, {"to": 1}, "x.to: it must be a text"),
            (Parcel, Parcel("Ada", weight="1"), "x.weight: it must be a number"),  # type: ignore[arg-type]
            (Order, {"no": "7"}, "x.no: it must be a whole number"),
            (Order, {"no": True}, "x.no: it must be a whole number"),
            (date, "tomorrow", "x: Input should be a valid date"),
            (UUID, 5, "x: it must be a UUID, such as 0190"),
            (Annotated[int, Field(gt=0)], 0, "x: it must be more than 0"),
            (Annotated[int, Field(gt=0)], "1", "x: it must be a whole number"),
            (Literal[Colour.RED], "blue", "x: it must be <Colour.RED"),
            (date, object(), "x: Unable to serialize unknown type"),
        ],
    )
    def test_it_is_checked_as_strictly_as_a_plain_one(
        self, annotation: Any, value: object, problem: str
    ) -> None:
        with pytest.raises(ValueError, match=f"^{problem}"):
            Adapter("x", annotation).dump(value)

    def test_a_number_that_json_cannot_hold_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"^x: Exceeds the limit"):
            Adapter("x", Annotated[int, Field(ge=1)]).dump(10**5000)

    @pytest.mark.usefixtures("without_pydantic")
    @pytest.mark.parametrize(
        "annotation",
        [
            Order,
            Parcel,
            date | None,
            list[timedelta],
            tuple[date, ...],
            dict[int, str],
            Annotated[int, []],
            Literal[Colour.RED],
            5,
        ],
    )
    def test_without_pydantic_it_is_refused_with_what_to_install(
        self, annotation: object
    ) -> None:
        with pytest.raises(
            ConfigurationError, match="install pydantic, the extra payloads, which"
        ):
            Adapter("x", annotation)

    @pytest.mark.usefixtures("without_pydantic")
    def test_the_task_and_the_type_are_named(self) -> None:
        def mail(parcel: Parcel) -> None: ...

        with pytest.raises(
            ConfigurationError, match=r"^task 'mail': parameter parcel is a Parcel: ins"
        ):
            HandlerRegistry().task("mail")(mail)
