"""How much of one definition a node takes: what hangs, and what it may have at once."""

from __future__ import annotations

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.calling.workers import Spares
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, definition
from tests.conftest import instance


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
    held = Held()
    spares = Spares(held, most=max_hung)
    of = definition(name="stuck")
    runs = [HeldRun(instance(of), expire_after=EXPIRE_AFTER) for _ in range(each + 1)]
    held.add(runs)
    held.fall_due(runs, ZERO)
    for number, run in enumerate(runs):
        assert held.call(run)
        assert (spares.refusal(run.instance) is None) is (number < each)
        held.hang(run)
        spares.take(run)
    # What was called by then is replaced as well, but for what others may need.
    assert len(held.apart()) == apart
    assert spares.refusal(instance(of)) == f"{each} runs of stuck hang here"
    assert spares.refusal(instance()) is None
