"""Slots: while there is more than a look goes over, the next one comes soon."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.behaviour.house import World, once

if TYPE_CHECKING:
    import pytest


def test_while_there_is_more_it_looks_ten_times_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = world.store.review_parked
    monkeypatch.setattr(
        world.store, "review_parked", lambda **some: replace(review(**some), more=True)
    )
    node = world.node(world.bench.handler)
    for _ in range(2):
        node.schedule(once(1, lock="a"))
    world.advance(5)
    world.faults.asked.clear()
    world.advance(10)
    assert 90 <= world.faults.asked.count("review_parked") <= 110
