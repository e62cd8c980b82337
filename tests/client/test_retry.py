"""What has failed is run again by hand: one, by filter, all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    DelayTrigger,
    Fail,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.events import InstanceReopened
from go_scheduler.testing.builders import MINUTE
from tests.behaviour.house import once

if TYPE_CHECKING:
    from go_scheduler import Scheduler, TaskInstance
    from tests.behaviour.house import World


def fail(_: TaskInstance) -> None:
    raise Fail("no paper")


@pytest.fixture
def node(world: World) -> Scheduler:
    """A node with one instance, which has failed."""
    node = world.node(fail)
    node.schedule(once())
    world.advance(1)
    return node


def test_it_is_told(node: Scheduler, world: World) -> None:
    node.retry(world.only().id)
    [told] = world.heard.of(InstanceReopened)
    assert told.instance_id == world.only().id


def test_without_its_definition_it_is_refused(node: Scheduler, world: World) -> None:
    failed = world.only()
    node.delete_definition(failed.definition.id)
    # What has its id now is another one.
    node.schedule(once(3600, id=failed.definition.id))
    with pytest.raises(TaskDefinitionNotFoundError):
        node.retry(failed.id)


def test_while_its_definition_waits_for_another_one_it_is_refused(world: World) -> None:
    node = world.node(fail)
    definition = node.schedule(TaskDefinition(trigger=DelayTrigger(MINUTE)))
    world.advance(121)
    first, second = node.list_instances(state=State.FAILED)
    node.pause(definition.id)
    node.retry(second.id)
    with pytest.raises(TaskInstanceStateError, match="waits for the end of another"):
        node.retry(first.id)


def test_more_than_a_page_of_them_too(
    node: Scheduler, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.client.editing._REOPENED_AT_ONCE", 2)
    for _ in range(4):
        node.schedule(once(1))
    world.advance(1)
    assert node.stop()
    assert node.retry_failed(limit=3) == 3
    assert world.states() == {State.FAILED: 2, State.PENDING: 3}
    assert node.retry_failed() == 2
    assert node.retry_failed() == 0
