"""How much of one definition a node takes: what hangs, and what it may have at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.start_queue import PerNode
from go_scheduler.testing.builders import definition
from tests.conftest import instance

if TYPE_CHECKING:
    from uuid import UUID


@pytest.mark.parametrize(
    ("max_hung", "each", "apart"),
    [
        (1, 1, 1),
        (2, 1, 1),
        (3, 2, 2),
        (4, 3, 3),
        (7, 3, 4),
        (24, 3, 4),
        (32, 4, 5),
        (80, 10, 11),
    ],
)
def test_of_a_definition_of_which_an_eighth_or_three_hang_nothing_more_is_called_here(
    max_hung: int, each: int, apart: int
) -> None:
    held = Held(spares=max_hung)
    of = definition(name="stuck")
    runs = [HeldRun(instance(of), Defaults()) for _ in range(each + 1)]
    held.add(runs)
    held.fall_due(runs, ZERO)
    for number, run in enumerate(runs):
        assert held.call(run)
        assert (held.refusal(run.instance) is None) is (number < each)
        held.hang(run)
        held.set_apart(run)
    # What was called by then is replaced as well, but for what others may need.
    assert len(held.apart()) == apart
    assert held.refusal(instance(of)) == f"{each} runs of stuck hang here"
    assert held.refusal(instance()) is None


def test_the_more_is_kept_out_in_a_row_the_later_it_comes() -> None:
    held = Held()
    per_node, few = PerNode(held), replace(definition(), max_per_node=2)

    def take(full: set[UUID]) -> float:
        run = HeldRun(instance(few), Defaults())
        later = per_node.take(run, full)
        return 0 if later is None else later.delay.total_seconds()

    full: set[UUID] = set()
    assert [take(full) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 3]
    assert full == {few.id}
    held.add([HeldRun(instance(), Defaults())])
    assert [take(set()) for _ in range(60)][-1] == 30
    for run in held.uncalled():
        held.drop(run)
    assert [take(set()) for _ in range(3)] == [0, 0, 1]
