"""The recorder: what is told of ends, and of many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler import StoreError
from go_scheduler.events import ResultDiscarded
from tests.behaviour.house import World, once

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from go_scheduler import TaskInstance


def test_an_end_of_which_nobody_can_say_whether_it_was_recorded_is_told_as_discarded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(instance_id: UUID) -> TaskInstance:
        raise StoreError("unreadable")

    world.node(world.note).schedule(once(2))
    world.advance(1.9)
    world.faults.losing.add("finish_instances")
    world.advance(3)
    world.faults.losing.clear()
    monkeypatch.setattr(world.store, "get_instance", get)
    world.advance(6)
    assert len(world.heard.of(ResultDiscarded)) == 1
