"""The protocol holds in every state of its models, and each guard of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.protocol.__main__ import PAGE, covered, row_of, written
from tests.protocol.checker import NO_GOOD_END, Model, TooManyStates, check
from tests.protocol.configurations import (
    CONFIGURATIONS,
    COVERED,
    NOT_NEEDED,
    Configuration,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

BY_NAME = {each.name: each for each in CONFIGURATIONS}


def _marked(of: Configuration, *values: object) -> object:
    marks = [pytest.mark.exhaustive] if of.is_large else []
    return pytest.param(
        of, *values, marks=marks, id=" without ".join(map(str, (of.name, *values)))
    )


@pytest.mark.parametrize("of", [_marked(each) for each in CONFIGURATIONS])
def test_every_invariant_holds_in_every_state(of: Configuration) -> None:
    result = check(of.model())
    assert not result.broken, str(result)
    # `python -m tests.protocol` writes the page.
    row = row_of(of.name, result.states, result.steps)
    assert row in PAGE.read_text().splitlines()


def test_the_page_says_which_fault_is_in_which_model() -> None:
    page = PAGE.read_text()
    assert written(page, "covered", covered()) == page


def test_every_model_is_on_the_page() -> None:
    assert {each.name.partition(":")[0] for each in CONFIGURATIONS} == {*COVERED}


@pytest.mark.parametrize(
    ("of", "guard"),
    [_marked(each, guard) for each in CONFIGURATIONS for guard in each.guards],
)
def test_without_a_guard_something_is_broken(of: Configuration, guard: str) -> None:
    result = check(of.model(without=guard))
    assert result.broken
    assert result.trace, str(result)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "guard"), NOT_NEEDED)
def test_a_guard_that_is_not_needed_breaks_nothing(name: str, guard: str) -> None:
    assert not check(BY_NAME[name].model(without=guard)).broken


class Counter(NamedTuple):
    """A state of a model that counts."""

    value: int


class Counting(Model[Counter]):
    """Counts up to a number, by one or by two; at a number only a fault goes on."""

    def __init__(self, *, last: int, broken_at: int = -1, stuck_at: int = -1) -> None:
        self._last = last
        self._broken_at = broken_at
        self._stuck_at = stuck_at

    def first(self) -> Counter:
        return Counter(0)

    def steps(self, state: Counter) -> Iterator[tuple[Name, Counter]]:
        for more in (1, 2):
            if state.value + more <= self._last:
                what = "fault" if state.value == self._stuck_at else "add"
                yield (what, more), Counter(state.value + more)

    def broken(self, state: Counter) -> str:
        return "too far" if state.value == self._broken_at else ""

    def is_good(self, state: Counter) -> bool:
        return state.value == self._last


def test_the_checker_looks_at_each_state_once() -> None:
    result = check(Counting(last=9))
    assert (result.states, result.steps, result.broken) == (10, 17, "")


def test_the_checker_prints_a_shortest_way_to_what_is_broken() -> None:
    result = check(Counting(last=9, broken_at=5))
    assert result.broken == "too far"
    assert len(result.trace) == 3
    assert str(result).splitlines()[0] == "too far"


def test_the_checker_finds_what_leads_to_no_good_end_but_by_a_fault() -> None:
    result = check(Counting(last=9, stuck_at=4))
    assert result.broken == NO_GOOD_END
    assert result.trace == ["add 2", "add 2"]


def test_the_checker_refuses_more_states_than_it_may_look_at() -> None:
    with pytest.raises(TooManyStates, match="more than 5 states"):
        check(Counting(last=9), most=5)
