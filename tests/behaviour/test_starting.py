"""Starting: a start is recorded before the call, which is made when it is due."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    CatchUp,
    ExecuteOnceTrigger,
    HandlerRegistry,
    State,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.events import (
    InstanceClaimed,
    InstanceDropped,
    InstanceLapsed,
    InstanceLocked,
    InstanceStarted,
    InstanceUnrecorded,
    Write,
)
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import check
from tests.behaviour.house import (
    HOUR,
    LEASE,
    MICROSECOND,
    Later,
    ThreadedWorld,
    World,
    at,
    once,
    seconds,
    several,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler import TaskInstance


@pytest.mark.parametrize("due", [0, 0.000001, 0.013, 1.234567, 7.999999])
def test_a_handler_is_called_when_it_is_due_and_no_microsecond_before(
    world: World, due: float
) -> None:
    world.node(world.note).schedule(once(due))
    if due:
        world.clock.advance(seconds(due) - MICROSECOND)
        assert world.called == []
        world.clock.advance(MICROSECOND)
    else:
        world.advance(0)
    assert world.times == [due]


def test_its_start_is_recorded_before_it_is_called(world: World) -> None:
    seen: list[tuple[State, int, object]] = []

    def handler(instance: TaskInstance) -> None:
        stored = world.only()
        seen.append((stored.state, stored.runs, stored.started_at))
        assert instance.started_at == at(2)

    world.node(handler).schedule(once(2))
    world.advance(5)
    assert seen == [(State.RUNNING, 1, at(2))]
    [started] = world.heard.of(InstanceStarted)
    assert (started.started_at, started.late) == (at(2), seconds(0))
    assert (started.fire_time, started.execute_at) == (at(2), at(2))


def test_its_start_is_recorded_no_sooner_than_it_has_to_be(world: World) -> None:
    world.node(world.note).schedule(once(5))
    world.advance(4.8)
    assert world.only().state is State.CLAIMED
    world.advance(0.19)
    assert world.only().state is State.RUNNING
    assert world.called == []


@pytest.mark.parametrize("done", [False, True])
def test_while_no_start_is_known_to_be_recorded_nothing_is_called(
    world: World, done: bool
) -> None:
    world.node(world.note).schedule(once(2))
    world.advance(1.5)
    if done:
        world.faults.losing.add("start_instances")
    else:
        world.faults.failing["start_instances"] = StoreUnavailableError("away")
    world.advance(3)
    assert world.called == []
    assert world.only().runs == done
    world.faults.losing.clear()
    world.faults.failing.clear()
    world.advance(2)
    assert len(world.called) == 1
    assert (world.only().state, world.only().runs) == (State.COMPLETED, 1)


def test_a_start_that_cannot_be_recorded_costs_only_itself(world: World) -> None:
    world.node(world.note).schedule_all(several(9, 2))
    world.advance(1.5)
    bad = world.store.select()[4].id
    world.faults.bad.add(bad)
    world.advance(3)
    assert world.times == [2] * 8
    assert bad not in [each.instance.id for each in world.called]
    [told] = world.heard.of(InstanceUnrecorded)
    check(told, instance_id=bad, write=Write.START, retry_in=seconds(0.1))
    assert "a bad row" in told.error
    assert isinstance(told.exception, StoreError)
    world.faults.bad.clear()
    world.advance(1)
    assert len(world.called) == 9
    assert {each.runs for each in world.store.select()} == {1}


def test_a_locked_start_delays_no_other_and_is_tried_again_soon(world: World) -> None:
    node = world.node(world.note)
    node.schedule_all(several(9, 2))
    world.advance(1.5)
    locked = world.store.select()[4].id
    world.faults.locked.add(locked)
    world.advance(0.9)
    assert world.times == [2] * 8
    assert world.heard.of(InstanceLocked) == []
    world.advance(2)
    [told] = world.heard.of(InstanceLocked)
    assert (told.instance_id, told.write) == (locked, Write.START)
    node.schedule(once(5))
    world.advance(0.7)
    assert world.times == [2] * 8 + [5]
    world.faults.locked.clear()
    world.advance(1)
    assert len(world.called) == 10
    assert {each.runs for each in world.store.select()} == {1}


def test_what_was_locked_and_is_lost_by_then_is_let_go(world: World) -> None:
    node = world.node(world.note)
    node.schedule(once(2))
    world.advance(1.5)
    world.faults.locked.add(world.only().id)
    world.advance(1)
    node.cancel(world.only().id)
    world.faults.locked.clear()
    world.advance(2)
    assert world.called == []
    assert (node.health().waiting, node.health().busy) == (0, 0)


def test_the_run_gets_its_definition_as_it_is_when_it_starts(world: World) -> None:
    node = world.node(world.note)
    stored = node.schedule(once(2, metadata={"to": "a"}))
    world.advance(1.5)
    assert world.only().state is State.CLAIMED
    node.schedule(replace(stored, metadata={"to": "b"}))
    world.advance(1)
    assert [each.instance.metadata["to"] for each in world.called] == ["b"]


def test_what_is_moved_before_its_start_is_called_when_it_is_due_then(
    world: World,
) -> None:
    node = world.node(world.note)
    stored = node.schedule(once(2))
    world.advance(1.5)
    assert world.only().state is State.CLAIMED
    node.schedule(replace(once(20), id=stored.id))
    world.advance(10)
    assert (node.health().waiting, node.health().busy) == (0, 0)
    world.advance(20)
    assert world.times == [20]


def test_what_has_no_handler_here_any_more_when_it_starts_is_given_back(
    world: World,
) -> None:
    handlers = HandlerRegistry()
    handlers.register("known")(world.note)
    node = world.node(handlers)
    stored = node.schedule(once(2, name="known"))
    world.advance(1.5)
    node.schedule(replace(stored, name="unknown"))
    world.advance(0.6)
    assert world.called == []
    assert (world.only().state, world.only().runs) == (State.PENDING, 0)
    assert (node.health().waiting, node.health().busy) == (0, 0)


def test_what_is_more_urgent_is_called_first_though_it_came_last(world: World) -> None:
    node = world.node(world.note)
    for priority in (3, 2):
        node.schedule(once(2, priority=priority))
    world.advance(1.5)
    assert world.states() == {State.CLAIMED: 2}
    for priority in (1, 0):
        node.schedule(once(2, priority=priority))
        world.advance(0.1)
    assert world.states() == {State.CLAIMED: 4}
    world.advance(1)
    urgent = [each.instance.definition.priority for each in world.called]
    assert urgent == [0, 1, 2, 3]
    assert world.times == [2] * 4


def test_a_crowd_that_is_due_at_one_instant_is_called_then(world: World) -> None:
    world.node(world.note).schedule_all(several(700, 5))
    world.advance(4.999)
    assert world.called == []
    world.advance(0.001)
    assert len(world.called) == 700
    assert set(world.times) == {5}


def test_what_comes_too_late_to_a_worker_is_dropped(world: World) -> None:
    policy = CatchUp(drop_after=seconds(3))
    late = several(2, 1, catch_up=policy)
    world.begin(*late, max_workers=1, runner_window=seconds(10))
    world.advance(1)
    assert len(world.bench.calls) == 1
    world.advance(3)
    world.bench.end_all()
    world.advance(1)
    assert len(world.bench.calls) == 1
    assert world.states() == {State.COMPLETED: 1, State.SKIPPED: 1}
    [dropped] = world.heard.of(InstanceDropped)
    assert "drop_after" in dropped.reason
    assert dropped.execute_at == at(1)
    [skipped] = world.store.select(Filter(states=[State.SKIPPED]))
    assert skipped.runs == 0


@pytest.mark.parametrize(
    ("lease", "margin"), [(LEASE, seconds(2)), (seconds(4), seconds(1))]
)
def test_what_has_too_little_left_of_its_claim_is_given_back_uncalled(
    world: World, lease: timedelta, margin: timedelta
) -> None:
    for left, called in ((margin, 0), (margin + seconds(0.1), 1)):
        world.called.clear()
        later = Later()
        started = world.clock.elapsed()
        name = f"node {left}"
        node = world.node(world.note, name, executor=later, lease=lease)
        node.schedule(once(started.total_seconds()))
        world.advance(0)
        assert len(later.waiting) == 1
        # As SIGSTOP does: nothing renews the claim, and then the handler is called.
        world.clock.freeze(name)
        world.clock.advance(lease - left)
        later.run()
        assert len(world.called) == called
        world.clock.thaw(name)
        world.advance(1)
        assert len(world.heard.of(InstanceLapsed)) == 1
        while later.waiting:
            later.run()
        node.stop()
        assert len(world.called) == 1
        assert world.called[0].instance.attempt == 2 - called
    assert {each.runs for each in world.store.select()} == {1}


def test_a_short_run_may_begin_with_little_left_of_its_claim(world: World) -> None:
    later = Later()
    world.node(world.note, "node", executor=later).schedule(
        once(expire_after=seconds(2))
    )
    world.advance(0)
    world.clock.freeze("node")
    world.advance(1.4)
    later.run()
    assert len(world.called) == 1


@pytest.mark.parametrize("wait", [0, 5])
def test_what_was_given_back_is_not_called_as_well(world: World, wait: float) -> None:
    later = Later()
    node = world.node(world.note, executor=later)
    node.schedule(once(catch_up=CatchUp(drop_after=seconds(3))))
    world.advance(0)
    node.stop()
    world.advance(wait)
    later.run()
    assert world.called == []
    assert (world.only().state, world.only().runs) == (State.PENDING, 0)
    assert world.heard.of(InstanceDropped) == []


def test_a_claim_that_takes_long_keeps_no_start_waiting(
    threaded: ThreadedWorld,
) -> None:
    called, answered = threading.Event(), threading.Event()
    node = threaded.node(lambda _: called.set(), runner_window=seconds(2))
    soon = ExecuteOnceTrigger(threaded.clock.now() + seconds(1))
    node.schedule(TaskDefinition(trigger=soon))
    threaded.heard.wait(InstanceClaimed)

    def wait_for_the_call() -> None:
        assert called.wait(FAILED_AFTER)
        answered.set()

    threaded.faults.meanwhile["claim_instances"] = wait_for_the_call
    assert answered.wait(FAILED_AFTER)


def test_a_row_that_fails_forever_is_tried_again_at_most_each_second(
    world: World,
) -> None:
    node = world.node(world.note)
    node.schedule(once(2, expire_after=HOUR))
    world.advance(1.5)
    world.faults.bad.add(world.only().id)
    world.advance(10)
    world.faults.asked.clear()
    world.advance(10)
    assert 9 <= world.faults.asked.count("start_instances") <= 11
    world.faults.bad.clear()
    world.faults.failing["claim_instances"] = StoreError("none")
    world.advance(1)
    assert len(world.called) == 1
