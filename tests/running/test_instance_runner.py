"""The instance runner: what it claims, how much of it, and what it gives back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import State, TaskInstance
from go_scheduler.policies import RetryPolicy
from go_scheduler.running.held import Held
from go_scheduler.running.recorder import Recorder
from go_scheduler.testing.builders import (
    LEASE,
    NODE,
    OTHER_NODE,
    cancel,
    claim,
    claimed,
    definition,
    finish,
    fire,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import UnknownTrigger
from tests.conftest import seconds
from tests.running.house import TICK, WINDOW, FaultyStore, House, pending, state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.running.held import HeldRun
    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def house(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock)


@pytest.fixture
def small(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock, max_workers=1)


def test_what_is_due_is_claimed_and_started_in_one_write_and_handed_over(
    house: House, store: FaultyStore
) -> None:
    instance = pending(store)
    assert house.tick() == WINDOW / 2
    assert [run.instance.id for run in house.due] == [instance.id]
    assert state(store, instance) is State.RUNNING
    assert store.starts == []


def test_of_what_is_overdue_no_more_is_claimed_than_there_are_workers(
    house: House, store: FaultyStore
) -> None:
    for _ in range(20):
        pending(store)
    house.settle()
    assert store.limits[0] == 4
    assert len(house.due) == 4
    assert store.counts()[State.PENDING] == 16
    assert house.runner.hungry


def test_of_what_is_overdue_as_much_is_claimed_as_came_free_in_the_last_window(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    for _ in range(40):
        pending(store)
    house.settle()
    for _ in range(3):
        house.perform(house.due.popleft())
    house.settle()
    assert store.limits == [4], "what is not recorded yet keeps its place"
    house.record()
    house.settle()
    assert store.limits == [4, 6]
    assert house.held.busy == 7
    clock.advance(WINDOW / 2)
    house.settle()
    assert house.held.busy == 7


def test_what_was_given_back_makes_no_room(small: House, store: FaultyStore) -> None:
    for _ in range(10):
        pending(store)
    small.settle()
    hanging = small.due.popleft()
    assert small.held.call(hanging)
    for _ in range(5):
        small.base.advance(WINDOW + TICK)
        small.settle()
        small.record()
        assert small.held.busy == 1


def test_what_waits_for_a_worker_for_longer_than_a_window_is_given_back(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    instance = pending(store)
    house.tick()
    clock.advance(WINDOW)
    house.tick()
    assert house.held.busy == 1
    clock.advance(TICK)
    house.tick()
    assert house.held.busy == 0
    house.record()
    given_back = store.get_instance(instance.id)
    assert (given_back.state, given_back.runs) == (State.PENDING, 0)


def test_what_is_called_just_as_it_is_given_back_is_not_given_back(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    pending(store)
    house.tick()
    [run] = house.due
    clock.advance(WINDOW + TICK)

    class Calling(Held):
        def due(self, *, before: timedelta | None = None) -> Sequence[HeldRun]:
            found = super().due(before=before)
            assert self.call(run)
            return found

    house.held.__class__ = Calling
    house.tick()
    assert list(house.held.running()) == [run]
    assert house.recorder.unrecorded == 0


def test_no_more_is_held_than_allowed(
    store: FaultyStore, store_clock: StoreClock, clock: ManualClock
) -> None:
    house = House(store, store_clock, clock, max_held=10)
    for _ in range(50):
        pending(store, after=seconds(0.9))
    house.settle()
    assert house.held.waiting == 10
    late = pending(store)
    delay = house.claim()
    assert state(store, late) is State.RUNNING
    assert house.held.waiting == 10
    assert delay == WINDOW / 20


def test_what_is_not_due_yet_is_claimed_beyond_the_number_of_workers(
    house: House, store: FaultyStore
) -> None:
    for number in range(30):
        pending(store, after=seconds(0.3) + number * TICK)
    house.settle()
    assert house.held.waiting == 30
    assert store.limits == [4, 96]


def test_after_a_claim_that_took_all_that_was_due_the_next_is_bounded_anew(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    for _ in range(4):
        pending(store, after=seconds(0.3))
    assert house.tick() == ZERO
    clock.advance(seconds(0.3))
    house.starter.tick()
    assert len(house.due) == 4
    house.claim()
    house.perform(house.due.popleft())
    house.record()
    clock.advance(WINDOW + TICK)
    for _ in range(50):
        pending(store)
    store.limits.clear()
    for run in list(house.due):
        house.perform(run)
    house.due.clear()
    house.settle()
    assert max(store.limits, default=0) <= 4


def test_a_node_without_a_free_worker_claims_nothing_ahead(
    small: House, store: FaultyStore
) -> None:
    pending(store)
    small.settle()
    instance = pending(store, after=seconds(0.5))
    delay = small.claim()
    assert state(store, instance) is State.PENDING
    assert small.runner.hungry
    assert delay == WINDOW / 2


class InterruptedRecorder(Recorder):
    """Asked how much is unrecorded, it answers, and then something happens."""

    then: Callable[[], None] | None = None

    @property
    def backlog(self) -> int:
        answer = super().backlog
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return answer


def test_what_comes_free_just_after_the_room_was_measured_calls_for_a_look(
    small: House, store: FaultyStore
) -> None:
    pending(store)
    small.settle()
    waiting = pending(store)
    recorder = small.recorder
    recorder.__class__ = InterruptedRecorder

    def come_free() -> None:
        small.perform(small.due.popleft())
        small.record()
        assert small.runner.hungry
        small.runner.look()

    recorder.then = come_free  # type: ignore[attr-defined]
    small.runner.hungry = False
    assert small.claim() == ZERO
    small.tick()
    assert state(store, waiting) is State.RUNNING


def test_what_is_scheduled_while_it_claims_is_claimed_at_once(
    house: House, store: FaultyStore
) -> None:
    new: list[TaskInstance] = []

    def schedule() -> None:
        store.meanwhile = lambda: None
        new.append(pending(store))
        house.runner.look()

    store.meanwhile = schedule
    assert house.tick() == ZERO
    house.tick()
    assert state(store, new[0]) is State.RUNNING


def test_between_its_looks_it_does_not_ask_the_store(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    house.tick()
    clock.advance(WINDOW / 2)
    house.tick()
    assert len(store.limits) == 1
    clock.advance(WINDOW / 4)
    house.tick()
    assert len(store.limits) == 2


def test_only_its_own_queues_are_served(house: House, store: FaultyStore) -> None:
    [other] = fire(store, put(store, definition(queue="other")))
    house.settle()
    assert state(store, other) is State.PENDING


@pytest.fixture
def registry(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    handlers = HandlerRegistry()
    handlers.register("known")(lambda _: None)
    return House(store, store_clock, clock, handler=handlers)


def test_a_name_without_a_handler_is_given_back_a_little_later_each_time(
    registry: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    instance = pending(store, name="unknown")
    delays = []
    for _ in range(13):
        before = store.now()
        registry.settle()
        registry.record()
        given_back = store.get_instance(instance.id)
        assert (given_back.state, given_back.runs) == (State.PENDING, 0)
        delays.append((given_back.due_at - before).total_seconds())
        registry.base.advance(given_back.due_at - before)
    assert delays[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    assert delays[6:] == [3.2, 6.4, 12.8, 25.6, 51.2, 60, 60]
    assert len(caplog.records) == 1
    assert "'unknown'" in caplog.text


def hang(house: House, run: HeldRun) -> None:
    """What the keeper does with a run that is overdue."""
    assert house.held.call(run)
    house.held.hang(run)
    house.workers.replace(run)


def test_a_definition_of_which_too_many_runs_hang_here_is_left_to_other_nodes(
    house: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    one = put(store, definition(store.now(), name="hangs"))
    for _ in range(2):
        pending(store)
        house.settle()
        run = house.due.popleft()
        run.instance = replace(run.instance, definition=one)
        hang(house, run)
    [more] = fire(store, one)
    other = pending(store)
    house.settle()
    house.record()
    assert state(store, more) is State.PENDING
    assert state(store, other) is State.RUNNING
    assert "2 runs of hangs hang here; such instances are given back" in caplog.text


def test_a_node_that_can_call_nothing_claims_nothing(
    house: House, store: FaultyStore
) -> None:
    for _ in range(3):
        pending(store)
    house.settle()
    stuck = list(house.due)
    for run in stuck:
        hang(house, run)
    waiting = pending(store)
    house.settle()
    assert state(store, waiting) is State.PENDING
    house.held.end(stuck[0])
    house.settle()
    assert state(store, waiting) is State.RUNNING


def test_each_name_without_a_handler_is_reported_once_and_not_without_end(
    registry: House,
    store: FaultyStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("go_scheduler.events.health_warnings._MOST", 2)
    for name in ("a", "b", "a", "c"):
        pending(store, name=name)
    known = pending(store, name="known")
    registry.settle()
    registry.record()
    registry.settle()
    assert state(store, known) is State.RUNNING
    assert len(caplog.records) == 2


def test_an_instance_without_a_name_is_given_back_with_what_to_do(
    registry: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    nameless = pending(store)
    registry.settle()
    registry.record()
    assert state(store, nameless) is State.PENDING
    assert "without a name here: pass name= to TaskDefinition; such" in caplog.text


def test_an_instance_of_an_unknown_trigger_is_left_for_a_node_that_knows_it(
    house: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = UnknownTrigger("martian", {}, "no imported class has it")
    new = replace(definition(), trigger=unknown)
    [instance] = fire(store, put(store, new))
    house.settle()
    house.record()
    given_back = store.get_instance(instance.id)
    assert (given_back.state, given_back.runs) == (State.PENDING, 0)
    assert given_back.due_at > START
    assert "no imported class has it" in caplog.text


def test_a_name_lost_between_claim_and_start_is_given_back(
    registry: House, store: FaultyStore
) -> None:
    instance = pending(store, after=WINDOW / 2, name="known")
    registry.settle()
    assert state(store, instance) is State.CLAIMED
    put(store, replace(instance.definition, name="unknown"))
    registry.base.advance(WINDOW / 2)
    registry.settle()
    registry.record()
    given_back = store.get_instance(instance.id)
    assert (given_back.state, given_back.runs) == (State.PENDING, 0)
    assert registry.held.waiting == 0
    assert not registry.due


def test_an_instance_that_was_asked_to_stop_is_not_called_again(
    house: House, store: FaultyStore
) -> None:
    instance = running(store)
    cancel(store, instance)
    finish(store, instance, None)
    house.settle()
    house.record()
    assert state(store, instance) is State.CANCELLED
    assert not house.due


def test_an_instance_whose_every_run_died_has_failed_after_the_last(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    twice = replace(definition(), retry=RetryPolicy(max_attempts=2))
    instance = running(store, twice, node=OTHER_NODE)
    clock.advance(LEASE)
    claim(store, OTHER_NODE, lapsed=True)
    house.contact.made()
    clock.advance(LEASE)
    house.contact.made()
    house.settle()
    house.record()
    dead = store.get_instance(instance.id)
    assert (dead.state, dead.runs) == (State.FAILED, 2)
    assert dead.error == "none of 2 recorded starts came to an end"
    assert not house.due


def test_the_error_of_its_last_run_stays_with_what_has_failed(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    instance = running(store, once)
    finish(store, instance, None, error="why")
    house.settle()
    house.record()
    assert store.get_instance(instance.id).error == "why"


def test_after_a_failure_it_claims_as_soon_as_it_ticks(
    house: House, store: FaultyStore
) -> None:
    house.tick()
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.away = False
    house.tick()
    assert len(store.limits) == 2


def test_lapsed_claims_are_taken_over_after_one_lease_of_unbroken_contact(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = running(store, node=OTHER_NODE)
    clock.advance(LEASE)
    house.settle()
    assert state(store, instance) is State.RUNNING
    for _ in range(40):
        clock.advance(LEASE / 40)
        assert not house.due
        house.settle()
    assert [run.instance.id for run in house.due] == [instance.id]
    assert house.due[0].instance.attempt == 2
    [record] = caplog.records
    assert record.getMessage() == (
        f"instance {instance.id} of {instance.definition.id}: its last run came to no"
        " end, it runs again"
    )


def test_what_had_not_started_or_has_failed_was_not_lost_with_a_node(
    house: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    claimed(store, node=OTHER_NODE)
    failed = running(store, node=OTHER_NODE)
    finish(store, failed, None, error="why")
    house.base.advance(LEASE)
    house.contact.made()
    house.base.advance(LEASE)
    house.contact.made()
    house.settle()
    assert [run.instance.attempt for run in house.due] == [2, 2]
    assert caplog.records == []


def test_an_outage_begins_that_lease_anew(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    instance = running(store, node=OTHER_NODE)
    house.settle()
    clock.advance(LEASE * 0.9)
    house.settle()
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    clock.advance(LEASE / 2)
    store.away = False
    house.settle()
    clock.advance(LEASE * 0.9)
    house.settle()
    assert not house.due
    clock.advance(LEASE * 0.2)
    house.settle()
    assert [run.instance.id for run in house.due] == [instance.id]


def test_a_node_that_wakes_from_a_freeze_takes_nothing_over_at_once(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    house.settle()
    clock.advance(LEASE)
    house.settle()
    # Where nothing had lapsed it has found what nobody had claimed, too.
    assert store.lapsed == [None, ZERO]
    clock.advance(3 * LEASE)
    house.settle()
    assert store.lapsed == [None, ZERO, None]


def test_a_full_house_looks_again_soon_though_one_has_started_meanwhile(
    store: FaultyStore, store_clock: StoreClock, clock: ManualClock
) -> None:
    house = House(store, store_clock, clock, max_held=10)
    for _ in range(50):
        pending(store, after=seconds(0.9))
    house.settle()
    assert house.held.waiting == 10
    store.meanwhile = lambda: house.held.drop(house.held.uncalled()[0])
    assert house.claim() == WINDOW / 20


def test_what_a_lost_answer_had_claimed_is_given_back_and_called_once(
    house: House, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    [instance] = fire(store, put(store, once))
    later = pending(store, after=seconds(0.5))
    store.claim_answer_lost = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    assert state(store, instance) is State.RUNNING
    assert state(store, later) is State.CLAIMED
    store.claim_answer_lost = False
    house.settle()
    assert [run.instance.id for run in house.due] == [instance.id]
    assert house.due[0].instance.runs == 1
    assert house.held.waiting == 1
    assert "the answer to a claim was lost: 2 instances are given back" in caplog.text


def test_what_is_held_called_or_not_recorded_yet_is_not_taken_for_lost(
    house: House, store: FaultyStore
) -> None:
    for _ in range(3):
        pending(store)
    pending(store, after=seconds(0.5))
    house.settle()
    house.perform(house.due.popleft())
    assert house.held.call(house.due.popleft())
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.away = False
    house.claim()
    assert store.lists == 2
    assert {each.attempt for each in store.list_instances()} == {1}
    assert house.recorder.unrecorded == 1
    house.record()
    assert store.counts()[State.COMPLETED] == 1


def test_what_ends_while_the_list_is_read_is_not_taken_for_lost(
    house: House, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = pending(store)
    house.settle()
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.away = False
    listed = store.list_claimed

    def end_after(*args: object, **kwargs: object) -> Sequence[TaskInstance]:
        found = listed(*args, **kwargs)  # type: ignore[arg-type]
        if house.due:
            house.perform(house.due.popleft())
            house.record()
        return found

    monkeypatch.setattr(store, "list_claimed", end_after)
    house.claim()
    assert state(store, instance) is State.COMPLETED


def test_a_store_that_was_still_at_work_on_a_lost_claim_is_asked_for_five_seconds(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.away = False
    house.claim()
    late = pending(store)
    claim(store, NODE)
    clock.advance(seconds(1))
    house.settle()
    assert [run.instance.id for run in house.due] == [late.id]
    clock.advance(seconds(4))
    house.claim()
    asked = store.lists
    house.claim()
    assert store.lists == asked


def test_a_lost_claim_that_comes_behind_the_last_list_is_asked_for_once_more(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.away = False
    late = pending(store, after=seconds(0.1))
    listed = store.list_claimed

    def claim_after(*args: object, **kwargs: object) -> Sequence[TaskInstance]:
        found = listed(*args, **kwargs)  # type: ignore[arg-type]
        if store.lists == 1:
            claim(store, NODE)
            clock.advance(seconds(0.2))
        return found

    monkeypatch.setattr(store, "list_claimed", claim_after)
    clock.advance(seconds(4.9))
    house.settle()
    house.settle()
    assert [run.instance.id for run in house.due] == [late.id]


@pytest.mark.parametrize("kind", ["locked", "bad"])
def test_what_is_locked_or_fails_alone_is_given_back_later(
    house: House, store: FaultyStore, clock: ManualClock, kind: str
) -> None:
    instance = pending(store)
    store.claim_answer_lost = True
    with pytest.raises(StoreUnavailableError):
        house.claim()
    store.claim_answer_lost = False
    hindered: set[UUID] = getattr(store, kind)
    hindered.add(instance.id)
    clock.advance(seconds(6))
    house.claim()
    assert state(store, instance) is State.RUNNING
    hindered.clear()
    house.claim()
    assert [run.instance.attempt for run in house.due] == [2]


def test_it_claims_further_ahead_while_the_store_is_slow(
    house: House, store: FaultyStore
) -> None:
    store.slow = seconds(0.3)
    house.claim()
    house.claim()
    assert store.ahead == [WINDOW, WINDOW + 5 * seconds(0.3)]


def test_a_look_is_repeated_on_a_store_that_settles(
    store: FaultyStore, store_clock: StoreClock, clock: ManualClock
) -> None:
    store.settling = seconds(0.06)
    house = House(store, store_clock, clock)
    house.settle()
    clock.advance(seconds(0.1))
    house.runner.look()
    asked = []
    begun = clock.elapsed()
    while (delay := house.tick()) < WINDOW / 10:
        asked.append((clock.elapsed() - begun, len(store.limits)))
        clock.advance(delay)
    assert [at for at, _ in asked] == [ZERO, seconds(0.02), seconds(0.05)]
    assert len(store.limits) == asked[0][1] + 3
    clock.advance(seconds(0.1))
    assert house.tick() > seconds(0.1)
    assert len(store.limits) == asked[0][1] + 4


def test_a_look_is_not_repeated_where_nothing_settles(
    house: House, store: FaultyStore
) -> None:
    assert house.claim() == WINDOW * 3 / 4
    assert len(store.limits) == 1


def lapsed_work(house: House, count: int) -> None:
    """So many instances that another node has left, and a node that may take them."""
    for _ in range(count):
        running(house.store, node=OTHER_NODE)
    house.base.advance(LEASE)
    house.contact.made()
    house.base.advance(LEASE)
    house.contact.made()


def test_of_what_a_node_has_left_one_is_taken_over_first_then_two_then_four(
    store: FaultyStore, store_clock: StoreClock, clock: ManualClock
) -> None:
    house = House(store, store_clock, clock, max_workers=20)
    lapsed_work(house, 10)
    taken = []
    for _ in range(4):
        house.tick()
        taken.append(house.held.busy)
        clock.advance(house.tick())
    assert taken == [1, 3, 7, 10]
    assert clock.elapsed() - 2 * LEASE == 3 * seconds(0.1) + WINDOW * 3 / 4


def test_without_a_free_worker_nothing_is_taken_over(
    small: House, store: FaultyStore, clock: ManualClock
) -> None:
    lapsed_work(small, 3)
    small.tick()
    assert small.held.busy == 1
    for _ in range(5):
        delay = small.tick()
        assert delay > ZERO
        clock.advance(min(delay, WINDOW / 4))
    assert small.held.busy == 1


def test_a_break_ends_the_takeover(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    lapsed_work(house, 3)
    house.tick()
    house.contact.broke()
    clock.advance(LEASE / 2)
    house.settle()
    assert sum(each.attempt > 1 for each in store.list_instances()) == 1
