"""Several nodes on one store: each fire time runs once, whatever a node suffers."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.policies import RetryPolicy
from go_scheduler.run import current_run
from go_scheduler.running.held import HeldRun
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.clock import START
from go_scheduler.triggers.combining.limited import LimitedTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from tests.behaviour.house import FreezingClock, Later
from tests.conftest import SHARED, seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import RunOutcome

_P = ParamSpec("_P")
_T = TypeVar("_T")

LEASE = seconds(20)
MILLISECOND = timedelta(milliseconds=1)


class Threads(Executor):
    """Calls each handler on a thread, and goes on once it has entered."""

    def __init__(self, entered: threading.Semaphore) -> None:
        self._entered = entered
        self._threads: list[threading.Thread] = []

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        thread = threading.Thread(target=fn, args=args, kwargs=kwargs, daemon=True)
        thread.start()
        self._threads.append(thread)
        assert self._entered.acquire(timeout=FAILED_AFTER)
        return Future()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(FAILED_AFTER)


class Process(Executor):
    """Calls handlers at once, and dies of one: nothing it had goes on."""

    def __init__(self, clock: FreezingClock, name: str) -> None:
        self._clock = clock
        self._name = name
        self.died = False
        self.killed_by: list[TaskInstance] = []

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        [run] = args
        assert isinstance(run, HeldRun)
        if run.instance.definition.name == "kills":
            self.died = True
            self.killed_by.append(run.instance)
            self._clock.freeze(self._name)
        if not self.died:
            fn(*args, **kwargs)
        return Future()


class Beside(Executor):
    """Calls each handler on a thread, and goes on once that waits at a gate."""

    def __init__(self) -> None:
        self.gates: dict[int, threading.Event] = {}
        self.threads: dict[int, threading.Thread] = {}
        self.waits = threading.Event()

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        self.waits.clear()
        threading.Thread(target=fn, args=args, kwargs=kwargs, daemon=True).start()
        assert self.waits.wait(FAILED_AFTER)
        return Future()

    def work(self, attempt: int) -> None:
        """What a handler does that takes long."""
        gate = self.gates[attempt] = threading.Event()
        self.threads[attempt] = threading.current_thread()
        self.waits.set()
        assert gate.wait(FAILED_AFTER)

    def finish(self, attempt: int) -> None:
        """Let a handler go on, and wait until it is over."""
        self.gates[attempt].set()
        self.threads[attempt].join(FAILED_AFTER)


class Outage:
    """Lets a store be away for everything but for reading what is there."""

    METHODS = (
        "now",
        "due_definitions",
        "fire_definitions",
        "claim_instances",
        "start_instances",
        "renew_claims",
        "finish_instances",
        "release_instances",
        "delete_finished",
        "list_claimed",
        "note_contact",
        "list_contacts",
        "list_due_queues",
    )

    def __init__(self, store: Store) -> None:
        self.on = False
        for name in self.METHODS:
            setattr(store, name, self._failing(getattr(store, name)))

    def _failing(self, call: Callable[_P, _T]) -> Callable[_P, _T]:
        def fail(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if self.on:
                raise StoreUnavailableError("away")
            return call(*args, **kwargs)

        return fail


@pytest.fixture
def clock() -> FreezingClock:
    return FreezingClock()


@pytest.fixture
def outage(store: Store) -> Outage:
    return Outage(store)


class Nodes:
    """Schedulers by name, and what each has called."""

    def __init__(self, clock: FreezingClock, store: Store) -> None:
        self.clock = clock
        self.store = store
        self.called: dict[str, list[TaskInstance]] = {}

    def start(
        self,
        name: str,
        handler: Handler | None = None,
        executor: Executor | None = None,
        max_hangs: int | None = 3,
    ) -> Scheduler:
        called = self.called.setdefault(name, [])

        def note(instance: TaskInstance) -> object:
            assert instance.execute_at <= self.clock.now(), "too early"
            called.append(instance)
            return None if handler is None else handler(instance)

        scheduler = Scheduler(
            note,
            self.store,
            clock=self.clock,
            executor=executor,
            max_hangs=max_hangs,
        )
        with self.clock.node(name):
            scheduler.start()
        return scheduler


@pytest.fixture
def nodes(clock: FreezingClock, store: Store) -> Nodes:
    return Nodes(clock, store)


def once(at: datetime) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at))


def keys(instances: list[TaskInstance]) -> Counter[tuple[object, object]]:
    return Counter((each.definition.id, each.fire_time) for each in instances)


def only(store: Store) -> TaskInstance:
    [instance] = store.list_instances()
    return instance


def test_two_schedulers_on_one_store_run_each_fire_time_once(
    nodes: Nodes, clock: FreezingClock
) -> None:
    one = nodes.start("one")
    clock.advance(seconds(0.3))
    nodes.start("two")
    for _ in range(3):
        one.schedule(TaskDefinition(trigger=IntervalTrigger(seconds(1))))
    clock.advance(seconds(20.1))
    called = keys(nodes.called["one"] + nodes.called["two"])
    assert len(called) == 60
    assert set(called.values()) == {1}


@pytest.mark.slow
def test_several_schedulers_run_many_definitions_each_once(
    own_time_store: Store,
) -> None:
    system = SystemClock()
    store = own_time_store
    called: list[TaskInstance] = []
    done = threading.Semaphore(0)

    def handler(instance: TaskInstance) -> None:
        assert store.now() >= instance.execute_at
        called.append(instance)
        done.release()

    schedulers = [Scheduler(handler, store) for _ in range(4)]
    for scheduler in schedulers:
        scheduler.start()
    for number in range(200):
        at = system.now() + number % 4 * seconds(0.1)
        schedulers[number % 4].schedule(once(at))
    for _ in range(200):
        assert done.acquire(timeout=FAILED_AFTER)
    assert all(scheduler.stop() for scheduler in schedulers)
    assert len(called) == 200
    assert set(keys(called).values()) == {1}
    assert store.counts()[State.COMPLETED] == 200


def test_a_node_without_the_handler_hardly_delays_the_one_that_has_it(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    # Started first, it looks first.
    without = Scheduler(HandlerRegistry(), store, clock=clock)
    without.start()
    lateness: list[timedelta] = []
    having = nodes.start(
        "having", lambda instance: lateness.append(clock.now() - instance.execute_at)
    )
    having.schedule(TaskDefinition(trigger=IntervalTrigger(seconds(10)), name="report"))
    clock.advance(seconds(301))
    assert len(lateness) == 30
    assert max(lateness) < seconds(5)
    assert without.stop()


def test_what_is_held_is_given_back_on_stop_and_run_by_the_other_node_on_time(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(0.3))
    assert only(store).state is State.CLAIMED
    nodes.start("two")
    assert one.stop()
    clock.advance(seconds(5))
    assert nodes.called["one"] == []
    [called] = nodes.called["two"]
    ended = store.get_instance(called.id)
    assert ended.started_at == START + seconds(1)
    assert ended.runs == 1


def test_what_is_started_and_not_yet_called_is_given_back_on_stop(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(1) - 10 * MILLISECOND)
    assert only(store).state is State.RUNNING
    nodes.start("two")
    one.stop(timeout=seconds(5))
    clock.advance(seconds(2))
    assert nodes.called["one"] == []
    assert len(nodes.called["two"]) == 1
    assert only(store).runs == 1


def test_what_a_node_held_when_it_died_is_run_by_another_after_the_lease(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(0.5))
    nodes.start("two")
    clock.freeze("one")
    clock.advance(seconds(0.5) + LEASE - MILLISECOND)
    assert nodes.called["two"] == []
    clock.advance(seconds(2))
    assert [each.attempt for each in nodes.called["two"]] == [2]
    clock.advance(seconds(60))
    assert len(nodes.called["two"]) == 1
    assert nodes.called["one"] == []
    assert only(store).state is State.COMPLETED


def test_what_a_node_ran_when_it_died_is_run_by_another_within_thirty_seconds(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    later = Later()
    one = nodes.start("one", executor=later)
    nodes.start("two")
    clock.freeze("two")
    one.schedule(once(START))
    clock.advance(seconds(0.1))
    assert len(later.waiting) == 1
    assert only(store).state is State.RUNNING
    clock.freeze("one")
    clock.thaw("two")
    clock.advance(seconds(30))
    assert [each.attempt for each in nodes.called["two"]] == [2]
    assert only(store).state is State.COMPLETED


@pytest.mark.parametrize("before_it_is_due", [seconds(0.5), 10 * MILLISECOND])
def test_a_node_that_was_frozen_before_the_call_does_not_call_on_waking(
    nodes: Nodes, clock: FreezingClock, before_it_is_due: timedelta
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(1) - before_it_is_due)
    nodes.start("two")
    clock.freeze("one")
    clock.advance(LEASE + seconds(10))
    assert len(nodes.called["two"]) == 1
    clock.thaw("one")
    clock.advance(seconds(60))
    assert nodes.called["one"] == []
    assert len(nodes.called["two"]) == 1


def test_a_node_that_alone_was_frozen_before_the_call_gives_back_on_waking(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(1) - 10 * MILLISECOND)
    clock.freeze("one")
    clock.advance(LEASE + seconds(10))
    clock.thaw("one")
    clock.advance(seconds(2))
    assert [each.attempt for each in nodes.called["one"]] == [2]
    assert only(store).runs == 1


def test_the_late_outcome_of_a_frozen_node_changes_nothing(
    nodes: Nodes,
    clock: FreezingClock,
    store: Store,
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = Later()
    cancelled: list[bool] = []

    def freeze(instance: TaskInstance) -> None:
        clock.freeze("one")
        clock.advance(LEASE + seconds(10))
        clock.thaw("one")
        clock.advance(seconds(0))
        cancelled.append(current_run().cancelled)
        raise ValueError("late")

    one = nodes.start("one", freeze, executor=later)
    one.schedule(once(START))
    clock.advance(seconds(0.1))
    nodes.start("two")
    later.run()
    clock.advance(seconds(60))
    assert cancelled == [True]
    assert "has lost its claim" in caplog.text
    ended = only(store)
    assert (ended.state, ended.attempt, ended.error) == (State.COMPLETED, 2, None)
    assert len(nodes.called["one"]) == len(nodes.called["two"]) == 1


def test_a_long_run_is_not_run_elsewhere_while_its_node_lives(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    later = Later()

    def take_long(instance: TaskInstance) -> None:
        clock.advance(5 * LEASE)

    one = nodes.start("one", take_long, executor=later)
    nodes.start("two")
    clock.freeze("two")
    one.schedule(once(START))
    clock.advance(seconds(0.1))
    clock.thaw("two")
    later.run()
    clock.advance(seconds(60))
    assert nodes.called["two"] == []
    ended = only(store)
    assert (ended.state, ended.attempt) == (State.COMPLETED, 1)


@pytest.mark.parametrize("names", [("one",), ("one", "two", "three")])
@pytest.mark.parametrize("max_hangs", [3, None])
def test_a_job_that_always_outlives_expire_after_ends_at_its_first_success(
    nodes: Nodes,
    clock: FreezingClock,
    store: Store,
    names: tuple[str, ...],
    max_hangs: int | None,
) -> None:
    beside = Beside()
    cancelled: dict[int, bool] = {}

    def work(instance: TaskInstance) -> None:
        beside.work(instance.attempt)
        cancelled[instance.attempt] = current_run().cancelled

    for name in names:
        one = nodes.start(name, work, beside, max_hangs)
    one.schedule(replace(once(START), expire_after=seconds(30)))
    clock.advance(seconds(119))
    before = only(store)
    assert before.runs == (4 if max_hangs is None else 3)
    assert before.state is (State.RUNNING if max_hangs is None else State.FAILED)
    beside.finish(1)
    clock.advance(seconds(1))
    done = only(store)
    assert (done.state, done.ended_attempt) == (State.COMPLETED, 1)
    assert done.started_at == START
    clock.advance(LEASE / 3)
    for attempt in list(beside.gates)[1:]:
        beside.finish(attempt)
    clock.advance(seconds(60))
    assert cancelled == dict.fromkeys(beside.gates, True)
    assert len(beside.gates) == before.runs
    assert only(store) == done


@pytest.mark.parametrize("expire_after", [1, 5, 300])
@pytest.mark.parametrize("duration", [0.01, 0.9])
def test_what_has_ended_is_run_by_nobody_else_while_its_end_cannot_be_recorded(
    nodes: Nodes,
    clock: FreezingClock,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    expire_after: float,
    duration: float,
) -> None:
    beside = Beside()

    def locked(outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        return Answer(done=set(), busy={each.claim.instance_id for each in outcomes})

    one = nodes.start("one", lambda _: beside.work(1), beside)
    nodes.start("two")
    clock.freeze("two")
    one.schedule(replace(once(START), expire_after=seconds(expire_after)))
    clock.advance(seconds(0.01))
    clock.thaw("two")
    clock.advance(seconds(duration))
    with monkeypatch.context() as patch:
        patch.setattr(store, "finish_instances", locked)
        beside.finish(1)
        clock.advance(3 * LEASE)
        assert only(store).state is State.RUNNING
    clock.advance(seconds(1))
    done = only(store)
    assert (done.state, done.runs, done.attempt) == (State.COMPLETED, 1, 1)
    assert nodes.called["two"] == []


def test_when_all_nodes_were_frozen_each_keeps_what_it_runs(
    nodes: Nodes, clock: FreezingClock, store: Store
) -> None:
    later = Later()

    def freeze_all(instance: TaskInstance) -> None:
        for name in ("one", "two"):
            clock.freeze(name)
        clock.advance(3 * LEASE)
        for name in ("two", "one"):
            clock.thaw(name)
        clock.advance(seconds(5))

    nodes.start("two")
    clock.advance(2 * LEASE)
    clock.freeze("two")
    one = nodes.start("one", freeze_all, executor=later)
    one.schedule(once(clock.now()))
    clock.advance(seconds(0.1))
    clock.thaw("two")
    later.run()
    clock.advance(2 * LEASE)
    assert nodes.called["two"] == []
    ended = only(store)
    assert (ended.state, ended.attempt) == (State.COMPLETED, 1)


def test_nothing_is_called_without_a_recorded_start_and_work_resumes_after_an_outage(
    nodes: Nodes, clock: FreezingClock, store: Store, outage: Outage
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    one.schedule(once(START + seconds(30)))
    clock.advance(seconds(0.5))
    outage.on = True
    clock.advance(seconds(60))
    assert nodes.called["one"] == []
    assert one.health().ok is False
    assert one.health().store_reachable is False
    outage.on = False
    clock.advance(seconds(40))
    assert len(keys(nodes.called["one"])) == 2
    assert set(keys(nodes.called["one"]).values()) == {1}
    assert store.counts()[State.COMPLETED] == 2
    assert {each.runs for each in store.list_instances()} == {1}
    assert one.health().ok


def test_outcomes_wait_for_the_store_and_nothing_runs_twice(
    nodes: Nodes, clock: FreezingClock, store: Store, outage: Outage
) -> None:
    def cut(instance: TaskInstance) -> None:
        outage.on = True

    one = nodes.start("one", cut)
    nodes.start("two", cut)
    one.schedule(once(START))
    clock.advance(seconds(60))
    assert one.health().unrecorded + len(nodes.called["two"]) == 1
    outage.on = False
    clock.advance(seconds(60))
    assert len(nodes.called["one"] + nodes.called["two"]) == 1
    assert only(store).state is State.COMPLETED


@pytest.mark.slow
def test_a_node_that_stops_while_the_store_is_away_gives_up_after_a_lease(
    nodes: Nodes, clock: FreezingClock, store: Store, outage: Outage
) -> None:
    one = nodes.start("one")
    one.schedule(once(START + seconds(1)))
    clock.advance(seconds(0.5))
    outage.on = True
    before = clock.elapsed()
    assert one.stop() is False
    assert LEASE <= clock.elapsed() - before <= LEASE + seconds(1)
    outage.on = False
    nodes.start("two")
    clock.advance(LEASE + seconds(5))
    assert len(nodes.called["two"]) == 1


@pytest.mark.slow
def test_who_starts_with_the_stores_return_takes_nothing_from_those_that_still_run(
    nodes: Nodes, clock: FreezingClock, store: Store, outage: Outage
) -> None:
    entered, end = threading.Semaphore(0), threading.Event()
    threads = {name: Threads(entered) for name in ("one", "two")}

    def run_until_told(instance: TaskInstance) -> None:
        entered.release()
        # Ten minutes of the clock take a busy machine longer than one wait.
        assert end.wait(10 * FAILED_AFTER)

    for name, executor in threads.items():
        node = nodes.start(name, run_until_told, executor)
        node.schedule(replace(once(clock.now()), expire_after=seconds(3600)))
        clock.advance(seconds(1))
    clock.advance(2 * LEASE)
    outage.on = True
    clock.advance(timedelta(minutes=10))
    nodes.start("three")
    outage.on = False
    clock.advance(3 * LEASE)
    assert nodes.called["three"] == []
    end.set()
    for executor in threads.values():
        executor.join()
    clock.advance(seconds(1))
    assert [each.attempt for each in store.list_instances()] == [1, 1]
    assert store.counts()[State.COMPLETED] == 2


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize(
    ("engine", "every"),
    [
        *(("memory", every) for every in (3, 7, 11, 25)),
        *(pytest.param(*each.values, 11, marks=each.marks) for each in SHARED),
    ],
    indirect=["engine"],
)
def test_a_process_that_dies_again_and_again_loses_nothing_and_comes_to_an_end(
    nodes: Nodes, clock: FreezingClock, store: Store, every: float
) -> None:
    scheduler = Scheduler(None, store, clock=clock)
    last = START + seconds(240)
    for interval, name in ((1, None), (every, "kills")):
        trigger = LimitedTrigger(IntervalTrigger(seconds(interval)), end=last)
        retry = RetryPolicy(max_attempts=2 if name else 100)
        scheduler.schedule(TaskDefinition(trigger=trigger, name=name, retry=retry))
    lives: list[Process] = []
    # Whoever dies loses what it has just taken over: how often that can be is limited
    # only by how often there is something that kills.
    while clock.now() < last + seconds(120):
        if not lives or lives[-1].died:
            life = str(len(lives) + 1)
            lives.append(Process(clock, life))
            nodes.start(life, executor=lives[-1])
        clock.advance(seconds(0.2))
    assert len(lives) >= 240 // every
    # What died with a process before it was written may have cost a run more, no call.
    calls = Counter(each.id for life in lives for each in life.killed_by)
    assert max(calls.values()) == 2
    ended = Counter(
        (each.definition.name, each.state) for each in store.list_instances(limit=1000)
    )
    assert ended == {
        (None, State.COMPLETED): 240,
        ("kills", State.FAILED): 240 // every,
    }
