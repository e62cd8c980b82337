"""An executor whose room changes is claimed for what it takes, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.running.calling.elastic_executor import ElasticExecutor
from go_scheduler.testing.builders import counts_by_state
from tests.behaviour.house import World, once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import Scheduler
    from go_scheduler.models import TaskInstance


class Some(ElasticExecutor):
    """Takes as many as it is told to; the handler takes the room of each."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.handled: list[TaskInstance] = []

    @property
    def room(self) -> int:
        return self.left

    def handle(self, instance: TaskInstance) -> None:
        self.left -= 1
        self.handled.append(instance)

    def add(self, room: int) -> None:
        self.left += room
        self.grow()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def some() -> Some:
    return Some()


@pytest.fixture
def node(world: World, some: Some) -> Iterator[Scheduler]:
    node = world.node(some.handle, executor=some)
    world.advance(1)
    yield node
    node.stop()


def test_as_much_is_claimed_as_there_is_room_for_and_more_as_soon_as_it_grows(
    world: World, node: Scheduler, some: Some
) -> None:
    made = world.node(None, "makes")
    made.schedule_all([once(1) for _ in range(8)])
    world.faults.asked.clear()
    world.advance(60)
    assert "claim_instances" not in world.faults.asked
    assert node.health().ok
    for room, handled in ((2, 2), (1, 3), (4, 7)):
        some.add(room)
        world.advance(0)
        assert (len(some.handled), counts_by_state(world.store)[State.PENDING]) == (
            handled,
            8 - handled,
        )
    some.add(2)
    world.advance(60)
    assert len(some.handled) == 8
    world.faults.asked.clear()
    # Nothing is left to be claimed.
    for _ in range(100):
        some.left -= 1
        some.add(1)
    world.advance(0)
    assert "claim_instances" not in world.faults.asked


@pytest.mark.parametrize("wait", [0.1, 3])
def test_what_finds_no_room_is_called_when_there_is_some_or_given_back(
    world: World, node: Scheduler, some: Some, wait: float
) -> None:
    some.add(1)
    node.schedule(once(2.5))
    world.advance(1.45)
    some.left -= 1
    world.advance(wait)
    assert some.handled == []
    given_back = wait > 1
    assert world.only().state is (State.PENDING if given_back else State.RUNNING)
    assert world.only().runs == (not given_back)
    some.add(1)
    # The call that waited for room may be of a run that was given back.
    assert (len(some.handled), some.left) == (not given_back, int(given_back))
    world.advance(1)
    assert [each.id for each in some.handled] == [world.only().id]
    assert world.states() == {State.COMPLETED: 1}


def test_ahead_of_its_time_no_more_is_held_than_some_for_each_it_takes(
    world: World, node: Scheduler, some: Some
) -> None:
    node.schedule_all([once(2.5) for _ in range(100)])
    some.add(2)
    world.advance(1)
    assert 2 <= node.health().waiting <= 33
    some.add(100)
    world.advance(1)
    assert len(some.handled) == 100


def test_a_node_that_has_stopped_is_told_of_no_room(world: World, some: Some) -> None:
    scheduler = world.scheduler(some.handle, executor=some)
    for _ in range(3):
        scheduler.start()
        scheduler.stop()
    assert some._told == ()


def test_what_a_call_raises_is_in_its_future_and_what_is_cancelled_is_not_called() -> (
    None
):
    some = Some()
    future, cancelled = some.submit(int, "x"), some.submit(some.handle)  # type: ignore[call-arg]
    assert not future.done()
    assert cancelled.cancel()
    some.add(2)
    assert isinstance(future.exception(), ValueError)
    assert some.handled == []
