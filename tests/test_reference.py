"""The behaviour of the reference: what an ancestor of this scheduler promised."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.errors import (
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.scheduler import Scheduler
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


class Calls:
    """A handler that notes when it is called with what."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.at: list[datetime] = []
        self.got: list[TaskInstance] = []

    def __call__(self, instance: TaskInstance) -> None:
        self.at.append(self.clock.now())
        self.got.append(instance)


@pytest.fixture
def calls(clock: ManualClock) -> Iterator[Calls]:
    """Whatever the test is about, none of them may be early."""
    calls = Calls(clock)
    yield calls
    for at, instance in zip(calls.at, calls.got, strict=True):
        assert at >= instance.execute_at


@pytest.fixture
def scheduler(calls: Calls, store: Store, clock: ManualClock) -> Scheduler:
    scheduler = Scheduler(calls, store, clock=clock)
    scheduler.start()
    return scheduler


def once(at: datetime, expire_after: timedelta | None = None) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), expire_after=expire_after)


def every(period: timedelta) -> TaskDefinition:
    return TaskDefinition(trigger=IntervalTrigger(period))


def test_what_is_due_in_a_second_fires_once_and_on_time(
    scheduler: Scheduler, calls: Calls, clock: ManualClock
) -> None:
    scheduler.schedule(once(START + seconds(1)))
    clock.advance(seconds(60))
    assert calls.at == [START + seconds(1)]


def test_what_is_due_now_fires_at_once(
    scheduler: Scheduler, calls: Calls, clock: ManualClock
) -> None:
    clock.advance(seconds(7))
    scheduler.schedule(once(clock.now()))
    clock.advance(seconds(0))
    assert calls.at == [START + seconds(7)]


def test_what_was_due_before_it_was_scheduled_fires_once(
    scheduler: Scheduler, calls: Calls, clock: ManualClock
) -> None:
    scheduler.schedule(once(START - timedelta(days=400)))
    clock.advance(seconds(60))
    assert calls.at == [START]


def test_what_is_scheduled_in_reverse_order_fires_in_time_order(
    scheduler: Scheduler, calls: Calls, clock: ManualClock
) -> None:
    for due in (3, 2, 1):
        scheduler.schedule(once(START + seconds(due)))
    clock.advance(seconds(60))
    assert calls.at == [START + seconds(due) for due in (1, 2, 3)]


def test_a_handler_that_outlives_expire_after_is_run_again(
    store: Store, clock: ManualClock
) -> None:
    go = threading.Event()
    called = threading.Semaphore(0)

    def handler(instance: TaskInstance) -> None:
        called.release()
        assert go.wait(FAILED_AFTER)

    with ThreadPoolExecutor(4) as executor:
        scheduler = Scheduler(handler, store, clock=clock, executor=executor)
        scheduler.start()
        scheduler.schedule(once(START, expire_after=seconds(5)))
        clock.advance(seconds(0.1))
        assert called.acquire(timeout=FAILED_AFTER)
        clock.advance(seconds(4.8))
        assert not called.acquire(blocking=False)
        clock.advance(seconds(0.9))
        assert called.acquire(timeout=FAILED_AFTER)
        [instance] = scheduler.list_instances()
        assert (instance.runs, instance.state) == (2, State.RUNNING)
        go.set()


def test_a_handler_that_does_not_outlive_expire_after_is_not_run_again(
    store: Store, clock: ManualClock
) -> None:
    attempts: list[int] = []
    condition = threading.Condition()

    def handler(instance: TaskInstance) -> None:
        attempts.append(instance.attempt)
        with condition:
            clock.wait(condition, clock.elapsed() + seconds(4.9))

    scheduler = Scheduler(handler, store, clock=clock)
    scheduler.start()
    scheduler.schedule(once(START, expire_after=seconds(5)))
    clock.advance(seconds(60))
    assert attempts == [1]
    assert store.counts()[State.COMPLETED] == 1


def test_a_handler_that_always_fails_is_run_again_each_time_expire_after_passes(
    store: Store, clock: ManualClock
) -> None:
    at: list[datetime] = []

    def handler(instance: TaskInstance) -> None:
        at.append(clock.now())
        raise ValueError("no")

    scheduler = Scheduler(handler, store, clock=clock)
    scheduler.start()
    scheduler.schedule(once(START, expire_after=seconds(5)))
    clock.advance(seconds(27))
    assert len(at) == 6
    for number, time in enumerate(at):
        assert abs(time - (START + number * seconds(5))) < seconds(0.1)
    for before, after in itertools.pairwise(at):
        assert after - before >= seconds(5)


def test_an_interval_of_a_second_fires_once_a_second(
    scheduler: Scheduler, calls: Calls, clock: ManualClock
) -> None:
    scheduler.schedule(every(seconds(1)))
    clock.advance(seconds(10.5))
    assert calls.at == [START + seconds(number) for number in range(1, 11)]


def test_what_is_completed_is_cleaned_up_with_its_instances(
    calls: Calls, store: Store, clock: ManualClock
) -> None:
    scheduler = Scheduler(calls, store, clock=clock, retention=seconds(90))
    scheduler.start()
    definition = scheduler.schedule(once(START + seconds(1)))
    recurring = scheduler.schedule(every(timedelta(hours=12)))
    clock.advance(seconds(90))
    [instance] = calls.got
    assert scheduler.get_instance(instance.id).state is State.COMPLETED
    assert scheduler.get_definition(definition.id).completed_at is not None
    clock.advance(seconds(62))
    with pytest.raises(TaskInstanceNotFoundError):
        scheduler.get_instance(instance.id)
    with pytest.raises(TaskDefinitionNotFoundError):
        scheduler.get_definition(definition.id)
    assert scheduler.get_definition(recurring.id).completed_at is None


@pytest.mark.slow
def test_all_of_it_holds_in_real_time() -> None:
    clock = SystemClock()
    counts = {"once": 0, "hung": 0, "failing": 0}
    order: list[int] = []
    starts: list[tuple[datetime, TaskInstance]] = []
    hung_again, failed_thrice, ended = (threading.Event() for _ in range(3))

    def handler(instance: TaskInstance) -> None:
        starts.append((clock.now(), instance))
        kind = instance.metadata["kind"]
        if kind == "order":
            order.append(int(str(instance.metadata["number"])))
            return
        if kind == "tick":
            return
        assert isinstance(kind, str)
        counts[kind] += 1
        if kind == "hung":
            if counts[kind] == 1:
                ended.wait(FAILED_AFTER)
            else:
                hung_again.set()
        if kind == "failing":
            if counts[kind] == 3:
                failed_thrice.set()
            raise ValueError("no")

    def one(kind: str, after: float, number: int = 0) -> TaskDefinition:
        return TaskDefinition(
            trigger=ExecuteOnceTrigger(clock.now() + seconds(after)),
            metadata={"kind": kind, "number": number},
            expire_after=seconds(0.5),
        )

    with Scheduler(handler) as scheduler:
        scheduler.schedule(one("once", 1))
        for number in (3, 2, 1):
            scheduler.schedule(one("order", 0.2 * number, number))
        scheduler.schedule(one("hung", 0))
        scheduler.schedule(one("failing", 0))
        ticking = IntervalTrigger(seconds(0.1))
        scheduler.schedule(
            TaskDefinition(trigger=ticking, metadata={"kind": "tick", "number": 0})
        )
        assert hung_again.wait(FAILED_AFTER)
        assert failed_thrice.wait(FAILED_AFTER)
        ended.set()
    assert counts["once"] == 1
    assert order == [1, 2, 3]
    assert counts["hung"] == 2
    assert all(at >= instance.execute_at for at, instance in starts)
    ticks = [one for _, one in starts if one.metadata["kind"] == "tick"]
    assert len({each.fire_time for each in ticks}) == len(ticks)
