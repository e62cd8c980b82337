"""The node: its loops start together, and stop in an order in which nothing is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import DrivingClock, SystemClock
from go_scheduler.models import State
from go_scheduler.node import Node
from go_scheduler.running.calling.workers import Handling
from go_scheduler.running.held import HeldRun
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import definition, put
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import SETTINGS, instance, seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskDefinition
    from go_scheduler.testing import ManualClock


def node(handler: Handler | None, store: MemoryStore, clock: Clock) -> Node:
    executor = clock.executor if isinstance(clock, DrivingClock) else None
    return Node(Handling(handler, executor), store, clock, SETTINGS)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """What a node does is the same on any store."""
    return MemoryStore(clock)


def once(store: MemoryStore) -> TaskDefinition:
    now = store.now()
    return put(store, definition(now, trigger=ExecuteOnceTrigger(now)))


def test_what_ends_just_as_it_stops_is_recorded(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = node(lambda _: None, store, clock)
    one.start()
    recorder = one._execution.recorder
    succeed = recorder.succeed
    stopped: list[bool] = []

    def interrupted(run: object) -> None:
        """Between the handler's end and its record, the stop takes a step."""
        one._stop_step()
        stopped.append(one.stopped)
        succeed(run)  # type: ignore[arg-type]

    monkeypatch.setattr(recorder, "succeed", interrupted)
    once(store)
    one.look()
    clock.advance(seconds(1))
    assert stopped == [False]
    assert store.counts()[State.COMPLETED] == 1


def test_what_a_loop_has_taken_as_it_ended_is_given_back(
    store: MemoryStore, clock: ManualClock
) -> None:
    one = node(lambda _: None, store, clock)
    execution = one._execution
    run = HeldRun(instance(), expire_after=seconds(300))

    class Taking(Ticker):
        @property
        def ended(self) -> bool:
            execution.held.add([run])
            return super().ended

    execution.makers[0].__class__ = Taking
    assert one._stop_making()
    assert not execution.held.has(run)


def test_a_stop_that_gets_no_thread_may_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = node(lambda _: None, MemoryStore(), SystemClock())
    one.start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="new thread"):
            one.request_stop()
    assert one.stop(seconds(FAILED_AFTER))
