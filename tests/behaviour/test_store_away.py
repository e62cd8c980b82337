"""The store is away, slow or odd: loops go on, and work goes on when it is back."""

from __future__ import annotations

import pytest

from go_scheduler import State, StoreUnavailableError
from go_scheduler.events import (
    DefinitionSetAside,
    InstanceUnrecorded,
    LoopFailed,
    LoopRecovered,
    StoreAway,
    StoreBack,
)
from go_scheduler.testing.builders import counts_by_state
from tests.behaviour.house import (
    HOUR,
    ThreadedWorld,
    World,
    every,
    once,
    seconds,
    several,
)

AWAY, ODD = StoreUnavailableError("away"), ZeroDivisionError("odd")
EXIT = SystemExit("odd")


def test_after_an_outage_work_goes_on_soon_and_nothing_runs_twice(
    world: World,
) -> None:
    node = world.node(world.note)
    node.schedule(every(1))
    world.advance(10.5)
    world.faults.away = True
    world.advance(60)
    health = node.health()
    assert (health.ok, health.store_reachable) == (False, False)
    assert len(world.called) <= 11
    world.faults.away = False
    world.advance(8)
    assert node.health().ok
    fired = [each.instance.fire_time for each in world.called]
    assert len({*fired}) == len(fired)
    # Those of the last ten seconds are caught up, and the rest is recorded.
    assert len(fired) >= 22
    world.advance(10)
    assert world.times[-1] == 88
    skipped = [each for each in world.store.select(limit=1000) if each.skipped]
    covered = sum(each.skipped.count for each in skipped if each.skipped)
    assert covered + len(world.called) == 88


def test_an_outage_is_told_once_with_its_end(world: World) -> None:
    node = world.node(world.note)
    world.advance(5)
    world.faults.away = True
    world.advance(60)
    world.faults.away = False
    world.advance(10)
    assert node.health().ok
    [away], [back] = world.heard.of(StoreAway), world.heard.of(StoreBack)
    assert "away" in away.error
    assert seconds(55) < back.away < seconds(70)
    failed = {each.loop for each in world.heard.of(LoopFailed)}
    assert {"definition scheduler", "instance runner", "recovery"} <= failed
    recovered = {each.loop for each in world.heard.of(LoopRecovered)}
    assert failed == recovered


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("due_definitions", AWAY),
        ("due_definitions", EXIT),
        ("fire_definitions", ODD),
        ("claim_instances", EXIT),
        ("start_instances", ODD),
        ("start_instances", EXIT),
        ("finish_instances", ODD),
        ("finish_instances", EXIT),
        ("note_contact", ODD),
        ("delete_finished", EXIT),
        ("review_parked", ODD),
    ],
)
def test_whatever_one_method_raises_the_loops_go_on(
    world: World, method: str, error: BaseException
) -> None:
    node = world.node(world.note, lease=seconds(60))
    node.schedule(every(2))
    world.advance(5)
    world.faults.failing[method] = error
    world.advance(20)
    del world.faults.failing[method]
    world.advance(30)
    assert node.health().ok
    fired = [each.instance.fire_time for each in world.called]
    assert len(fired) == len({*fired})
    ended = counts_by_state(world.store)
    assert ended[State.COMPLETED] == len(fired)
    assert world.times[-1] == 54
    assert ended[State.FAILED] == 0


def test_a_loop_that_fails_again_and_again_backs_off(world: World) -> None:
    world.node(world.note)
    world.advance(5)
    world.faults.failing = {"due_definitions": AWAY, "claim_instances": AWAY}
    world.advance(30)
    world.faults.asked.clear()
    world.advance(60)
    # Up to five seconds apart, and claims up to one.
    assert 12 <= world.faults.asked.count("due_definitions") <= 26
    assert 60 <= world.faults.asked.count("claim_instances") <= 125


def test_what_is_scheduled_here_wakes_no_loop_that_backs_off(world: World) -> None:
    node = world.node(world.note)
    world.advance(5)
    world.faults.failing["due_definitions"] = AWAY
    world.advance(30)
    world.faults.asked.clear()
    for _ in range(200):
        node.schedule(once(100))
    world.advance(0)
    assert world.faults.asked.count("due_definitions") <= 1


def test_a_store_that_is_away_sets_nothing_aside(world: World) -> None:
    world.node(world.note).schedule_all(several(5, 5))
    calls = ("fire_definitions", "fire_definitions and start")
    world.faults.failing = dict.fromkeys(calls, AWAY)
    world.advance(10)
    world.faults.failing.clear()
    world.advance(6)
    assert len(world.called) == 5
    assert world.heard.of(DefinitionSetAside) == []
    assert world.heard.of(InstanceUnrecorded) == []


def test_a_node_may_start_while_the_store_is_away(world: World) -> None:
    world.scheduler(None).schedule(once(5))
    world.faults.away = True
    node = world.node(world.note)
    world.advance(30)
    assert not node.health().ok
    world.faults.away = False
    world.advance(10)
    assert len(world.called) == 1
    assert node.health().ok


def test_what_is_due_when_the_store_comes_back_is_called_within_seconds(
    world: World,
) -> None:
    world.node(world.note).schedule(once(30))
    world.advance(28.9)
    world.faults.away = True
    world.advance(10)
    world.faults.away = False
    world.advance(6)
    [called] = world.times
    assert called <= 38.9 + 5.1


def test_a_loop_that_hangs_in_the_store_is_not_well(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: None, cleanup_window=seconds(0.2), lease=HOUR)
    threaded.faults.meanwhile["delete_finished"] = threaded.hang
    threaded.wait_for_hanging()
    threaded.clock.leap(seconds(11))
    health = node.health()
    assert not health.loops["cleanup"].ok
    assert not health.ok
    threaded.gate.set()
