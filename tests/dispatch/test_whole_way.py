"""The whole way: published, run by workers, recorded; on RabbitMQ, and in memory."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack, closing
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import HandlerRegistry, RetryPolicy, Scheduler, State, current_run
from go_scheduler.client import Client
from go_scheduler.dispatch import Dispatcher, DispatchWorker, open_bus
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.run import RetryAfter
from go_scheduler.stores import open_store
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskInstance

MANY = 40


class World:
    """A scheduler and two workers on a bus, with some tasks."""

    def __init__(self, bus_url: str, store_url: str, stack: ExitStack) -> None:
        self.ran: Counter[object] = Counter()
        self.finished: SimpleQueue[InstanceFinished] = SimpleQueue()
        self.begun, self.told = threading.Event(), threading.Event()
        self.here: list[str] = []
        self.store = stack.enter_context(closing(open_store(store_url)))
        namespace = f"test-{uuid4().hex}"
        bus = stack.enter_context(open_bus(bus_url))
        dispatcher = Dispatcher(bus, namespace=namespace)
        tasks = self.tasks()
        on_bus = dict.fromkeys(["count", "again", "wait"], dispatcher)
        self.scheduler = Scheduler(
            tasks.routed(on_bus),
            self.store,
            listeners=[hears(InstanceFinished)(self.finished.put)],
        )
        stack.enter_context(self.scheduler)
        stack.enter_context(dispatcher.hearing(self.scheduler))
        for name in ("anna", "bert"):
            worker_bus = stack.enter_context(open_bus(bus_url))
            worker = DispatchWorker(worker_bus, tasks, namespace=namespace, name=name)
            stack.enter_context(worker)

    def tasks(self) -> HandlerRegistry:
        """What runs on the bus, and what runs here."""
        tasks = HandlerRegistry()

        @tasks.task("count")
        def count(number: int) -> int:
            self.ran[number] += 1
            return number * 2

        @tasks.task("again", retry=RetryPolicy(max_attempts=3))
        def again() -> None:
            self.ran["again"] += 1
            if self.ran["again"] < 3:
                raise RetryAfter(timedelta(0), "not yet")
            raise ZeroDivisionError("by zero")

        # It hears each second whether it is cancelled; what others do runs once,
        # however slow the machine is.
        @tasks.task("wait", heartbeat_timeout=timedelta(seconds=3))
        def wait() -> None:
            self.begun.set()
            while not current_run().cancelled:
                if self.told.wait(0.01):
                    return
            raise InterruptedError("it was told to end")

        @tasks.task("local")
        def local() -> None:
            self.here.append(threading.current_thread().name)

        return tasks

    def ended(self) -> TaskInstance:
        """The next instance that has ended."""
        event = self.finished.get(timeout=FAILED_AFTER)
        return self.scheduler.get_instance(event.instance_id)


@pytest.fixture
def world(
    engine: str, store_url: str, request: pytest.FixtureRequest
) -> Iterator[World]:
    """Without a database on a bus in memory, with one on RabbitMQ."""
    bus_url = "memory://"
    if engine != "memory":
        bus_url = request.getfixturevalue("rabbitmq_server").url
    with ExitStack() as stack:
        yield World(bus_url, store_url, stack)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgresql"], indirect=True)
def test_what_is_due_is_run_once_and_its_end_recorded(world: World) -> None:
    scheduler = world.scheduler
    for number in range(MANY):
        scheduler.enqueue("count", number=number)
    ended = [world.ended() for _ in range(MANY)]
    assert world.ran == Counter(range(MANY))
    assert {each.state for each in ended} == {State.COMPLETED}
    assert sorted(each.result for each in ended) == [2 * each for each in range(MANY)]  # type: ignore[type-var]
    assert {each.worker for each in ended} <= {"anna", "bert"}
    scheduler.enqueue("local")
    assert world.ended().worker is None
    assert len(world.here) == 1
    scheduler.enqueue("again")
    failed = world.ended()
    assert (failed.state, failed.runs) == (State.FAILED, 3)
    assert "ZeroDivisionError: by zero" in (failed.error or "")
    assert {each.worker for each in scheduler.list_runs(failed.id)} <= {"anna", "bert"}
    for canceller in (scheduler, Client(world.store)):
        world.begun.clear()
        instance = scheduler.enqueue("wait")
        assert world.begun.wait(FAILED_AFTER)
        canceller.cancel(instance.id)
        assert world.ended().state is State.CANCELLED
