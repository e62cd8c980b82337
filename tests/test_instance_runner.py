"""The instance runner: what it claims, how much of it, and when it records a start."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.handlers import Handler, HandlerRegistry
from go_scheduler.held import Held
from go_scheduler.instance_runner import InstanceRunner
from go_scheduler.keeper import Contact
from go_scheduler.models import State, TaskInstance
from go_scheduler.policies import RetryPolicy
from go_scheduler.recorder import Recorder
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.testing.builders import (
    LEASE,
    NODE,
    OTHER_NODE,
    cancel,
    claim,
    claimant,
    claimed,
    definition,
    finish,
    fire,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.timer import Timer
from go_scheduler.triggers import UnknownTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.models import Answer, Claim, Claimant
    from go_scheduler.run import Run
    from go_scheduler.testing import ManualClock

WINDOW = timedelta(seconds=1)
LEAD = timedelta(milliseconds=20)
TICK = timedelta(microseconds=1)


class FaultyStore(MemoryStore):
    """Fails and dawdles as it is told to, and notes what it was asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.manual = clock
        self.away = False
        self.start_answer_lost = False
        self.bad: set[UUID] = set()
        self.slow = ZERO
        self.limits: list[int] = []
        self.lapsed: list[timedelta | None] = []
        self.starts: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        if self.away:
            raise StoreUnavailableError("away")
        self.limits.append(limit)
        self.lapsed.append(lapsed)
        found = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        self.manual.advance(self.slow)
        self.meanwhile()
        return found

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        if self.away:
            raise StoreUnavailableError("away")
        if not self.bad.isdisjoint(each.instance_id for each in claims):
            raise StoreError("a bad row")
        self.starts.append(len(claims))
        found = super().start_instances(claimant, claims)
        self.manual.advance(self.slow)
        if self.start_answer_lost:
            raise StoreUnavailableError("the answer is lost")
        return found


class House:
    """A runner, and those it works with."""

    def __init__(
        self,
        store: FaultyStore,
        clock: StoreClock,
        base: ManualClock,
        *,
        handler: Handler = lambda _: None,
        max_held: int = 100,
        max_workers: int = 4,
    ) -> None:
        self.store = store
        self.base = base
        self.held = Held()
        self.due: deque[Run] = deque()
        self.contact = Contact(base, silence=LEASE)
        self.recorder = Recorder(store, clock, wake=lambda: None, recorded=lambda: None)
        self.timer = Timer(clock, hand_over=self._queue, wake=lambda: None)
        self.runner = InstanceRunner(
            store,
            clock,
            claimant(),
            handler=handler,
            held=self.held,
            timer=self.timer,
            recorder=self.recorder,
            contact=self.contact,
            window=WINDOW,
            max_held=max_held,
            max_workers=max_workers,
        )
        self.tick = self.runner.tick

    def _queue(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if self.held.enqueue(run, self.base.elapsed()):
                self.due.append(run)

    def claim(self) -> timedelta | None:
        """Tick, with a claim."""
        self.runner.look()
        return self.tick()

    def settle(self) -> None:
        """Tick until there is nothing to be done at once."""
        self.runner.look()
        for _ in range(100):
            if self.tick() != ZERO:
                return
        raise AssertionError("it never comes to rest")

    def perform(self, run: Run) -> None:
        """What a worker does."""
        assert self.held.call(run)
        run.begin(self.base.elapsed(), self.store.now(), lambda: None)
        run.settle()
        self.recorder.succeed(run)
        self.held.end(run)

    def record(self) -> None:
        self.recorder._last = None
        self.recorder.tick()


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def house(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock)


@pytest.fixture
def small(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock, max_workers=1)


def pending(
    store: FaultyStore, *, after: timedelta = ZERO, name: str | None = None
) -> TaskInstance:
    [instance] = fire(store, put(store, definition(store.now() + after, name=name)))
    return instance


def state(store: FaultyStore, instance: TaskInstance) -> State:
    return store.get_instance(instance.id).state


def test_what_is_due_is_claimed_and_started_in_one_write_and_handed_over(
    house: House, store: FaultyStore
) -> None:
    instance = pending(store)
    assert house.tick() == WINDOW / 2
    assert [run.instance.id for run in house.due] == [instance.id]
    assert state(store, instance) is State.RUNNING
    assert store.starts == []


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


def test_the_lead_is_at_most_half_the_window(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    store.slow = seconds(30)
    house.claim()
    store.slow = ZERO
    instance = pending(store, after=seconds(0.6))
    delay = house.claim()
    assert state(store, instance) is State.CLAIMED
    assert delay == seconds(0.1)


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
        def queued(self, *, before: timedelta | None = None) -> Sequence[Run]:
            found = super().queued(before=before)
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
    house.runner._start()
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
    def unrecorded(self) -> int:
        answer = super().unrecorded
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
    clock.advance(WINDOW / 4)
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


def test_each_name_without_a_handler_is_reported_once_and_not_without_end(
    registry: House,
    store: FaultyStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("go_scheduler.instance_runner._MOST_REPORTED", 2)
    for name in ("a", "b", "a", "c"):
        pending(store, name=name)
    known = pending(store, name="known")
    registry.settle()
    registry.record()
    registry.settle()
    assert state(store, known) is State.RUNNING
    assert len(caplog.records) == 2


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
    assert dead.error == "none of 2 runs came to an end"
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


def test_a_start_that_cannot_be_recorded_costs_only_itself(
    house: House,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    instances = [pending(store, after=seconds(0.5)) for _ in range(5)]
    house.settle()
    store.bad = {instances[2].id}
    clock.advance(seconds(0.5))
    house.tick()
    assert {run.instance.id for run in house.due} == {
        each.id for each in instances if each is not instances[2]
    }
    assert house.held.waiting == 0
    assert str(instances[2].id) in caplog.text


def test_of_two_runs_of_one_instance_the_one_with_the_claim_is_called(
    house: House, store: FaultyStore, clock: ManualClock
) -> None:
    pending(store, after=seconds(0.5))
    house.settle()
    store.start_answer_lost = store.away = True
    clock.advance(2 * LEASE)
    store.away = store.start_answer_lost = False
    [again] = claim(store, NODE, lapsed=True, lead=-LEASE)
    house.runner._accept([again])
    [old, new] = house.held.uncalled()
    [entry] = [each for each in house.runner._unstarted if each[2] is old]
    house.runner._unstarted.remove(entry)
    house.runner._hold(old)
    house.tick()
    assert list(house.due) == [new]
    assert house.held.waiting == 0


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
    assert store.lapsed == [None, ZERO]
    clock.advance(3 * LEASE)
    house.settle()
    assert store.lapsed == [None, ZERO, None]
