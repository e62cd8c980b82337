"""The starter: each start is recorded just before its time, whatever is locked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import State, TaskInstance
from go_scheduler.running.held import HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, LEASE, NODE, cancel, claim
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.running.house import LEAD, TICK, WINDOW, FaultyStore, House, pending, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def house(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock)


def test_what_is_due_within_the_window_is_held_until_shortly_before(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    instance = pending(store, after=seconds(0.4))
    beyond = pending(store, after=WINDOW + TICK)
    delay = house.tick()
    assert (state(store, instance), state(store, beyond)) == (
        State.CLAIMED,
        State.PENDING,
    )
    assert house.held.waiting == 1
    assert delay is not None
    assert (
        seconds(0.4) - LEAD - timedelta(milliseconds=1) <= delay < seconds(0.4) - LEAD
    )
    clock.advance(delay)
    house.tick()
    assert state(store, instance) is State.RUNNING
    assert store.get_instance(instance.id).started_at == START + seconds(0.4)
    assert not house.due
    left = house.timer.tick()
    assert left is not None
    clock.advance(left)
    house.timer.tick()
    assert len(house.due) == 1


def test_one_write_starts_all_that_is_due_about_then(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    for number in range(4):
        pending(store, after=seconds(0.4) + number * LEAD / 3)
    house.settle()
    clock.advance(seconds(0.4) - LEAD)
    house.tick()
    assert store.starts == [4]


def test_the_lead_is_twice_what_the_store_lately_took(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    store.slow = seconds(0.1)
    house.claim()
    instance = pending(store, after=seconds(0.8))
    house.claim()
    clock.advance(seconds(0.4))
    house.tick()
    assert state(store, instance) is State.CLAIMED
    clock.advance(seconds(0.1))
    house.tick()
    assert state(store, instance) is State.RUNNING


def test_what_was_changed_before_its_start_is_let_go(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    cancelled = pending(store, after=seconds(0.5))
    paused = pending(store, after=seconds(0.5))
    deleted = pending(store, after=seconds(0.5))
    kept = pending(store, after=seconds(0.5))
    house.settle()
    cancel(store, cancelled)
    store.pause_definitions([paused.definition.id])
    store.delete_definitions([deleted.definition.id])
    clock.advance(seconds(0.5))
    house.tick()
    assert [run.instance.id for run in house.due] == [kept.id]
    assert house.held.waiting == 0


def test_the_start_takes_the_definition_as_it_is_by_then(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    instance = pending(store, after=seconds(0.5))
    house.settle()
    store.put_definitions([replace(instance.definition, metadata={"new": True})])
    clock.advance(seconds(0.5))
    house.tick()
    assert house.due[0].instance.metadata == {"new": True}


def test_a_start_whose_answer_is_lost_is_recorded_again_and_called_once(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    instance = pending(store, after=seconds(0.5))
    house.settle()
    clock.advance(seconds(0.5))
    store.start_answer_lost = True
    with pytest.raises(StoreUnavailableError):
        house.tick()
    assert not house.due
    store.start_answer_lost = False
    house.tick()
    assert [run.instance.id for run in house.due] == [instance.id]
    assert store.get_instance(instance.id).runs == 1


def test_nothing_is_called_without_a_recorded_start(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    pending(store, after=seconds(0.5))
    house.settle()
    store.away = True
    clock.advance(seconds(0.5))
    for _ in range(5):
        with pytest.raises(StoreUnavailableError):
            house.tick()
        house.timer.tick()
        clock.advance(seconds(0.3))
    assert not house.due
    store.away = False
    house.tick()
    assert len(house.due) == 1


def hold(house: House, count: int) -> Sequence[TaskInstance]:
    """Let the house claim so many that are due in half a second."""
    made = [pending(house.store, after=seconds(0.5)) for _ in range(count)]
    house.settle()
    assert house.held.waiting == count
    return made


def called(house: House) -> set[object]:
    return {run.instance.id for run in house.due}


def test_a_crowd_that_comes_in_parts_is_started_as_early_as_one_that_comes_at_once(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    hold(house, 1)
    delay = house.starter.tick()
    assert delay is not None
    woken = house.wakes
    for _ in range(20):
        pending(store, after=seconds(0.5))
    house.settle()
    assert house.wakes > woken
    earlier = house.starter.tick()
    assert earlier is not None
    assert earlier < delay


def test_with_nothing_to_start_it_waits_to_be_woken(house: House) -> None:
    assert house.starter.tick() is None
    hold(house, 2)
    assert house.wakes == 1
    delay = house.starter.tick()
    assert delay is not None
    assert ZERO < delay < seconds(0.5)


def test_a_start_that_cannot_be_recorded_costs_only_itself_and_is_tried_again(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    instances = hold(house, 5)
    bad = instances[2]
    store.bad = {bad.id}
    clock.advance(seconds(0.5))
    house.starter.tick()
    assert called(house) == {each.id for each in instances if each is not bad}
    for length in (0.1, 0.2, 0.4, 0.8, 1, 1, 1):
        assert house.starter.tick() == seconds(length)
        clock.advance(seconds(length))
    assert len(caplog.records) == 1
    assert f"instance {bad.id}: its start cannot be recorded" in caplog.text
    store.bad.clear()
    house.starter.tick()
    assert called(house) == {each.id for each in instances}
    assert house.starter.tick() is None


def test_a_locked_start_is_left_aside_and_delays_no_other(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, *others = hold(house, 5)
    store.locked = {first.id}
    clock.advance(seconds(0.5))
    house.starter.tick()
    assert store.starts == [5]
    assert called(house) == {each.id for each in others}
    for length in (0.1, 0.2, 0.4, 0.8, 1, 1, 1):
        assert house.starter.tick() == seconds(length)
        clock.advance(seconds(length))
    assert [each.getMessage() for each in caplog.records] == [
        f"instance {first.id}: another transaction has locked it, its start has to wait"
    ]
    store.locked.clear()
    house.starter.tick()
    assert first.id in called(house)
    assert store.get_instance(first.id).runs == 1


def test_what_was_locked_is_tried_apart_from_what_is_due_by_then(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    locked = hold(house, 3)
    store.locked = {each.id for each in locked}
    clock.advance(seconds(0.5))
    house.starter.tick()
    pending(store, after=seconds(0.09))
    house.runner.look()
    house.runner.tick()
    clock.advance(seconds(0.1))
    store.starts.clear()
    house.starter.tick()
    assert store.starts == [1, 3]


def test_of_what_failed_alone_a_few_are_tried_in_one_tick(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("go_scheduler.running.starter._MOST_ALONE", 2)
    instances = hold(house, 3)
    store.bad = {each.id for each in instances}
    clock.advance(seconds(0.5))
    house.starter.tick()
    store.bad.clear()
    store.starts.clear()
    clock.advance(seconds(0.1))
    assert house.starter.tick() == ZERO
    assert store.starts == [1, 1]
    assert house.starter.tick() is None
    assert len(house.due) == 3


def test_what_was_locked_and_then_fails_is_reported_as_failing(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    [instance] = hold(house, 1)
    store.locked = {instance.id}
    clock.advance(seconds(0.5))
    house.starter.tick()
    store.bad = {instance.id}
    clock.advance(seconds(0.1))
    house.starter.tick()
    assert "cannot be recorded" in caplog.text


def test_what_was_left_aside_and_is_lost_by_then_is_let_go(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    [instance] = hold(house, 1)
    store.locked = {instance.id}
    clock.advance(seconds(0.5))
    house.starter.tick()
    store.locked.clear()
    cancel(store, instance)
    clock.advance(seconds(0.1))
    assert house.starter.tick() is None
    assert house.held.waiting == 0
    assert not house.due


def test_what_is_left_aside_stays_so_while_the_store_is_away(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    [instance] = hold(house, 1)
    store.locked = {instance.id}
    clock.advance(seconds(0.5))
    house.starter.tick()
    store.locked.clear()
    store.away = True
    clock.advance(seconds(0.1))
    with pytest.raises(StoreUnavailableError):
        house.starter.tick()
    store.away = False
    assert house.starter.tick() is None
    assert called(house) == {instance.id}


def test_a_failure_breaks_the_contact(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    hold(house, 1)
    clock.advance(seconds(0.5))
    assert house.contact.unbroken > ZERO
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.starter.tick()
    clock.advance(LEASE / 2)
    assert house.contact.unbroken == ZERO


def test_a_claim_under_way_keeps_no_start_waiting(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    [instance] = hold(house, 1)

    def meanwhile() -> None:
        house.starter.tick()
        assert state(store, instance) is State.RUNNING

    clock.advance(seconds(0.5))
    store.meanwhile = meanwhile
    house.runner.look()
    house.runner.tick()
    assert called(house) == {instance.id}


def test_of_two_runs_of_one_instance_the_one_with_the_claim_is_called(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    hold(house, 1)
    clock.advance(2 * LEASE)
    [again] = claim(store, NODE, lapsed=True, lead=-LEASE)
    new = HeldRun(again, expire_after=EXPIRE_AFTER)
    house.held.add([new])
    house.starter.add([new])
    house.starter.tick()
    assert list(house.due) == [new]
    assert house.held.waiting == 0
