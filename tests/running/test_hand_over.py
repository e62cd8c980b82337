"""The hand-over: what is created here and is due runs here, by that very write."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import StoreClock
from go_scheduler.errors import StoreUnavailableError, TaskDefinitionNotFoundError
from go_scheduler.events import (
    DefinitionCompleted,
    DefinitionScheduled,
    Event,
    InstanceAdded,
    InstanceClaimed,
    InstanceCreated,
)
from go_scheduler.firing.creation import Creation
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import Skipped, State, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import HandOverStore
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Addition, Fired
from go_scheduler.testing.builders import (
    HOUR,
    NOBODY,
    NODE,
    SECOND,
    TICK,
    WAITING,
    definition,
    due,
    firing,
    ids,
    put,
)
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.testing.store.claims import HandOverTests
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.conftest import SETTINGS
from tests.patience import FAILED_AFTER
from tests.running.house import FaultyStore, House, pending, state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance

ONCE = definition(trigger=ExecuteOnceTrigger(START))


def nobody_hears(*_: object) -> None:
    """Told of what was created."""


def nobody_runs(*_: object) -> None:
    """Fires nothing."""


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def house(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock)


def task(store: FaultyStore, **fields: Any) -> TaskDefinition:
    return put(store, replace(definition(None, trigger=OnDemandTrigger()), **fields))


def add(
    house: House, to: TaskDefinition, *additions: Addition
) -> Sequence[TaskInstance] | None:
    found = house.hand_over.add(to.id, additions, nobody_hears)
    house.hand_over.tick()
    return found


def handed_over(house: House) -> Sequence[TaskInstance]:
    """What workers have been given, which is then performed."""
    runs = list(house.due)
    house.due.clear()
    for run in runs:
        house.perform(run)
    house.record()
    return [run.instance for run in runs]


def test_what_is_added_and_due_is_handed_over_without_a_claim(
    house: House, store: FaultyStore
) -> None:
    found = add(house, task(store), Addition(), Addition(at=START))
    assert found is not None
    assert ids(handed_over(house)) == ids(found)
    assert (store.limits, store.starts) == ([], [])
    assert {state(store, each) for each in found} == {State.COMPLETED}
    assert house.wakes == 0
    house.claim()
    assert not house.due


def test_what_is_not_due_is_not_added_here(house: House, store: FaultyStore) -> None:
    stored = task(store)
    assert add(house, stored, Addition(), Addition(at=START + TICK)) is None
    assert add(house, stored, Addition(delay=TICK)) is None
    assert store.list_instances() == []


def test_what_a_definition_does_not_let_start_is_left_to_the_runner(
    house: House, store: FaultyStore
) -> None:
    house.settle()
    for fields in ({"queue": "other"}, {"overlap": Overlap.SKIP}, {"lock": "one"}):
        claims = len(store.limits)
        found = add(house, task(store, **fields), Addition())
        assert found is not None
        assert [each.claimed_by for each in found] == [None]
        assert not house.due
        # It was asked to look at once.
        house.runner.tick()
        assert len(store.limits) == claims + 1


def test_a_name_without_a_handler_here_is_left_to_others(
    store: FaultyStore, store_clock: StoreClock, clock: ManualClock
) -> None:
    handlers = HandlerRegistry()
    handlers.register("send")(print)
    house = House(store, store_clock, clock, handler=handlers)
    assert add(house, task(store, name="report"), Addition())
    assert not house.due
    assert house.hand_over.put(firing(ONCE), nobody_hears) is None
    assert add(house, task(store, name="send"), Addition())
    assert house.hand_over.put(firing(replace(ONCE, name="send")), nobody_hears)
    house.hand_over.tick()
    assert len(handed_over(house)) == 2


def test_what_has_the_key_already_is_not_handed_over_again(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)
    assert add(house, stored, Addition(key="one"))
    [run] = house.due
    [found] = add(house, stored, Addition(key="one")) or []
    assert (found.id, found.claimed_by) == (run.instance.id, NODE)
    assert list(house.due) == [run]


def test_no_more_is_handed_over_than_there_are_free_workers(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)
    assert add(house, stored, *(Addition() for _ in range(5))) is None
    assert add(house, stored, *(Addition() for _ in range(3)))
    assert add(house, stored, Addition(), Addition()) is None
    assert add(house, stored, Addition())
    assert add(house, stored, Addition()) is None
    assert len(handed_over(house)) == 4
    assert add(house, stored, Addition())


def test_what_is_under_way_counts_as_well(house: House, store: FaultyStore) -> None:
    stored = task(store)
    meanwhile: list[object] = []

    def add_more() -> None:
        store.meanwhile = lambda: None
        meanwhile.append(add(house, stored, *(Addition() for _ in range(4))))

    store.meanwhile = add_more
    assert add(house, stored, Addition())
    assert meanwhile == [None]


def test_nothing_is_handed_over_past_what_waits_for_room(
    house: House, store: FaultyStore
) -> None:
    for _ in range(5):
        pending(store)
    house.claim()
    for _ in range(2):
        house.perform(house.due.popleft())
    house.record()
    assert house.runner.hungry
    assert add(house, task(store), Addition()) is None


def test_a_claim_under_way_is_not_waited_for(house: House, store: FaultyStore) -> None:
    stored, once = task(store), put(store, ONCE)
    meanwhile: list[object] = []

    def create() -> None:
        store.meanwhile = lambda: None
        meanwhile.append(add(house, stored, Addition()))
        meanwhile.append(fire(house, once))

    store.meanwhile = create
    house.claim()
    assert None not in meanwhile
    assert len(handed_over(house)) == 2


def test_nothing_is_handed_over_while_nothing_can_be_called(
    house: House, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(house.workers), "trouble", "it has closed its loop")
    assert add(house, task(store), Addition()) is None
    assert house.hand_over.put(firing(ONCE), nobody_hears) is None
    assert store.list_definitions(ids=[ONCE.id]) == []


def test_a_lost_answer_leads_to_what_it_started(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)
    store.hand_over_lost = True
    with pytest.raises(StoreUnavailableError):
        add(house, stored, Addition())
    store.hand_over_lost = False
    assert add(house, stored, Addition()) is None, "not before that is clear"
    [lost] = store.list_instances()
    assert lost.state is State.RUNNING
    house.settle()
    assert ids(handed_over(house)) == [lost.id]
    house.base.advance(5 * SECOND)
    house.settle()
    assert add(house, stored, Addition())


def test_a_put_whose_answer_is_lost_is_put_again_and_runs_once(
    house: House, store: FaultyStore
) -> None:
    store.hand_over_lost = True
    assert house.hand_over.put(firing(ONCE), nobody_hears) is None
    store.hand_over_lost = False
    assert put(store, ONCE).completed_at == START
    house.settle()
    assert len(handed_over(house)) == 1
    assert len(store.list_instances()) == 1


def test_what_is_under_way_is_not_given_back_as_unknown(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)
    store.claim_answer_lost = True

    def lose_a_claim() -> None:
        store.meanwhile = lambda: None
        with pytest.raises(StoreUnavailableError):
            house.claim()
        store.claim_answer_lost = False
        house.claim()

    store.meanwhile = lose_a_claim
    found = add(house, stored, Addition())
    assert found is not None
    assert ids(handed_over(house)) == ids(found)
    assert state(store, found[0]) is State.COMPLETED


def test_an_unknown_definition_is_no_lost_answer(
    house: House, store: FaultyStore
) -> None:
    with pytest.raises(TaskDefinitionNotFoundError):
        house.hand_over.add(NOBODY, [Addition()], nobody_hears)
    assert add(house, task(store), Addition())


def test_what_cannot_be_handed_over_is_no_error_of_who_creates_it(
    house: House, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(house.starter, "add", refuse)
    stored = task(store)
    [found] = house.hand_over.add(stored.id, [Addition()], nobody_hears) or []
    with pytest.raises(RuntimeError, match="new thread"):
        house.hand_over.tick()
    monkeypatch.undo()
    for run in house.held.uncalled():
        house.calls.give_back(run, "no thread")
    house.record()
    house.settle()
    assert ids(handed_over(house)) == [found.id]


def test_after_a_stop_nothing_is_handed_over(house: House, store: FaultyStore) -> None:
    stored = task(store)
    store.meanwhile = house.hand_over.stop
    assert add(house, stored, Addition())
    assert add(house, stored, Addition()) is None


def test_what_comes_too_late_to_run_is_given_back(
    house: House, store: FaultyStore
) -> None:
    [found] = house.hand_over.add(task(store).id, [Addition()], nobody_hears) or []
    house.hand_over.stop()
    house.hand_over.let_in()
    assert house.hand_over.under_way, "its thread may be at it"
    house.hand_over.ticker.stop()
    house.hand_over.let_in()
    assert not house.hand_over.under_way
    [run] = house.held.uncalled()
    house.calls.give_back(run, "its node stops")
    house.record()
    stored = store.get_instance(found.id)
    assert (stored.state, stored.runs) == (State.PENDING, 0)


@pytest.mark.parametrize("closed_first", [False, True])
def test_what_comes_after_the_end_is_given_back_at_once(
    house: House, store: FaultyStore, closed_first: bool
) -> None:
    stored = task(store)
    if closed_first:
        store.meanwhile = house.hand_over.close
    [found] = house.hand_over.add(stored.id, [Addition()], nobody_hears) or []
    house.hand_over.close()
    assert not house.hand_over.under_way
    now = store.get_instance(found.id)
    assert (now.state, now.runs) == (State.PENDING, 0)


def test_what_comes_after_the_end_of_a_store_that_is_away_is_no_error(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)

    def end() -> None:
        house.hand_over.close()
        store.bad = {each.id for each in store.list_instances()}

    store.meanwhile = end
    assert house.hand_over.add(stored.id, [Addition()], nobody_hears)
    assert not house.hand_over.under_way


def test_a_signal_handler_may_create_and_stop_in_the_midst_of_it(
    house: House, store: FaultyStore
) -> None:
    stored = task(store)
    with house.hand_over._lock:
        assert not house.hand_over.under_way
        assert add(house, stored, Addition())
        house.hand_over.stop()


def fire(
    house: House, read: TaskDefinition, told: Callable[[Fired], None] = nobody_hears
) -> Fired | None:
    return house.hand_over.fire([firing(read)], told)


def test_what_fires_and_is_due_is_handed_over_without_a_claim(
    house: House, store: FaultyStore
) -> None:
    stored = put(store, ONCE)
    told: list[tuple[Fired, int]] = []
    fired = fire(house, stored, lambda answer: told.append((answer, len(house.due))))
    assert fired is not None
    assert fired.done == {ONCE.id}
    assert told == [(fired, 0)], "before it runs"
    assert ids(handed_over(house)) == ids(fired.started)
    assert (store.limits, store.starts) == ([], [])
    assert state(store, fired.started[0]) is State.COMPLETED


@pytest.mark.parametrize(
    "fields",
    [
        {"next_fire_time": START + TICK},
        {"queue": "other"},
        {"name": "report"},
        {"overlap": Overlap.SKIP},
        {"lock": "one"},
        {"trigger": WAITING},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_fire_of_what_may_not_run_here_at_once_is_left_to_the_loops(
    store: FaultyStore,
    store_clock: StoreClock,
    clock: ManualClock,
    fields: dict[str, Any],
) -> None:
    handlers = HandlerRegistry()
    handlers.register("send")(print)
    house = House(store, store_clock, clock, handler=handlers)
    other = put(store, replace(ONCE, id=NOBODY, **{"name": "send", **fields}))
    assert fire(house, other) is None
    assert fire(house, put(store, replace(ONCE, name="send")))


@pytest.mark.parametrize(
    "step",
    [
        {"fire_times": (START - HOUR, START)},
        {"fire_times": ()},
        {"execute_times": (START + TICK,)},
        {"skipped": Skipped(count=1, first=START, last=START, reason="late")},
    ],
    ids=lambda step: next(iter(step)),
)
def test_a_step_of_more_than_one_run_that_is_due_is_left_to_the_loops(
    house: House, store: FaultyStore, step: dict[str, Any]
) -> None:
    stored = put(store, ONCE)
    left = replace(firing(stored), **step)
    assert house.hand_over.fire([left], nobody_hears) is None
    assert due(store) == [stored]


def test_no_more_fire_here_than_there_are_free_workers(
    house: House, store: FaultyStore
) -> None:
    stored = [put(store, definition(trigger=ONCE.trigger)) for _ in range(5)]
    steps = [firing(each) for each in stored]
    assert house.hand_over.fire(steps, nobody_hears) is None
    assert house.hand_over.fire(steps[1:], nobody_hears)
    assert fire(house, stored[0]) is None
    assert len(handed_over(house)) == 4
    assert fire(house, stored[0])


def test_a_fire_that_another_node_has_won_runs_nothing_here(
    house: House, store: FaultyStore
) -> None:
    stored = put(store, ONCE)
    store.fire_definitions([firing(stored)])
    fired = fire(house, stored)
    assert fired is not None
    assert (fired.done, list(fired.started)) == (set(), [])
    assert not house.due


def test_a_fire_whose_answer_is_lost_leads_to_what_it_started(
    house: House, store: FaultyStore
) -> None:
    stored = put(store, ONCE)
    store.hand_over_lost = True
    with pytest.raises(StoreUnavailableError):
        fire(house, stored)
    store.hand_over_lost = False
    [lost] = store.list_instances()
    assert lost.state is State.RUNNING
    house.settle()
    assert ids(handed_over(house)) == [lost.id]


class Counting(MemoryStore):
    """Notes how it came to know and to claim things."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def put_and_start(self, *arguments: Any, **named: Any) -> Any:
        found = super().put_and_start(*arguments, **named)
        self.calls.append("started" if found[1] else "put")
        return found

    def add_and_start(self, *arguments: Any, **named: Any) -> Any:
        self.calls.append("added")
        return super().add_and_start(*arguments, **named)


class Plain(MemoryStore):
    """Leaves what is created to the loops."""

    put_and_start = HandOverStore.put_and_start
    fire_and_start = HandOverStore.fire_and_start
    add_and_start = HandOverStore.add_and_start


class TestPlain(HandOverTests):
    """The suite takes it as it is."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return Plain(clock)


class Runs:
    """What a handler was called with, waited for."""

    def __init__(self) -> None:
        self.instances: list[TaskInstance] = []
        self._called = threading.Semaphore(0)

    def __call__(self, instance: TaskInstance) -> None:
        self.instances.append(instance)
        self._called.release()

    def wait(self) -> TaskInstance:
        assert self._called.acquire(timeout=FAILED_AFTER)
        return self.instances[-1]


@dataclass(frozen=True)
class Foreign(Trigger):
    """Somebody else's trigger."""

    kind = "tests.hand_over.Foreign"
    recurring = False

    def first_fire_time(self, now: datetime) -> datetime | None:
        return now

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None


@pytest.fixture
def counting() -> Counting:
    return Counting()


def now(counting: Counting, **fields: Any) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(counting.now()), **fields)


def test_what_is_scheduled_and_due_runs_by_the_write_that_puts_it(
    counting: Counting,
) -> None:
    runs = Runs()
    with Scheduler(runs, counting) as scheduler:
        new = now(counting)
        found = scheduler.schedule(new)
        assert runs.wait().definition.id == new.id
        assert counting.calls == ["started"]
        assert found.next_fire_time == new.trigger.first_fire_time(counting.now())
        assert (found.completed_at, found.revision) == (None, 1)


def test_what_may_be_due_by_the_store_is_handed_over_and_called_no_sooner(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    called_at: list[datetime] = []
    runs = Runs()

    def handle(instance: TaskInstance) -> None:
        called_at.append(counting.now())
        runs(instance)

    monkeypatch.setattr(StoreClock, "round_trip", timedelta(milliseconds=100))
    with Scheduler(handle, counting) as scheduler:
        fire_at = counting.now() + timedelta(milliseconds=50)
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(fire_at)))
        assert counting.calls == ["started"]
        runs.wait()
    assert called_at[0] >= fire_at


def test_what_is_stored_already_is_looked_for(counting: Counting) -> None:
    runs = Runs()
    with Scheduler(runs, counting) as scheduler:
        new = now(counting)
        scheduler.schedule(new)
        runs.wait()
        scheduler.schedule(now(counting, id=new.id))
        runs.wait()
    assert counting.calls == ["started", "put"]
    assert len(runs.instances) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"lock": "one"},
        {"overlap": Overlap.SKIP},
        {"jitter": SECOND / 100},
        {"paused": True},
    ],
    ids=["lock", "overlap", "jitter", "paused"],
)
def test_what_is_not_plain_is_put_as_ever(
    counting: Counting, fields: dict[str, Any]
) -> None:
    with Scheduler(lambda _: None, counting) as scheduler:
        scheduler.schedule(now(counting, **fields))
    assert counting.calls == []


def test_what_the_loops_have_to_decide_is_put_as_ever(counting: Counting) -> None:
    with Scheduler(lambda _: None, counting) as scheduler:
        for trigger in (
            ExecuteOnceTrigger(counting.now() + HOUR),
            IntervalTrigger(SECOND / 1000),
            OnDemandTrigger(),
            Foreign(),
        ):
            scheduler.schedule(TaskDefinition(trigger=trigger))
        scheduler.schedule_all([now(counting), now(counting)])
        scheduler.schedule(now(counting, queue="other"))
        missed = ExecuteOnceTrigger(counting.now() - HOUR)
        scheduler.schedule(
            TaskDefinition(trigger=missed, catch_up=CatchUp(drop_after=SECOND))
        )
    assert counting.calls == []


def test_one_that_its_trigger_does_not_know_is_left_to_the_loop(
    store: FaultyStore, store_clock: StoreClock
) -> None:
    creation = Creation(
        store, store_clock, SETTINGS, created=nobody_hears, run=nobody_runs
    )
    assert creation.first_step(ONCE) == firing(ONCE)
    displaced = replace(ONCE, next_fire_time=START - HOUR)
    assert creation.first_step(displaced) is None


def test_enqueue_and_run_now_start_what_they_make(counting: Counting) -> None:
    runs = Runs()
    of = TaskDefinition(
        trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
    )
    with Scheduler(runs, counting) as scheduler:
        scheduler.schedule(of)
        first = scheduler.enqueue("send", order=7)
        assert first.started_at is not None
        assert runs.wait().payload == {"order": 7}
        assert scheduler.run_now(of.id).started_at is not None
        runs.wait()
        assert scheduler.enqueue("send", delay=HOUR).started_at is None
    assert counting.calls == ["added", "added"]


def test_a_scheduler_without_a_handler_starts_nothing(counting: Counting) -> None:
    with Scheduler(None, counting) as scheduler:
        scheduler.schedule(now(counting))
    assert counting.calls == []


def test_a_store_that_starts_nothing_by_itself_creates_and_the_loops_start() -> None:
    runs = Runs()
    of = TaskDefinition(trigger=OnDemandTrigger())
    store = Plain()
    with Scheduler(runs, store) as scheduler:
        new = TaskDefinition(trigger=ExecuteOnceTrigger(store.now()))
        scheduler.schedule(new)
        assert runs.wait().definition.id == new.id
        scheduler.schedule(of)
        assert scheduler.run_now(of.id).started_at is None
        assert runs.wait().definition.id == of.id


def test_events_come_in_their_order(counting: Counting) -> None:
    heard: list[Event] = []
    runs = Runs()
    of = TaskDefinition(trigger=OnDemandTrigger())
    with Scheduler(runs, counting, listeners=[heard.append]) as scheduler:
        scheduler.schedule(of)
        scheduler.schedule(now(counting))
        runs.wait()
        scheduler.run_now(of.id)
        runs.wait()
    kinds = [
        type(each)
        for each in heard
        if isinstance(
            each,
            DefinitionScheduled
            | InstanceCreated
            | DefinitionCompleted
            | InstanceAdded
            | InstanceClaimed,
        )
    ]
    assert kinds == [
        DefinitionScheduled,
        DefinitionScheduled,
        InstanceCreated,
        DefinitionCompleted,
        InstanceClaimed,
        InstanceAdded,
        InstanceClaimed,
    ]
