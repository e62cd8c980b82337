"""The node: its loops start together, and stop in an order in which nothing is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import DrivingClock, SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import State
from go_scheduler.node import Node
from go_scheduler.running.calling.workers import Handling
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import definition, put
from go_scheduler.testing.clock import START
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import SETTINGS, instance, seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.clock import Clock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.testing import ManualClock

LOOPS = {"definition scheduler", "cleanup", "zone watch", "takeover"}
EXECUTION = {
    "instance runner",
    "starter",
    "timer",
    "recorder",
    "keeper",
    "slots",
    "hand-over",
}


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


def test_it_has_eleven_loops_and_four_without_a_handler(
    store: MemoryStore, clock: ManualClock
) -> None:
    assert set(node(print, store, clock).health().loops) == LOOPS | EXECUTION
    without = node(None, store, clock)
    assert set(without.health().loops) == LOOPS
    without.start()
    once(store)
    without.look()
    clock.advance(seconds(5))
    assert store.counts()[State.PENDING] == 1
    assert without.health().ok
    assert without.stop(None)


def test_each_node_is_another(store: MemoryStore, clock: ManualClock) -> None:
    one, two = node(None, store, clock), node(None, store, clock)
    assert one.health().node != two.health().node


def test_it_tells_that_it_has_stopped(store: MemoryStore, clock: ManualClock) -> None:
    one = node(print, store, clock)
    told: list[str] = []
    one.start()
    one.when_stopped(lambda: told.append("first"))
    assert (one.stopping, one.stopped) == (False, False)
    one.request_stop()
    assert (one.stopping, one.stopped) == (True, False)
    clock.advance(seconds(1))
    assert (one.stopping, one.stopped) == (True, True)
    assert told == ["first"]
    one.when_stopped(lambda: told.append("late"))
    assert told == ["first", "late"]


def test_it_is_well_only_while_it_runs(store: MemoryStore, clock: ManualClock) -> None:
    one = node(print, store, clock)
    one.start()
    clock.advance(seconds(1))
    health = one.health()
    assert health.ok
    assert all(loop.ok and loop.error is None for loop in health.loops.values())
    one.request_stop()
    assert not one.health().ok


def test_a_loop_that_is_late_by_ten_seconds_is_not_well() -> None:
    class Hanging(MemoryStore):
        def delete_finished(self, *_: object, **__: object) -> int:
            ticking.set()
            assert go.wait(FAILED_AFTER)
            return 0

    class SkippingClock(SystemClock):
        skipped = seconds(0)

        def elapsed(self) -> timedelta:
            return super().elapsed() + self.skipped

    ticking, go = threading.Event(), threading.Event()
    clock = SkippingClock()
    one = node(None, Hanging(), clock)
    one.start()
    assert ticking.wait(FAILED_AFTER)
    assert one.health().loops["cleanup"].ok
    clock.skipped = seconds(11)
    assert not one.health().loops["cleanup"].ok
    assert not one.health().ok
    go.set()
    assert one.stop(None)


def test_a_hung_handler_is_a_stuck_worker_and_does_not_hold_up_the_stop(
    store: MemoryStore,
) -> None:
    called, go = threading.Event(), threading.Event()

    def hang(instance: TaskInstance) -> None:
        called.set()
        go.wait(FAILED_AFTER)

    clock = SystemClock()
    own = MemoryStore()
    one = node(hang, own, clock)
    one.start()
    put(
        own,
        definition(
            own.now(),
            trigger=ExecuteOnceTrigger(own.now()),
            expire_after=seconds(0.1),
        ),
    )
    one.look()
    assert called.wait(FAILED_AFTER)
    assert one.stop(None) is False
    assert one.health().stuck_workers >= 1
    assert not one.health().ok
    go.set()


def test_a_node_whose_executor_takes_nothing_is_not_well_and_says_why() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    own = MemoryStore()
    one = Node(Handling(print, executor), own, SystemClock(), SETTINGS)
    one.start()
    assert (one.health().trouble, one.health().ok) == (None, True)
    once(own)
    one.look()
    # It is asked again every second, and told of no more while that is.
    while (health := one.health()).trouble is None:
        pass
    assert "after shutdown" in health.trouble
    assert not health.ok
    assert one.stop(None)
    [instance] = own.list_instances()
    assert (instance.state, instance.runs) == (State.PENDING, 0)


def test_a_stop_with_a_timeout_leaves_behind_what_still_runs() -> None:
    called, go = threading.Event(), threading.Event()

    def hang(instance: TaskInstance) -> None:
        called.set()
        go.wait(FAILED_AFTER)

    own = MemoryStore()
    one = node(hang, own, SystemClock())
    one.start()
    once(own)
    one.look()
    assert called.wait(FAILED_AFTER)
    assert one.stop(timedelta(milliseconds=1)) is False
    assert one.stopped
    assert one.stop(timedelta(0)) is False
    assert own.counts()[State.RUNNING] == 1
    go.set()


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


def test_a_claim_that_was_under_way_when_it_stopped_is_given_back() -> None:
    claiming, go = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def claim_instances(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            found = super().claim_instances(*args, **kwargs)  # type: ignore[arg-type]
            if found:
                claiming.set()
                assert go.wait(FAILED_AFTER)
            return found

    own = Slow()
    hour = timedelta(hours=1)
    ahead = replace(SETTINGS, runner_window=hour, schedule_window=hour, lease=hour)
    one = Node(Handling(lambda _: None), own, SystemClock(), ahead)
    one.start()
    at = own.now() + hour / 2
    put(own, definition(at, trigger=ExecuteOnceTrigger(at)))
    one.look()
    assert claiming.wait(FAILED_AFTER)
    one.request_stop()
    go.set()
    assert one.stop(None)
    assert own.counts()[State.PENDING] == 1


def test_what_is_called_just_as_it_stops_is_not_given_back(
    store: MemoryStore, clock: ManualClock
) -> None:
    one = node(lambda _: None, store, clock)
    execution = one._execution
    run = HeldRun(instance(), expire_after=seconds(300))
    execution.held.add([run])
    execution.held.fall_due([run], clock.elapsed())

    class Calling(Held):
        def uncalled(self) -> Sequence[HeldRun]:
            found = super().uncalled()
            assert self.call(run)
            return found

    execution.held.__class__ = Calling
    execution.give_back()
    assert execution.is_running
    assert execution.recorder.unrecorded == 0


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


def test_whoever_waits_for_the_stop_finds_the_loops_ended(
    store: MemoryStore, clock: ManualClock
) -> None:
    one = node(print, store, clock)
    one.start()
    ended: list[bool] = []
    one.when_stopped(
        lambda: ended.append(all(ticker.ended for ticker in one._tickers()))
    )
    assert one.stop(None)
    assert ended == [True]


def test_whoever_waits_for_the_stop_may_close_the_store() -> None:
    renewing, go = threading.Event(), threading.Event()
    one = node(print, MemoryStore(), SystemClock())

    def renew() -> None:
        renewing.set()
        assert go.wait(FAILED_AFTER)

    one._execution.keeper.ticker._tick = renew
    one.start()
    assert renewing.wait(FAILED_AFTER)
    one.request_stop()
    thread = one._execution.recorder.ticker._thread
    assert thread is not None
    thread.join(FAILED_AFTER)
    assert not thread.is_alive()
    assert not one.stopped
    go.set()
    assert one.stop(None)


def test_what_an_answer_has_left_unknown_is_given_back_when_the_store_is_there(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = MemoryStore(clock)
    one = node(print, own, clock)
    one.start()
    one._execution._unanswered.note()

    def away(*_: object, **__: object) -> object:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(own, "list_claimed", away)
        assert not one._execution.give_back_unknown()
    assert one._execution.give_back_unknown()
    assert one.stop(None)


@pytest.mark.parametrize("started", range(12))
def test_a_node_that_cannot_start_all_its_threads_starts_none(
    monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    real: Callable[[threading.Thread], None] = threading.Thread.start
    left = started

    def start(self: threading.Thread) -> None:
        nonlocal left
        if left == 0:
            raise RuntimeError("can't start new thread")
        left -= 1
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    one = node(lambda _: None, MemoryStore(), SystemClock())
    if started < 11:
        with pytest.raises(RuntimeError, match="new thread"):
            one.start()
        assert one.stopping
        assert one.stop(None) is False
    else:
        one.start()
        with pytest.raises(RuntimeError, match="new thread"):
            one.request_stop()
        if left == 0:
            left = 1
        assert one.stop(None)
    for ticker in one._tickers():
        if ticker._thread is not None and ticker._thread.ident is not None:
            ticker._thread.join(FAILED_AFTER)
        assert ticker.ended


def test_the_order_of_two_stops_makes_no_difference(
    store: MemoryStore, clock: ManualClock
) -> None:
    one = node(lambda _: None, store, clock)
    one.start()
    clock.advance(seconds(3))
    assert one.stop(None)
    assert one.stop(None)
    assert one.stop(seconds(3))
    assert clock.now() <= START + seconds(4)


def test_what_is_held_is_given_back_though_nobody_waits_for_it(
    store: MemoryStore, clock: ManualClock
) -> None:
    one = node(print, store, clock)
    one.start()
    soon = store.now() + seconds(0.9)
    put(store, definition(soon, trigger=ExecuteOnceTrigger(soon)))
    clock.advance(seconds(0.6))
    assert store.counts()[State.CLAIMED] == 1
    assert not one.stop(seconds(0))
    clock.advance(seconds(0.1))
    assert store.counts()[State.PENDING] == 1
    clock.advance(seconds(10))
    assert store.counts()[State.COMPLETED] == 0
