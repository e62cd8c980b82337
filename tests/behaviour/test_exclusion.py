"""Overlap and locks: what waits for what, and how soon it goes on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    HandedOn,
    IntervalTrigger,
    OnDemandTrigger,
    Outcome,
    Overlap,
    State,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.events import (
    InstanceParked,
    InstanceReplaced,
    InstanceSkipped,
    InstanceUnparked,
)
from go_scheduler.testing.builders import counts_by_state
from tests.behaviour.house import LEASE, SECOND, World, at, once, seconds, several

if TYPE_CHECKING:
    from go_scheduler import Scheduler

OVERLAP = (Path(__file__).parents[2] / "docs/overlap.md").read_text()
KINDS = (InstanceParked, InstanceUnparked, InstanceSkipped, InstanceReplaced)


def series(interval: float, overlap: Overlap, **options: Any) -> TaskDefinition:
    """Fires at one second after the start, and so often from then on."""
    trigger = IntervalTrigger(seconds(interval), anchor=at(1))
    return TaskDefinition(
        trigger=trigger, overlap=overlap, next_fire_time=at(1), **options
    )


def begun(world: World, definition: TaskDefinition, **settings: Any) -> Scheduler:
    """A node, a second after the start, when a definition has fired first."""
    world.store.put_definitions([definition])
    node = world.node(world.bench.handler, **settings)
    world.advance(1)
    assert len(world.bench.calls) == 1
    return node


def calls(world: World) -> list[tuple[float, float]]:
    """The fire time of each call, and when it was made, in seconds after the first."""
    return [
        (
            round((each.instance.execute_at - at(1)).total_seconds(), 2),
            round((each.at - at(1)).total_seconds(), 2),
        )
        for each in world.bench.calls
    ]


def told(world: World) -> list[str]:
    return [
        type(each).__name__.removeprefix("Instance")
        for each in world.heard.events
        if isinstance(each, KINDS)
    ]


def test_allowed_runs_go_on_beside_each_other(world: World) -> None:
    begun(world, series(10, Overlap.ALLOW))
    world.advance(25)
    assert calls(world) == [(0, 0), (10, 10), (20, 20)]
    assert told(world) == []


def test_skip_leaves_out_what_is_due_meanwhile(world: World) -> None:
    begun(world, series(10, Overlap.SKIP))
    world.advance(25)
    assert calls(world) == [(0, 0)]
    assert counts_by_state(world.store)[State.SKIPPED] == 2
    world.bench.end_all()
    world.advance(10)
    assert calls(world) == [(0, 0), (30, 30)]
    assert told(world) == 2 * ["Parked", "Skipped"]
    first, _ = world.heard.of(InstanceSkipped)
    assert (first.late, first.first, first.count) == (False, at(11), 1)


def test_skip_runs_what_is_due_just_after_the_end(world: World) -> None:
    begun(world, series(10, Overlap.SKIP))
    world.advance(9.99)
    assert told(world) == ["Parked"]
    world.bench.end_all()
    world.advance(1)
    assert calls(world) == [(0, 0), (10, 10)]


def test_buffer_one_runs_one_more_as_soon_as_the_first_has_ended(world: World) -> None:
    begun(world, series(10, Overlap.BUFFER_ONE))
    world.advance(45)
    world.bench.end_all()
    world.advance(0.1)
    assert calls(world) == [(0, 0), (10, 45)]
    assert counts_by_state(world.store)[State.SKIPPED] == 3


def test_buffer_all_runs_each_in_its_turn_one_at_once_after_the_other(
    world: World,
) -> None:
    begun(world, series(10, Overlap.BUFFER_ALL))
    world.advance(35)
    for _ in range(3):
        world.bench.end_all()
        world.advance(0.1)
    # No tick of a second lies between them.
    assert calls(world) == [(0, 0), (10, 35), (20, 35.1), (30, 35.2)]
    assert counts_by_state(world.store)[State.SKIPPED] == 0


def test_replace_asks_to_stop_and_runs_when_that_has_ended(world: World) -> None:
    begun(world, series(30, Overlap.REPLACE))
    world.advance(29)
    assert not world.bench.calls[0].run.cancelled
    world.advance(9)
    # It learns of it with the next renewal.
    assert world.bench.calls[0].run.cancelled
    world.bench.calls[0].end(error=ValueError("stopped"))
    world.advance(0.1)
    assert calls(world) == [(0, 0), (30, 38)]
    first = world.store.get_instance(world.bench.calls[0].instance.id)
    assert first.outcome is Outcome.CANCELLED
    assert told(world) == ["Parked", "Replaced", "Unparked"]


def test_replace_waits_no_longer_than_expire_after(world: World) -> None:
    begun(world, series(60, Overlap.REPLACE, expire_after=seconds(90)))
    world.advance(89)
    assert len(world.bench.calls) == 1
    world.advance(3)
    assert [fired for fired, _ in calls(world)] == [0, 60]


def test_each_row_of_the_table_in_the_documentation_has_a_test_of_its_name() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| .+ \|$", OVERLAP, re.MULTILINE)
    assert rows == [each.name for each in Overlap]
    for row in rows:
        assert any(each.startswith(f"test_{row.lower()}") for each in globals()), row


def test_of_all_that_share_a_lock_one_runs_at_a_time_in_their_order(
    world: World,
) -> None:
    node = world.node(world.bench.handler)
    node.schedule_all(once(n, name=str(n), lock="printer") for n in range(5))
    node.schedule_all(once(1, name="free", lock=lock) for lock in ("other", None))
    world.advance(10)
    names = [each.instance.definition.name for each in world.bench.calls]
    assert names == ["0", "free", "free"]
    for number in range(1, 5):
        world.bench.end_all()
        world.advance(0.1)
        assert world.bench.calls[-1].instance.definition.name == str(number)
    assert {each.runs for each in world.store.select()} == {1}


@pytest.mark.parametrize("how", ["deleted", "completed elsewhere", "died"])
def test_a_lock_that_is_let_go_of_elsewhere_is_noticed(world: World, how: str) -> None:
    first = once(40, lock="a")
    world.begin(first, once(41, lock="a"), name="one")
    world.advance(44)
    assert len(world.bench.calls) == 1
    if how == "deleted":
        world.store.delete_definitions([first.id])
        world.advance(1.1)
    elif how == "completed elsewhere":
        called = world.bench.calls[0]
        world.scheduler(None).complete(called.instance.id, 1)
        world.advance(1.1)
    else:
        world.node(world.bench.handler, "two")
        world.clock.freeze("one")
        world.clock.advance(LEASE + 10 * SECOND)
        # It runs again itself, and keeps its lock until then.
        assert world.bench.calls[1].instance.attempt == 2
        world.bench.calls[1].end()
        world.advance(0.1)
    assert world.bench.calls[-1].instance.execute_at == at(41)


def test_what_is_handed_on_keeps_its_lock_until_it_is_ended(world: World) -> None:
    world.begin(once(1, lock="a"), once(2, lock="a"))
    world.advance(2)
    world.bench.calls[0].end(HandedOn())
    world.advance(5)
    assert len(world.bench.calls) == 1
    world.scheduler(None).complete(world.bench.calls[0].instance.id, 1)
    world.advance(1.1)
    assert len(world.bench.calls) == 2


def test_a_lock_is_let_go_of_when_the_end_is_recorded_and_not_before(
    world: World,
) -> None:
    world.begin(*several(2, lock="a"))
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    world.bench.end_all()
    world.advance(5)
    assert len(world.bench.calls) == 1
    world.faults.failing.clear()
    world.advance(6)
    assert len(world.bench.calls) == 2


def test_many_that_share_a_lock_delay_none_of_the_others(world: World) -> None:
    client = world.scheduler(None)
    locked = client.schedule(
        TaskDefinition(trigger=OnDemandTrigger(), name="locked", lock="a")
    )
    for _ in range(1500):
        client.run_now(locked.id)
    client.schedule_all(several(20, 5, name="free"))
    world.node(world.bench.handler, max_workers=40)
    world.advance(6)
    called = Counter(
        (each.instance.definition.name, each.at) for each in world.bench.calls
    )
    assert called == {("locked", at(0)): 1, ("free", at(5)): 20}


def test_where_nothing_waits_nobody_looks_each_second(world: World) -> None:
    node = world.node(world.note)
    node.schedule(once(1, lock="a"))
    world.advance(5)
    world.faults.asked.clear()
    world.advance(60)
    assert world.faults.asked.count("review_parked") <= 4


def test_while_something_waits_each_second_is_enough(world: World) -> None:
    world.begin(*several(2, lock="a"))
    world.advance(4)
    world.faults.asked.clear()
    world.advance(60)
    assert 55 <= world.faults.asked.count("review_parked") <= 65
