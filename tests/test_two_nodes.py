"""Several nodes on one store: each fire time runs once, whatever a node suffers."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest

from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.policies import RetryPolicy
from go_scheduler.running.held import HeldRun
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.clock import START
from go_scheduler.triggers.combining.limited import LimitedTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from tests.behaviour.house import LEASE, Bench, FreezingClock, Later
from tests.conftest import SHARED, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import RunOutcome

_P = ParamSpec("_P")
_T = TypeVar("_T")


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


@pytest.fixture
def clock() -> FreezingClock:
    return FreezingClock()


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
    ) -> Scheduler:
        called = self.called.setdefault(name, [])

        def note(instance: TaskInstance) -> object:
            assert instance.execute_at <= self.clock.now(), "too early"
            called.append(instance)
            return None if handler is None else handler(instance)

        scheduler = Scheduler(note, self.store, clock=self.clock, executor=executor)
        with self.clock.node(name):
            scheduler.start()
        return scheduler


@pytest.fixture
def nodes(clock: FreezingClock, store: Store) -> Nodes:
    return Nodes(clock, store)


def once(at: datetime) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at))


def only(store: Store) -> TaskInstance:
    [instance] = store.list_instances()
    return instance


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
    bench = Bench(clock)

    def locked(outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        return Answer(done=set(), busy={each.claim.instance_id for each in outcomes})

    one = nodes.start("one", bench.handler, bench)
    nodes.start("two")
    clock.freeze("two")
    one.schedule(replace(once(START), expire_after=seconds(expire_after)))
    clock.advance(seconds(0.01))
    clock.thaw("two")
    clock.advance(seconds(duration))
    with monkeypatch.context() as patch:
        patch.setattr(store, "finish_instances", locked)
        bench.end_all()
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
