"""The protocol holds in every state of its models, and each guard of it is needed."""

from __future__ import annotations

import pytest

from tests.protocol.__main__ import PAGE, covered, row_of, written
from tests.protocol.checker import check
from tests.protocol.configurations import (
    CONFIGURATIONS,
    COVERED,
    NOT_NEEDED,
    Configuration,
)
from tests.protocol.marks import missing, table

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


def test_each_guard_stands_in_the_code_and_has_a_test() -> None:
    assert not [*missing()]
    page = PAGE.read_text()
    assert written(page, "marks", table()) == page


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
