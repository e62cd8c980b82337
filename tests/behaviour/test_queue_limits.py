"""How many of a definition may wait: what fires beyond that is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    CatchUp,
    DelayTrigger,
    OnDemandTrigger,
    QueueFullError,
    State,
    TaskDefinition,
)
from go_scheduler.events import InstanceSkipped
from go_scheduler.stores.filters import Filter
from tests.behaviour.house import World, at, every, seconds

if TYPE_CHECKING:
    from go_scheduler import TaskInstance


def waiting(world: World) -> list[TaskInstance]:
    return list(world.store.select(Filter(states=[State.PENDING]), limit=1000))


def test_what_fires_beyond_what_may_wait_is_skipped_and_what_is_added_refused(
    world: World,
) -> None:
    node = world.node(None)
    stored = node.schedule(every(10, max_queue=3, catch_up=CatchUp(mode="all")))
    world.advance(60)
    assert [each.fire_time for each in waiting(world)] == [at(10), at(20), at(30)]
    told = world.heard.of(InstanceSkipped)
    assert [each.first for each in told] == [at(40), at(50), at(60)]
    assert {each.count for each in told} == {1}
    assert "3" in told[0].reason
    with pytest.raises(QueueFullError):
        node.run_now(stored.id)
    # What has left makes room for as many.
    runs = world.node(world.note, "runs")
    world.advance(1)
    runs.stop()
    ran = [each.instance.fire_time for each in world.called]
    assert ran == [at(10), at(20), at(30)]
    world.advance(20)
    assert [each.fire_time for each in waiting(world)] == [at(70), at(80)]


def test_many_that_are_due_at_once_fill_what_may_wait_and_no_more(
    world: World,
) -> None:
    policy = CatchUp(mode="all")
    definition = every(1, max_queue=5, catch_up=policy, next_fire_time=at(1))
    world.store.put_definitions([definition])
    world.advance(100)
    world.node(None)
    world.advance(1)
    assert [each.fire_time for each in waiting(world)] == [at(n) for n in range(1, 6)]
    skipped = world.store.select(Filter(states=[State.SKIPPED]), limit=1000)
    assert sum(each.skipped.count for each in skipped if each.skipped) >= 96


def test_what_was_missed_and_what_has_no_room_are_one_record(world: World) -> None:
    policy = CatchUp(grace=seconds(1))
    definition = every(1, max_queue=1, catch_up=policy, next_fire_time=at(1))
    [stored] = world.store.put_definitions([definition]).definitions
    client = world.scheduler(None)
    client.run_now(stored.id)
    world.advance(20)
    world.node(None)
    world.advance(0)
    [record] = world.heard.of(InstanceSkipped)
    assert record.first == at(1)
    assert record.last >= at(20)
    assert record.count >= 20
    assert "missed by more than the grace" in record.reason
    assert "; " in record.reason


def test_what_waits_for_the_end_of_a_run_is_bounded_by_that_alone(
    world: World,
) -> None:
    node = world.node(None)
    node.schedule(TaskDefinition(trigger=DelayTrigger(seconds(1)), max_queue=1))
    node.schedule(TaskDefinition(trigger=OnDemandTrigger(), max_queue=1))
    world.advance(10)
    assert len(waiting(world)) == 1
    assert world.heard.of(InstanceSkipped) == []
