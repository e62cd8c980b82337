"""How many of a definition one node has at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.running.admission import PerNode
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, definition
from tests.conftest import instance

if TYPE_CHECKING:
    from uuid import UUID


def test_the_more_there_is_the_later_it_comes() -> None:
    held = Held()
    per_node, few = PerNode(held), replace(definition(), max_per_node=2)

    def take(full: set[UUID]) -> float:
        run = HeldRun(instance(few), expire_after=EXPIRE_AFTER)
        later = per_node.take(run, full)
        return 0 if later is None else later.delay.total_seconds()

    full: set[UUID] = set()
    assert [take(full) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 3]
    assert full == {few.id}
    held.add([HeldRun(instance(), expire_after=EXPIRE_AFTER)])
    assert [take(set()) for _ in range(60)][-1] == 30
    for run in held.uncalled():
        held.drop(run)
    assert [take(set()) for _ in range(3)] == [0, 0, 1]
