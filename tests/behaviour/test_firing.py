"""Firing: definitions become instances, each fire time once, whatever others do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler import ExecuteOnceTrigger, Scheduler, State, TaskDefinition, Trigger
from go_scheduler.events import DefinitionLocked, DefinitionSetAside, InstanceCreated
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers import UnknownTrigger
from tests.behaviour.house import (
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    SELDOM,
    Heard,
    LeapingClock,
    ThreadedWorld,
    World,
    at,
    every,
    once,
    seconds,
    several,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import TaskInstance

AHEAD = 3
"""So many seconds before its fire time an instance is made, by default."""


@dataclass(frozen=True)
class Flaky(Trigger):
    """A user's trigger: fires each hour if it is well, and raises if not."""

    kind: ClassVar[str] = "tests.behaviour.flaky"
    error: ClassVar[BaseException] = ZeroDivisionError("by zero")

    asked: list[datetime] = field(default_factory=list, compare=False, repr=False)
    well: list[bool] = field(default_factory=list, compare=False, repr=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
        if not self.well:
            raise Flaky.error
        return after + HOUR


def put(world: World, trigger: Trigger, fires: float = 0) -> TaskDefinition:
    """Store a definition as it may have been stored by somebody else."""
    new = TaskDefinition(trigger=trigger, next_fire_time=at(fires))
    [stored] = world.store.put_definitions([new]).definitions
    return stored


def fire_times(world: World, definition: TaskDefinition) -> list[datetime | None]:
    found = world.store.select(Filter(definition_id=definition.id), limit=5000)
    return [each.fire_time for each in found if each.skipped is None]


def test_an_instance_is_made_shortly_before_its_fire_time(world: World) -> None:
    node = world.node(None)
    stored = node.schedule(once(30))
    world.clock.advance(seconds(30 - AHEAD) - SECOND - MICROSECOND)
    assert world.store.select() == []
    world.clock.advance(SECOND + MICROSECOND)
    [instance] = world.store.select()
    assert (instance.fire_time, instance.due_at) == (at(30), at(30))
    assert instance.definition.id == stored.id
    [created] = world.heard.of(InstanceCreated)
    assert (created.definition_id, created.fire_time) == (stored.id, at(30))


def test_what_is_edited_between_look_and_firing_fires_as_it_is_now(
    world: World,
) -> None:
    node = world.node(world.note)
    stored = node.schedule(once(30))

    def edit() -> None:
        node.schedule(replace(once(60), id=stored.id))

    world.advance(26.5)
    world.faults.meanwhile["due_definitions"] = edit
    world.advance(100)
    assert "due_definitions" not in world.faults.meanwhile
    assert world.times == [60]
    skipped = [each for each in world.store.select() if each.skipped]
    assert [each.state for each in skipped] in ([], [State.SKIPPED])


def test_several_nodes_make_each_instance_once(world: World) -> None:
    for number in range(4):
        world.node(None, f"node {number}")
    definitions = world.scheduler(None).schedule_all(every(1) for _ in range(5))
    world.advance(30)
    created = Counter(
        (each.definition_id, each.fire_time) for each in world.heard.of(InstanceCreated)
    )
    times = [at(n) for n in range(1, 34)]
    assert created == {(each.id, time): 1 for each in definitions for time in times}
    for each in definitions:
        assert fire_times(world, each) == times


def test_a_jitter_lets_each_run_later_the_same_on_each_node(world: World) -> None:
    one = world.node(world.note, "one")
    # The jitter follows from the id.
    some = every(1, jitter=seconds(5), id=UUID(int=7))
    one.schedule(some)
    world.advance(100)
    late = [
        each.at - each.instance.fire_time
        for each in world.called
        if each.instance.fire_time is not None
    ]
    # Spread over all of it, and no two alike.
    assert seconds(0) <= min(late) < seconds(0.5)
    assert seconds(4.5) < max(late) <= seconds(5)
    assert len({*late}) > len(late) * 0.9
    assert {each.instance.execute_at for each in world.called} == {
        each.at for each in world.called
    }
    # Another node, that begins anew with the same definition, finds the same times.
    again = World()
    again.node(again.note).schedule(some)
    again.advance(100)
    assert sorted(again.times) == sorted(world.times)


def test_more_than_a_page_of_them_fire_in_time(world: World) -> None:
    world.scheduler(None).schedule_all(several(2600, 20))
    world.node(None)
    world.advance(18)
    assert world.states() == {State.PENDING: 2600}


def test_what_fires_a_thousand_times_a_second_keeps_nobody_from_their_turn(
    world: World,
) -> None:
    node = world.node(None)
    fast = node.schedule(every(0.002))
    others = [node.schedule(once(n)) for n in range(1, 6)]
    world.advance(2)
    for number, each in enumerate(others, 1):
        assert fire_times(world, each) == [at(number)]
    times = fire_times(world, fast)
    assert times == [at(0) + n * 2 * MILLISECOND for n in range(1, len(times) + 1)]
    assert len(times) >= 2000


def test_on_a_slow_store_instances_are_made_further_ahead(world: World) -> None:
    node = world.node(world.note)
    world.faults.slow = {"due_definitions": seconds(0.9)}
    due_times = range(10, 60, 5)
    node.schedule_all(map(once, due_times))
    world.advance(70)
    late = [called - due for called, due in zip(world.times, due_times, strict=True)]
    assert max(late[3:]) <= 0.9


def test_a_trigger_that_fails_is_told_of_once_and_tried_each_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = Flaky()
    broken = put(world, trigger)
    healthy = put(world, ExecuteOnceTrigger(at(0)))
    node = world.node(world.note)
    world.advance(1)
    assert [each.instance.definition.id for each in world.called] == [healthy.id]
    [told] = world.heard.of(DefinitionSetAside)
    assert (told.definition_id, told.retry_in) == (broken.id, MINUTE)
    assert told.error == "ZeroDivisionError('by zero')"
    [line] = [text for text in caplog.messages if str(broken.id) in text]
    assert "cannot fire and is left alone for 60 s" in line
    asked = len(trigger.asked)
    world.advance(58)
    assert len(trigger.asked) == asked
    world.advance(3)
    assert len(trigger.asked) == asked + 1
    world.advance(60)
    assert len(trigger.asked) == asked + 2
    assert len(world.heard.of(DefinitionSetAside)) == 1
    assert node.health().ok
    assert node.get_definition(broken.id).next_fire_time == at(0)
    # Once it is well it fires, and what was missed is caught up.
    trigger.well.append(True)
    world.advance(61)
    assert len(world.called) == 2


def test_a_trigger_that_fails_anew_is_told_of_anew(world: World) -> None:
    trigger = Flaky(well=[True])
    put(world, trigger)
    world.node(world.note, **SELDOM)
    world.advance(1)
    assert world.heard.of(DefinitionSetAside) == []
    for number in (1, 2):
        trigger.well.clear()
        world.advance(3600)
        assert len(world.heard.of(DefinitionSetAside)) == number
        trigger.well.append(True)
        world.advance(600)
        assert len(world.called) == number + 1


def test_a_broken_definition_that_is_mended_is_tried_at_once(world: World) -> None:
    broken = put(world, Flaky())
    node = world.node(world.note)
    world.advance(5)
    node.schedule(replace(once(6), id=broken.id))
    world.advance(2)
    assert world.times == [6]


def test_a_trigger_that_ends_its_thread_costs_its_definition_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flaky, "error", SystemExit(3))
    put(world, Flaky())
    world.node(world.note).schedule(every(1))
    world.advance(5)
    assert world.times == [1, 2, 3, 4, 5]
    assert "SystemExit(3)" in world.heard.of(DefinitionSetAside)[0].error


@dataclass(frozen=True)
class Says(Trigger):
    """Answers whatever it was told to."""

    kind: ClassVar[str] = "tests.behaviour.says"

    answer: object = None

    def next_fire_time(self, after: datetime) -> datetime | None:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [at(0), at(-1), at(9).replace(tzinfo=None), "soon"])
def test_a_trigger_that_answers_no_later_time_is_left_alone(
    world: World, answer: object
) -> None:
    put(world, Says(answer))
    world.node(world.note)
    world.advance(1)
    [told] = world.heard.of(DefinitionSetAside)
    assert "InvalidTriggerError" in told.error
    assert world.store.select() == []


def test_an_unknown_trigger_is_left_for_a_node_that_knows_it(world: World) -> None:
    unknown = put(world, UnknownTrigger("gone", {"a": 1}, "gone is not installed"))
    world.node(world.note).schedule(once(1))
    world.advance(130)
    assert world.times == [1]
    [told] = world.heard.of(DefinitionSetAside)
    assert told.definition_id == unknown.id
    assert "gone is not installed" in told.error
    stored = world.store.get_definition(unknown.id)
    assert (stored.next_fire_time, stored.revision) == (at(0), unknown.revision)


def test_many_broken_definitions_hold_up_no_healthy_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.store.put_definitions(
        [TaskDefinition(trigger=Flaky(), next_fire_time=at(-3600)) for _ in range(600)]
    )
    world.node(world.note).schedule_all([once(1), once(2)])
    world.advance(3)
    assert world.times == [1, 2]
    assert len(world.heard.of(DefinitionSetAside)) == 600
    lines = [text for text in caplog.messages if "is left alone" in text]
    assert 1 <= len(lines) <= 30


def test_a_definition_that_cannot_be_written_costs_only_itself(world: World) -> None:
    bad = world.scheduler(None).schedule_all(several(60, 2))[37].id
    world.faults.bad.add(bad)
    world.faults.where = {"fire_definitions"}
    world.node(world.note, max_workers=100)
    world.advance(2)
    assert len(world.called) == 59
    assert set(world.times) == {2}
    [told] = world.heard.of(DefinitionSetAside)
    assert (told.definition_id, told.retry_in) == (bad, SECOND)
    assert "a bad row" in told.error
    world.advance(130)
    assert len(world.heard.of(DefinitionSetAside)) == 1
    world.faults.asked.clear()
    world.advance(120)
    # A minute apart by now.
    asked = Counter(world.faults.asked)
    assert asked["fire_definitions"] + asked["fire_definitions and start"] in (1, 2, 3)
    world.faults.bad.clear()
    world.advance(61)
    assert len(world.called) == 60


def test_a_locked_definition_delays_no_other_and_fires_soon(world: World) -> None:
    locked = world.scheduler(None).schedule_all(several(60, 5))[37].id
    world.faults.locked.add(locked)
    world.faults.where = {"fire_definitions"}
    world.node(world.note, max_workers=100)
    world.advance(2.5)
    assert world.heard.of(DefinitionLocked) == []
    world.advance(4)
    assert len(world.called) == 59
    [told] = world.heard.of(DefinitionLocked)
    assert told.definition_id == locked
    assert world.heard.of(DefinitionSetAside) == []
    world.faults.locked.clear()
    world.advance(1.1)
    assert len(world.called) == 60


def test_what_was_locked_and_then_fails_is_told_as_failing(world: World) -> None:
    stored = world.scheduler(None).schedule(once(1))
    world.faults.where = {"fire_definitions"}
    world.faults.locked.add(stored.id)
    world.node(world.note)
    world.advance(0.5)
    world.faults.bad.add(stored.id)
    world.advance(1)
    assert len(world.heard.of(DefinitionSetAside)) == 1
    world.faults.bad.clear()
    world.faults.locked.clear()
    world.advance(5)
    assert len(world.called) == 1


def test_what_was_locked_and_is_deleted_is_waited_for_no_more(world: World) -> None:
    node = world.node(world.note)
    stored = node.schedule(once(30))
    world.faults.where = {"fire_definitions"}
    world.faults.locked.add(stored.id)
    world.advance(28)
    node.delete_definition(stored.id)
    world.advance(2)
    world.faults.asked.clear()
    world.advance(10)
    assert "fire_definitions" not in world.faults.asked
    assert world.called == []


def test_nothing_is_written_while_nothing_fires(world: World) -> None:
    node = world.node(world.note)
    node.schedule(once(3600))
    world.advance(5)
    world.faults.asked.clear()
    world.advance(60)
    asked = Counter(world.faults.asked)
    assert asked["fire_definitions"] == asked["fire_definitions and start"] == 0
    # One look a second, each of one statement.
    assert 50 <= asked["due_definitions"] <= 70


@pytest.mark.parametrize(("window", "least", "most"), [(0.5, 110, 130), (10, 10, 14)])
def test_it_looks_as_often_as_the_window_says(
    world: World, window: float, least: int, most: int
) -> None:
    world.node(world.note, schedule_window=seconds(window))
    world.advance(60)
    assert least <= world.faults.asked.count("due_definitions") <= most


def test_what_is_due_is_judged_by_the_stores_time() -> None:
    store, heard = MemoryStore(), Heard()
    ahead = LeapingClock(ahead=1000 * HOUR)
    with Scheduler(None, store, clock=ahead, listeners=[heard]) as scheduler:
        later, now = (
            TaskDefinition(trigger=ExecuteOnceTrigger(at))
            for at in (store.now() + HOUR, store.now())
        )
        scheduler.schedule_all([later, now])
        [created] = heard.wait(InstanceCreated)
        assert created.definition_id == now.id


@dataclass(frozen=True)
class Hanging(Trigger):
    """A user's trigger that hangs when it is told to."""

    kind: ClassVar[str] = "tests.behaviour.hanging"
    world: ClassVar[list[ThreadedWorld]] = []

    number: int = 0
    well: bool = False

    def next_fire_time(self, after: datetime) -> datetime | None:
        if Hanging.world and not self.well:
            Hanging.world[0].hang()
        return after + HOUR


@pytest.fixture
def hanging(threaded: ThreadedWorld) -> Iterator[ThreadedWorld]:
    Hanging.world.append(threaded)
    yield threaded
    threaded.gate.set()
    Hanging.world.clear()


def store_hanging(
    world: ThreadedWorld, count: int = 1, **fields: Any
) -> list[TaskDefinition]:
    """Store what is due; the triggers hang unless they are said to be well."""
    well = fields.pop("well", False)
    new = [
        TaskDefinition(
            trigger=Hanging(number, well=well),
            next_fire_time=world.clock.now(),
            **fields,
        )
        for number in range(count)
    ]
    return [*world.store.put_definitions(new).definitions]


def created(world: ThreadedWorld) -> list[UUID]:
    """Of which definitions instances have been made."""
    return [each.definition_id for each in world.heard.of(InstanceCreated)]


def test_a_trigger_that_hangs_costs_its_definition_alone(
    hanging: ThreadedWorld,
) -> None:
    called: list[TaskInstance] = []
    [broken] = store_hanging(hanging)
    store_hanging(hanging, well=True)
    node = hanging.node(called.append)
    hanging.wait_for_hanging()
    # It is left behind once it has had half a second for it.
    [told] = hanging.leap(SECOND, DefinitionSetAside)
    assert told.definition_id == broken.id
    assert "its trigger hangs: it did not answer within 0:00:00.500000" in told.error
    node.schedule(hanging.now())
    hanging.heard.wait(InstanceCreated, 2)
    assert broken.id not in created(hanging)
    health = node.health()
    assert (health.hanging_triggers, health.ok) == (1, False)
    # It is not called again while it has not answered.
    hanging.clock.leap(2 * MINUTE)
    node.schedule(hanging.now())
    hanging.heard.wait(InstanceCreated, 3)
    hanging.gate.set()
    for _ in range(20 * FAILED_AFTER):
        if broken.id in created(hanging):
            break
        hanging.clock.leap(MINUTE)
        hanging.heard.hears(InstanceCreated, 10_000, 0.05)
    assert broken.id in created(hanging)
    assert node.health().hanging_triggers == 0


def test_a_definition_that_is_edited_fires_while_its_old_trigger_hangs(
    hanging: ThreadedWorld,
) -> None:
    [broken] = store_hanging(hanging)
    node = hanging.node(lambda _: None)
    hanging.wait_for_hanging()
    hanging.leap(SECOND, DefinitionSetAside)
    store_hanging(hanging, id=broken.id, well=True)
    node.schedule(hanging.now(queue="default"))
    hanging.leap(SECOND, InstanceCreated, 2)


def test_four_triggers_may_hang_and_then_no_foreign_one_is_called(
    hanging: ThreadedWorld,
) -> None:
    store_hanging(hanging, 4)
    node = hanging.node(lambda _: None)
    for number in range(1, 5):
        hanging.wait_for_hanging()
        hanging.leap(SECOND, DefinitionSetAside, number)
    [well] = store_hanging(hanging, well=True)
    *_, told = hanging.leap(SECOND, DefinitionSetAside, 5)
    assert told.definition_id == well.id
    assert "as many as are allowed to do so already" in told.error
    # The package's own are, as ever.
    node.schedule(hanging.now())
    hanging.heard.wait(InstanceCreated)
    assert node.health().hanging_triggers == 4
