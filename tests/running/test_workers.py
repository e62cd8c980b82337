"""The workers: a bounded number of handlers, and nothing they raise costs a worker."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections import deque
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.thread import BrokenThreadPool
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Never

import pytest

from go_scheduler.clock import ZERO, StoreClock, SystemClock
from go_scheduler.errors import SchedulerStateError
from go_scheduler.handlers.registry import Handler, HandlerRegistry
from go_scheduler.models import State
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.run import Fail, GiveBack, HandedOn, RetryAfter, current_run, run_here
from go_scheduler.running.calling.calls import Calls
from go_scheduler.running.calling.event_loop import ApplicationLoop, OwnEventLoop
from go_scheduler.running.calling.workers import Handling, Spares, Workers
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.keeper import Keeper
from go_scheduler.running.recorder import Recorder
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import InlineExecutor, ManualClock
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    claim,
    definition,
    fire,
    put,
)
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.feed import Feed
    from go_scheduler.running.recorder import Entry

MINUTE = timedelta(minutes=1)


class Noting(Keeper):
    """Notes what it is to look after."""

    def __init__(self, lease: timedelta) -> None:
        self.watched: list[HeldRun] = []
        self.looks = 0
        self.lease = lease

    def watch(self, run: HeldRun) -> None:
        self.watched.append(run)

    def look(self) -> None:
        self.looks += 1


@dataclass
class Pool:
    """Workers, what they are given, and what became of it."""

    handler: Handler
    max_workers: int = 2
    max_hung: int = 4
    executor: Executor | None = None
    application: ApplicationLoop | None = None
    clock: ManualClock | SystemClock = field(default_factory=SystemClock)
    lease: timedelta = LEASE
    retry: RetryPolicy | None = None
    catch_up: CatchUp = CatchUp()

    def __post_init__(self) -> None:
        self._others = threading.enumerate()
        self.store = MemoryStore(self.clock)
        store_clock = StoreClock(self.clock, self.store.now)
        self.held = Held()
        self.keeper = Noting(self.lease)
        self.ends = threading.Semaphore(0)
        self.recorder = Recorder(
            self.store,
            store_clock,
            defaults=Defaults(retry=self.retry, catch_up=self.catch_up),
            max_hangs=None,
            recorded=lambda: None,
        )
        outbox = self.recorder._outbox
        put = outbox.put

        def put_and_tell(entry: Entry) -> bool:
            is_first = put(entry)
            self.ends.release()
            return is_first

        outbox.put = put_and_tell  # type: ignore[method-assign]
        self.spares = Spares(self.held, most=self.max_hung)
        self.calls = Calls(
            self.handler,
            store_clock,
            held=self.held,
            spares=self.spares,
            recorder=self.recorder,
            keeper=self.keeper,
        )
        self.workers = Workers(
            self.calls,
            store_clock,
            spares=self.spares,
            handling=Handling(self.handler, self.executor, self.application),
            max_workers=self.max_workers,
        )

    @property
    def feed(self) -> Feed:
        assert self.workers._feed is not None
        return self.workers._feed

    def submit(
        self,
        count: int = 1,
        *,
        name: str | None = None,
        expire_after: timedelta | None = None,
    ) -> list[HeldRun]:
        runs = [self.run(name, expire_after) for _ in range(count)]
        self.workers.submit(runs)
        return runs

    def run(
        self, name: str | None = None, expire_after: timedelta | None = None
    ) -> HeldRun:
        of = definition(self.store.now(), name=name, expire_after=expire_after)
        fire(self.store, put(self.store, of))
        [instance] = claim(self.store)
        run = HeldRun(instance, expire_after=EXPIRE_AFTER)
        self.held.add([run])
        return run

    def wait(self, count: int) -> None:
        """Until so many have ended, and have been written."""
        for _ in range(count):
            assert self.ends.acquire(timeout=FAILED_AFTER)
        self.recorder._outbox._last = None
        self.recorder.tick()

    def stored(self, run: HeldRun) -> TaskInstance:
        return self.store.get_instance(run.instance.id)

    @property
    def threads(self) -> list[threading.Thread]:
        names = ("go_scheduler worker", "go_scheduler event loop")
        return [
            each
            for each in threading.enumerate()
            if each not in self._others and each.name.startswith(names)
        ]

    def join(self) -> None:
        """Until its threads have ended, once it was stopped and nothing hangs."""
        for thread in self.threads:
            thread.join(FAILED_AFTER)
            assert not thread.is_alive()


@pytest.fixture
def pools() -> Iterator[Callable[..., Pool]]:
    """Makes pools, whose threads are ended when the test is over."""
    made: list[Pool] = []

    def make(handler: Handler, **options: object) -> Pool:
        made.append(Pool(handler, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pool in made:
        pool.workers.stop()
        # A worker logs after it has told what came of a run: not into the next test.
        pool.join()


def test_a_handler_that_returns_has_completed(pools: Callable[..., Pool]) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append)
    [run] = pool.submit()
    pool.wait(1)
    assert called == [run.instance]
    assert pool.stored(run).state is State.COMPLETED
    assert pool.keeper.watched == [run]
    assert run.called is not None


def test_handlers_run_on_daemon_threads_no_more_than_allowed(
    pools: Callable[..., Pool],
) -> None:
    at_once: list[int] = []
    running: list[None] = []
    full, go = threading.Event(), threading.Event()

    def handler(instance: TaskInstance) -> None:
        running.append(None)
        at_once.append(len(running))
        assert threading.current_thread().daemon
        if len(running) == 3:
            full.set()
        assert go.wait(FAILED_AFTER)
        running.pop()

    pool = pools(handler, max_workers=3)
    pool.submit(10)
    assert full.wait(FAILED_AFTER)
    assert len(pool.held.running()) == 3
    assert len(pool.held.due()) == 7
    go.set()
    pool.wait(10)
    assert max(at_once) == 3


def test_a_thread_that_is_free_is_used_again(pools: Callable[..., Pool]) -> None:
    threads = set()
    pool = pools(lambda _: threads.add(threading.get_ident()), max_workers=8)
    for _ in range(20):
        pool.submit()
        pool.wait(1)
        while not pool.workers._threads._free:  # it says so right after the end
            pass
    assert len(threads) == 1


def test_no_run_waits_while_a_worker_is_free(pools: Callable[..., Pool]) -> None:
    together = threading.Barrier(4)
    pool = pools(lambda _: together.wait(FAILED_AFTER), max_workers=4)
    for _ in range(20):
        runs = pool.submit(4)
        pool.wait(4)
        assert {pool.stored(run).state for run in runs} == {State.COMPLETED}


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Mute()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["sync", "async", "coroutine"])
def test_whatever_a_handler_raises_is_recorded_and_the_worker_lives(
    pools: Callable[..., Pool], error: BaseException, kind: str
) -> None:
    async def fail(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        raise error

    def fail_here(instance: TaskInstance) -> None:
        raise error

    async def work(instance: TaskInstance) -> None:
        await asyncio.sleep(0)

    handlers = HandlerRegistry()
    failing: dict[str, Handler] = {
        "sync": fail_here,
        "async": fail,
        "coroutine": lambda one: fail(one),
    }
    working: dict[str, Handler] = {
        "sync": lambda one: None,
        "async": work,
        "coroutine": lambda one: work(one),
    }
    handlers.register("fail")(failing[kind])
    handlers.register("work")(working[kind])
    pool = pools(handlers, max_workers=1)
    [failed] = pool.submit(name="fail")
    pool.wait(1)
    [worked] = pool.submit(name="work")
    pool.wait(1)
    stored = pool.stored(failed)
    assert stored.state is State.PENDING
    assert type(error).__name__ in (stored.error or "")
    assert pool.stored(worked).state is State.COMPLETED
    come_back(pool)
    assert pool.held.busy == 0


def test_async_handlers_run_on_one_event_loop_no_more_than_allowed(
    pools: Callable[..., Pool],
) -> None:
    at_once: list[int] = []
    running: list[None] = []
    loops = set()
    full = asyncio.Event()

    async def handler(instance: TaskInstance) -> None:
        loops.add(asyncio.get_running_loop())
        assert current_run().instance is instance
        running.append(None)
        at_once.append(len(running))
        if len(running) == 3:
            full.set()
        await full.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        running.pop()

    pool = pools(handler, max_workers=3)
    runs = pool.submit(10)
    pool.wait(10)
    assert max(at_once) == 3
    assert len(loops) == 1
    assert {pool.stored(run).state for run in runs} == {State.COMPLETED}
    assert pool.workers._threads.count == 0


def test_an_object_whose_call_is_async_needs_no_thread(
    pools: Callable[..., Pool],
) -> None:
    class Handler:
        async def __call__(self, instance: TaskInstance) -> None:
            await asyncio.sleep(0)

    pool = pools(Handler())
    [run] = pool.submit()
    pool.wait(1)
    assert pool.stored(run).state is State.COMPLETED
    assert pool.workers._threads.count == 0


def test_what_a_handler_returns_is_awaited_before_the_run_is_done(
    pools: Callable[..., Pool],
) -> None:
    seen = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(run_here())

    pool = pools(lambda instance: work())
    [run] = pool.submit()
    pool.wait(1)
    assert seen == [run]
    assert pool.stored(run).state is State.COMPLETED


def test_a_task_of_a_handler_that_exits_does_not_end_the_event_loop(
    pools: Callable[..., Pool],
) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def handler(instance: TaskInstance) -> None:
        await asyncio.gather(asyncio.create_task(leave()), return_exceptions=True)

    pool = pools(handler)
    pool.submit(5)
    pool.wait(5)
    pool.submit(5)
    pool.wait(5)


def test_each_handler_has_its_own_current_run(pools: Callable[..., Pool]) -> None:
    together = threading.Barrier(2)
    seen = {}

    def handler(instance: TaskInstance) -> None:
        together.wait(FAILED_AFTER)
        seen[instance.id] = run_here()
        current_run().extend(seconds(1))

    pool = pools(handler)
    runs = pool.submit(2)
    pool.wait(2)
    assert seen == {run.instance.id: run for run in runs}
    assert pool.keeper.looks == 2
    assert run_here() is None


def test_once_stopped_the_threads_end_and_what_runs_goes_on(
    pools: Callable[..., Pool],
) -> None:
    started, go = threading.Event(), threading.Event()

    def handler(instance: TaskInstance) -> None:
        started.set()
        assert go.wait(FAILED_AFTER)

    pool = pools(handler)
    [run] = pool.submit()
    assert started.wait(FAILED_AFTER)
    pool.workers.stop()
    go.set()
    pool.wait(1)
    assert pool.stored(run).state is State.COMPLETED
    pool.join()


def test_once_stopped_the_event_loop_ends_when_all_its_tasks_have(
    pools: Callable[..., Pool],
) -> None:
    count = 40
    started = threading.Semaphore(0)
    gates: list[asyncio.Event] = []

    async def handler(instance: TaskInstance) -> None:
        gate = asyncio.Event()
        gates.append(gate)
        started.release()
        await gate.wait()

    pool = pools(handler, max_workers=count)
    runs = pool.submit(count)
    for _ in range(count):
        assert started.acquire(timeout=FAILED_AFTER)
    loop = pool.workers._event_loop()._loop
    pool.workers.stop()
    for gate in gates:
        loop.call_soon_threadsafe(gate.set)
        assert pool.ends.acquire(timeout=FAILED_AFTER)
    pool.recorder.tick()
    assert {pool.stored(run).state for run in runs} == {State.COMPLETED}
    pool.join()
    assert loop.is_closed()
    pool.workers._own_loop = None


def test_once_stopped_what_a_thread_awaits_goes_on(pools: Callable[..., Pool]) -> None:
    started, gates = threading.Event(), []

    async def work() -> None:
        gates.append(asyncio.Event())
        started.set()
        await gates[0].wait()

    pool = pools(lambda _: work())
    [run] = pool.submit()
    assert started.wait(FAILED_AFTER)
    loop = pool.workers._event_loop()._loop
    pool.workers.stop()
    loop.call_soon_threadsafe(gates[0].set)
    pool.wait(1)
    assert pool.stored(run).state is State.COMPLETED
    pool.join()
    pool.workers._own_loop = None


def test_once_stopped_no_thread_is_started(pools: Callable[..., Pool]) -> None:
    pool = pools(lambda _: None)
    pool.workers.stop()
    pool.submit(3)
    assert pool.workers._threads.count == 0


def test_an_event_loop_that_is_needed_once_it_stopped_ends_with_its_task(
    pools: Callable[..., Pool],
) -> None:
    async def handler(instance: TaskInstance) -> None:
        await asyncio.sleep(0)

    pool = pools(handler)
    pool.workers.stop()
    [run] = pool.submit()
    pool.wait(1)
    assert pool.stored(run).state is State.COMPLETED
    pool.join()
    pool.workers._own_loop = None


def test_what_was_given_back_is_not_called(pools: Callable[..., Pool]) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append, executor=InlineExecutor())
    run = pool.run()
    assert pool.held.drop(run)
    pool.workers.submit([run])
    assert called == []


def test_what_is_given_back_while_it_waits_for_a_worker_is_not_called(
    pools: Callable[..., Pool],
) -> None:
    started, go = threading.Event(), threading.Event()
    called: list[TaskInstance] = []

    def handler(instance: TaskInstance) -> None:
        called.append(instance)
        started.set()
        assert go.wait(FAILED_AFTER)

    pool = pools(handler, max_workers=1)
    [first] = pool.submit()
    assert started.wait(FAILED_AFTER)
    [second] = pool.submit()
    assert pool.held.drop(second)
    go.set()
    [third] = pool.submit()
    pool.wait(2)
    assert called == [first.instance, third.instance]


@pytest.mark.parametrize(
    ("left", "expire_after", "is_called"),
    [
        (2.001, None, True),
        (2.0, None, False),
        (-1.0, None, False),
        (0.251, 1.0, True),
        (0.25, 1.0, False),
    ],
)
def test_without_enough_of_its_lease_left_a_run_is_given_back(
    pools: Callable[..., Pool],
    clock: ManualClock,
    left: float,
    expire_after: float | None,
    *,
    is_called: bool,
) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append, executor=InlineExecutor(), clock=clock)
    run = pool.run(expire_after=None if expire_after is None else seconds(expire_after))
    run.expires_at = pool.store.now() + seconds(left)
    pool.workers.submit([run])
    assert called == ([run.instance] if is_called else [])
    pool.recorder.tick()
    stored = pool.stored(run)
    assert stored.state is (State.COMPLETED if is_called else State.PENDING)
    assert stored.runs == is_called
    assert (pool.held.waiting, pool.held.busy) == (0, 0)


def test_a_short_lease_has_a_short_margin(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    called: list[TaskInstance] = []
    pool = pools(
        called.append, executor=InlineExecutor(), clock=clock, lease=seconds(2)
    )
    enough, short = pool.run(), pool.run()
    enough.expires_at = pool.store.now() + seconds(0.501)
    short.expires_at = pool.store.now() + seconds(0.5)
    pool.workers.submit([enough, short])
    assert called == [enough.instance]


def test_what_has_waited_for_too_long_when_its_worker_comes_to_it_is_dropped(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    called: list[TaskInstance] = []
    pool = pools(
        called.append,
        executor=InlineExecutor(),
        clock=clock,
        catch_up=CatchUp(drop_after=seconds(1)),
    )
    in_time, late, gone = (pool.run() for _ in range(3))
    for run in (late, gone):
        waited = seconds(1.000001)
        run.instance = replace(
            run.instance, execute_at=run.instance.execute_at - waited
        )
    assert pool.held.drop(gone)
    assert not pool.calls.begin(gone)
    pool.workers.submit([in_time, late])
    assert called == [in_time.instance]
    pool.recorder.tick()
    dropped = pool.stored(late)
    assert (dropped.state, dropped.runs) == (State.SKIPPED, 0)
    assert dropped.skipped is not None
    assert dropped.skipped.reason == "late by more than its drop_after of 0:00:01"
    assert pool.held.busy == 0


def test_a_run_that_is_known_to_be_lost_is_not_called(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append, executor=InlineExecutor(), clock=clock)
    run = pool.run()
    run.lost = True
    pool.workers.submit([run])
    assert called == []
    assert pool.held.busy == 0


def test_a_run_that_is_lost_and_given_back_by_another_is_given_back_once(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    pool = pools(lambda _: None, executor=InlineExecutor(), clock=clock)
    run = pool.run()
    pool.held.fall_due([run], pool.clock.elapsed())
    run.lost = True
    assert pool.held.drop(run)
    assert not pool.calls.begin(run)
    assert pool.recorder.unrecorded == 0


def test_an_async_run_without_enough_of_its_lease_is_given_back(
    pools: Callable[..., Pool],
) -> None:
    async def handler(instance: TaskInstance) -> None:
        raise AssertionError("called")

    pool = pools(handler)
    run = pool.run()
    run.expires_at = pool.store.now()
    pool.workers.submit([run])
    pool.wait(1)
    assert pool.stored(run).state is State.PENDING


def held_run() -> HeldRun:
    """The run in which this is called, as the loops have it."""
    run = run_here()
    assert isinstance(run, HeldRun)
    return run


LOSE: dict[str, Callable[[HeldRun], object]] = {
    "lost": lambda run: setattr(run, "lost", True),
    "presumed hung": lambda run: run.settle(),
}


@pytest.mark.parametrize("how", LOSE)
def test_a_run_that_lost_its_claim_or_was_given_up_records_only_a_success(
    pools: Callable[..., Pool], clock: ManualClock, how: str
) -> None:
    fails = True

    def handler(instance: TaskInstance) -> None:
        LOSE[how](held_run())
        if fails:
            raise ValueError("late")

    pool = pools(handler, executor=InlineExecutor(), clock=clock)
    pool.submit()
    assert pool.recorder.unrecorded == 0
    fails = False
    [run] = pool.submit()
    pool.recorder.tick()
    assert pool.stored(run).state is State.COMPLETED
    assert pool.held.busy == 0


@pytest.mark.parametrize("how", LOSE)
def test_a_run_that_lost_its_claim_or_was_given_up_is_not_handed_on(
    pools: Callable[..., Pool], clock: ManualClock, how: str
) -> None:
    def handler(instance: TaskInstance) -> HandedOn:
        LOSE[how](held_run())
        return HandedOn()

    pool = pools(handler, executor=InlineExecutor(), clock=clock)
    pool.submit()
    assert (pool.recorder.unrecorded, pool.held.busy) == (0, 0)


def test_of_a_lost_run_that_joined_a_transaction_nothing_more_is_recorded(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    def handler(instance: TaskInstance) -> None:
        held_run().lost = held_run().joined = True

    pool = pools(handler, executor=InlineExecutor(), clock=clock)
    pool.submit()
    assert pool.recorder.unrecorded == 0


def test_the_inline_executor_awaits_what_a_handler_returns(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    seen = []

    async def handler(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        seen.append(run_here())

    pool = pools(handler, executor=InlineExecutor(), clock=clock)
    [run] = pool.submit()
    assert seen == [run]
    assert (pool.workers._threads.count, pool.workers._own_loop) == (0, None)


def test_handlers_may_run_on_a_stock_executor(pools: Callable[..., Pool]) -> None:
    called: list[TaskInstance] = []
    with ThreadPoolExecutor(1) as executor:
        pool = pools(called.append, executor=executor)
        runs = pool.submit(5)
        pool.wait(5)
    assert [run.instance for run in runs] == called


class FullExecutor(Executor):
    """Takes the first, and refuses what follows."""

    def __init__(self, takes: int) -> None:
        self.takes = takes

    def submit(self, fn: object, /, *args: object, **kwargs: object) -> Future[object]:  # type: ignore[override]
        self.takes -= 1
        if self.takes < 0:
            raise RuntimeError("no room")
        assert callable(fn)
        fn(*args, **kwargs)
        return Future()


def test_what_cannot_be_handed_over_is_given_back_and_costs_no_other_run(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append, executor=FullExecutor(1), clock=clock)
    runs = [pool.run() for _ in range(3)]
    pool.workers.submit(runs)
    pool.recorder.tick()
    states = [pool.stored(run).state for run in runs]
    assert states == [State.COMPLETED, State.PENDING, State.PENDING]
    assert (pool.held.waiting, pool.held.busy) == (0, 0)


def test_runs_that_fall_due_at_once_find_their_threads_started(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    met = threading.Barrier(3)
    pool = pools(lambda _: met.wait(FAILED_AFTER) and None, max_workers=4, clock=clock)
    later = [pool.run()]
    clock.advance(seconds(1))
    crowd = [pool.run() for _ in range(2)]
    pool.workers.prepare([*later, *crowd])
    assert pool.workers._threads.count == 2
    pool.workers.prepare(later)
    pool.workers.prepare([])
    assert pool.workers._threads.count == 2
    # Each thread that was started before counts as free once.
    pool.workers.submit([*later, *crowd])
    pool.wait(3)
    assert pool.workers._threads.count == 3
    pool.workers.prepare([pool.run() for _ in range(5)])
    assert pool.workers._threads.count == 4


@pytest.mark.parametrize("how", ["async", "executor"])
def test_runs_that_need_no_threads_find_none_started(
    pools: Callable[..., Pool], how: str
) -> None:
    async def handler(instance: TaskInstance) -> None: ...

    if how == "async":
        pool = pools(handler)
    else:
        pool = pools(lambda _: None, executor=InlineExecutor())
    pool.workers.prepare([pool.run()])
    assert pool.workers._threads.count == 0


def test_a_thread_that_cannot_be_started_before_is_started_when_it_is_needed(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append)
    run = pool.run()
    with monkeypatch.context() as patch:

        def start(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", start)
        pool.workers.prepare([run])
    assert pool.workers._threads.count == 0
    pool.workers.submit([run])
    pool.wait(1)
    assert called == [run.instance]


def test_a_thread_that_cannot_be_started_takes_no_place_of_another(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[TaskInstance] = []
    pool = pools(called.append, max_workers=1)
    first, second = pool.run(), pool.run()
    with monkeypatch.context() as patch:

        def start(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.workers.submit([first])
    pool.wait(1)
    pool.workers.submit([second])
    pool.wait(1)
    assert called == [second.instance]


def test_a_run_that_was_taken_by_another_thread_is_not_given_back(
    pools: Callable[..., Pool],
) -> None:
    class Calling(FullExecutor):
        def submit(self, fn: object, /, *args: object, **kwargs: object) -> Never:
            super().submit(fn, *args, **kwargs)
            raise RuntimeError("and yet")

    pool = pools(lambda _: None, executor=Calling(1))
    run = pool.run()
    pool.workers.submit([run])
    pool.recorder.tick()
    assert pool.stored(run).state is State.COMPLETED


def return_nothing(instance: TaskInstance) -> None:
    assert run_here() is None


def fail(instance: TaskInstance) -> None:
    raise ValueError("in another process")


async def work_async(instance: TaskInstance) -> None:
    await asyncio.sleep(0)


def ask_for_the_run(instance: TaskInstance) -> None:
    current_run()


def die(instance: TaskInstance) -> None:
    os._exit(3)


def prepare() -> None:
    pass


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        yield executor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "state", "error"),
    [
        (return_nothing, State.COMPLETED, None),
        (work_async, State.COMPLETED, None),
        (fail, State.PENDING, "ValueError: in another process"),
        (ask_for_the_run, State.PENDING, SchedulerStateError.__name__),
        (lambda _: None, State.FAILED, "ProcessPoolExecutor takes functions of"),
    ],
)
def test_handlers_may_run_in_processes(
    pools: Callable[..., Pool],
    processes: ProcessPoolExecutor,
    clock: ManualClock,
    handler: Handler,
    state: State,
    error: str | None,
) -> None:
    # However long a process takes to come up, no claim lapses.
    pool = pools(handler, executor=processes, clock=clock)
    [run] = pool.submit()
    pool.wait(1)
    stored = pool.stored(run)
    assert stored.state is state
    assert (error or "") in (stored.error or "")


class Unpicklable(KeyError):
    """An error that cannot be made anew in another process."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def raise_any(kind: str, instance: TaskInstance) -> None:
    raise {
        "stops": Unpicklable("lost", "and gone"),
        "again": ValueError("once more"),
        "fails": Fail("for good"),
        "later": RetryAfter(HOUR, "not yet"),
        "all stop": ExceptionGroup("all", [KeyError(1), Unpicklable("a", "b")]),
        "all fail": ExceptionGroup("", [Fail("a"), ExceptionGroup("", [Fail("b")])]),
        "all later": ExceptionGroup("", [RetryAfter(HOUR), RetryAfter(MINUTE * 2)]),
        "mixed": ExceptionGroup("", [Fail("a"), RetryAfter(HOUR), KeyError(1)]),
        "not begun": GiveBack(HOUR, "away"),
        "none begun": ExceptionGroup("", [GiveBack(HOUR), GiveBack(MINUTE, "away")]),
        "one begun": ExceptionGroup("", [GiveBack(HOUR), RetryAfter(HOUR)]),
    }[kind]


async def raise_any_async(kind: str, instance: TaskInstance) -> None:
    raise_any(kind, instance)


class TakesNothing:
    """Cannot be called with an instance."""

    def __call__(self) -> None: ...


class TakesNothingAsync:
    """Neither can this."""

    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "due_in"),
    [
        ("stops", None),
        ("again", MINUTE),
        ("fails", None),
        ("later", HOUR),
        ("all stop", None),
        ("all fail", None),
        ("all later", HOUR),
        ("mixed", MINUTE),
        ("not begun", HOUR),
        ("none begun", HOUR),
        ("one begun", MINUTE),
    ],
)
@pytest.mark.parametrize(
    "place", ["thread", "event loop", pytest.param("process", marks=pytest.mark.slow)]
)
def test_what_a_handler_raises_decides_wherever_it_runs(
    pools: Callable[..., Pool],
    clock: ManualClock,
    request: pytest.FixtureRequest,
    place: str,
    kind: str,
    due_in: timedelta | None,
) -> None:
    handler = partial(raise_any_async if place == "event loop" else raise_any, kind)
    in_process = place == "process"
    executor = request.getfixturevalue("processes") if in_process else None
    retry = RetryPolicy(delay=MINUTE, stop_on=["KeyError"])
    pool = pools(handler, executor=executor, clock=clock, retry=retry)
    [run] = pool.submit()
    pool.wait(1)
    stored = pool.stored(run)
    assert stored.state is (State.FAILED if due_in is None else State.PENDING)
    assert stored.due_at == run.instance.due_at + (due_in or ZERO)
    # What has not begun counts as no run, and has not failed.
    given_back = kind in {"not begun", "none begun"}
    assert (stored.runs, stored.error is None) == (int(not given_back), given_back)
    assert bool(pool.store.list_runs(run.instance.id)) is not given_back


@pytest.mark.parametrize(
    ("handler", "place"),
    [
        (TakesNothing(), "thread"),
        (TakesNothingAsync(), "event loop"),
        pytest.param(TakesNothing(), "process", marks=pytest.mark.slow),
    ],
    ids=["thread", "event loop", "process"],
)
def test_a_handler_that_cannot_be_called_so_fails_at_once_wherever_it_runs(
    pools: Callable[..., Pool],
    clock: ManualClock,
    request: pytest.FixtureRequest,
    handler: Handler,
    place: str,
) -> None:
    in_process = place == "process"
    executor = request.getfixturevalue("processes") if in_process else None
    pool = pools(handler, executor=executor, clock=clock)
    [run] = pool.submit()
    pool.wait(1)
    assert pool.stored(run).state is State.FAILED


@pytest.mark.slow
def test_a_handler_that_ends_its_process_has_failed_and_costs_no_other_run(
    pools: Callable[..., Pool], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, mp_context=context, initializer=prepare)
    with executor:
        handlers = HandlerRegistry()
        handlers.register("dies")(die)
        handlers.register("works")(return_nothing)
        pool = pools(handlers, executor=executor, clock=clock)
        runs = [pool.submit(name=name)[0] for name in ("dies", "works", "works")]
        pool.wait(3)
        assert executor not in (pool.feed._executor, pool.feed._made)
        assert pool.feed._executor._initializer is prepare  # type: ignore[attr-defined]
        pool.workers.stop()
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.feed._executor.submit(prepare)
    assert (pool.stored(runs[0]).error or "").startswith("a process of the pool died")
    assert [pool.stored(run).state for run in runs[1:]] == [State.COMPLETED] * 2
    assert pool.workers.trouble is None
    assert [each.getMessage().split(":")[0] for each in caplog.records][-2:] == [
        "the executor takes no more handlers",
        "the executor takes handlers again",
    ]


class FakeProcesses(ProcessPoolExecutor):
    """Runs nothing, so that the test settles the futures."""

    def __init__(self) -> None:
        self.futures: deque[Future[object]] = deque()

    def submit(self, fn: object, /, *args: object, **kwargs: object) -> Future[object]:  # type: ignore[override]
        self.futures.append(Future())
        return self.futures[-1]


def test_a_call_that_its_process_pool_cancels_has_failed(
    pools: Callable[..., Pool],
) -> None:
    executor = FakeProcesses()
    pool = pools(return_nothing, executor=executor)
    [run] = pool.submit()
    assert executor.futures[0].cancel()
    pool.wait(1)
    assert "CancelledError" in (pool.stored(run).error or "")
    assert pool.held.busy == 0


def test_a_process_is_not_given_a_run_without_enough_of_its_lease(
    pools: Callable[..., Pool],
) -> None:
    executor = FakeProcesses()
    pool = pools(return_nothing, executor=executor)
    run = pool.run()
    run.expires_at = pool.store.now() - seconds(1)
    pool.workers.submit([run])
    assert not executor.futures
    pool.wait(1)
    assert pool.stored(run).state is State.PENDING
    assert pool.stored(run).runs == 0


def test_a_returned_generator_is_a_failed_run(pools: Callable[..., Pool]) -> None:
    pool = pools(lambda instance: (number for number in range(3)))
    [run] = pool.submit()
    pool.wait(1)
    assert "returned a generator" in (pool.stored(run).error or "")


def test_an_executor_is_handed_no_more_than_may_run_at_once(
    pools: Callable[..., Pool],
) -> None:
    release = threading.Event()
    began: SimpleQueue[None] = SimpleQueue()

    def handler(instance: TaskInstance) -> None:
        began.put(None)
        assert release.wait(FAILED_AFTER)

    with ThreadPoolExecutor(10) as executor:
        pool = pools(handler, max_workers=2, executor=executor)
        pool.submit(6)
        for _ in range(2):
            began.get(timeout=FAILED_AFTER)
        assert len(pool.held.running()) == 2
        assert len(pool.held.due()) == 4
        release.set()
        pool.wait(6)
    assert began.qsize() == 4


class Refusing(Executor):
    """Keeps what it is handed, unless it is told to refuse it."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.futures: list[Future[object]] = []

    def submit(self, fn: object, /, *args: object, **kwargs: object) -> Future[object]:  # type: ignore[override]
        if self.error is not None:
            raise self.error
        self.futures.append(Future())
        return self.futures[-1]


def test_an_executor_that_refuses_gets_nothing_more_and_all_is_given_back(
    pools: Callable[..., Pool], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Refusing()
    pool = pools(print, executor=executor, clock=clock, max_workers=1)
    handed, waits, late = pool.run(), pool.run(), pool.run()
    pool.workers.submit([handed, waits])
    assert pool.workers.ready()
    executor.error = RuntimeError("cannot schedule new futures after shutdown")
    # As of an executor whose threads cannot be made ready.
    executor.futures[0].set_exception(BrokenThreadPool("broken"))
    pool.workers.submit([late])
    pool.recorder.tick()
    for run in (handed, waits, late):
        assert (pool.stored(run).state, pool.stored(run).runs) == (State.PENDING, 0)
    assert (pool.held.waiting, pool.held.busy) == (0, 0)
    assert not pool.workers.ready()
    assert "BrokenThreadPool" in (pool.workers.trouble or "")
    [record] = caplog.records
    assert "takes no more handlers" in record.getMessage()


def test_an_executor_that_refuses_is_asked_again_every_second(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    executor = Refusing()
    executor.error = RuntimeError("can't start new thread")
    pool = pools(print, executor=executor, clock=clock)
    pool.submit()
    executor.error = None
    clock.advance(seconds(0.9))
    assert not pool.workers.ready()
    clock.advance(seconds(0.1))
    assert pool.workers.ready()
    assert pool.workers.trouble is None
    assert len(executor.futures) == 1


def test_what_an_executor_cancels_is_given_back(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    executor = Refusing()
    pool = pools(print, executor=executor, clock=clock)
    [run] = pool.submit()
    executor.futures[0].cancel()
    pool.recorder.tick()
    assert pool.stored(run).state is State.PENDING
    assert pool.workers.ready()


def test_that_an_executor_is_broken_is_said_once_though_all_it_had_comes_back(
    pools: Callable[..., Pool], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Refusing()
    pool = pools(print, executor=executor, clock=clock, max_workers=2)
    pool.submit(2)
    executor.error = RuntimeError("no more")
    for future in executor.futures:
        future.set_exception(BrokenThreadPool("broken"))
    assert len(caplog.records) == 1
    # Of one that has been replaced meanwhile.
    pool.feed._refusal = None
    pool.feed._refused(Refusing(), BrokenThreadPool("broken"))
    assert len(caplog.records) == 1
    assert pool.workers.trouble is None


def broken_processes(executor: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A process pool, as it is once one of its processes has died."""
    executor._broken = "it died"  # type: ignore[assignment]
    return executor


def test_what_a_broken_process_pool_refuses_is_given_back_uncalled(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    class Own(ProcessPoolExecutor):
        """One that nobody else knows how to make."""

    pool = pools(print, executor=broken_processes(Own(1)), clock=clock)
    given_back, given_up = pool.run(), pool.run()
    pool.workers.submit([given_back])
    assert not pool.workers.ready()
    assert "BrokenProcessPool" in (pool.workers.trouble or "")
    pool.feed._refusal = None
    # By the keeper, that has recorded it.
    given_up.settle()
    pool.workers.submit([given_up])
    pool.recorder.tick()
    stored = pool.stored(given_back)
    assert (stored.state, stored.runs) == (State.PENDING, 0)
    assert pool.stored(given_up).state is State.RUNNING
    assert (pool.held.waiting, pool.held.busy) == (0, 0)


@pytest.mark.parametrize(
    "name",
    ["max_workers", "mp_context", "initializer", "initargs", "max_tasks_per_child"],
)
def test_a_process_pool_that_does_not_show_how_it_was_made_stays_broken(
    pools: Callable[..., Pool], clock: ManualClock, name: str
) -> None:
    executor = broken_processes(ProcessPoolExecutor(1))
    delattr(executor, f"_{name}")
    pool = pools(print, executor=executor, clock=clock)
    pool.submit()
    assert not pool.workers.ready()


def test_a_process_pool_that_breaks_again_and_again_is_made_once_a_second(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    pool = pools(print, executor=broken_processes(ProcessPoolExecutor(1)), clock=clock)
    pool.submit()
    made = pool.feed._executor
    assert pool.workers.ready()
    assert isinstance(made, ProcessPoolExecutor)
    broken_processes(made)
    pool.submit()
    assert not pool.workers.ready()
    assert pool.feed._executor is made
    clock.advance(seconds(1))
    assert pool.workers.ready()
    assert pool.feed._executor is not made


def test_a_process_pool_that_was_shut_down_is_not_made_again(
    pools: Callable[..., Pool], clock: ManualClock
) -> None:
    executor = ProcessPoolExecutor(1)
    executor.shutdown()
    pool = pools(print, executor=executor, clock=clock)
    pool.submit()
    assert not pool.workers.ready()
    assert "after shutdown" in (pool.workers.trouble or "")


def test_a_process_pool_is_handed_no_more_than_it_has_processes(
    pools: Callable[..., Pool],
) -> None:
    executor = FakeProcesses()
    executor._max_workers = 2  # type: ignore[attr-defined]
    pool = pools(print, executor=executor, max_workers=9)
    assert pool.workers.size == 2
    pool.submit(5)
    assert len(executor.futures) == 2
    assert len(pool.held.due()) == 3


# Handlers that hang.


@dataclass
class Gate:
    """A handler that hangs until it is let go, but for those named "ok"."""

    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, instance: TaskInstance) -> None:
        if instance.definition.name != "ok":
            self.began.release()
            assert self.go.wait(FAILED_AFTER)

    def wait(self, count: int = 1) -> None:
        """Until so many hang."""
        for _ in range(count):
            assert self.began.acquire(timeout=FAILED_AFTER)


def hang(pool: Pool, *runs: HeldRun) -> None:
    """What the keeper does once they are overdue."""
    for run in runs:
        assert run.settle()
        run.lost = True
        pool.held.hang(run)
        pool.workers.replace(run)


def come_back(pool: Pool) -> None:
    """Until nothing runs and no thread is at it, which is known right after the end."""
    while pool.held.running() or pool.workers._threads._calling:
        pass


def test_the_thread_of_a_handler_that_hangs_is_replaced_and_ends_when_it_returns(
    pools: Callable[..., Pool],
) -> None:
    gate = Gate()
    pool = pools(gate, max_workers=1)
    [stuck] = pool.submit()
    gate.wait()
    [thread] = pool.threads
    waiting = pool.submit(2, name="ok")
    hang(pool, stuck)
    pool.wait(2)
    assert {pool.stored(run).state for run in waiting} == {State.COMPLETED}
    assert list(pool.held.apart()) == list(pool.held.hung()) == [stuck]
    gate.go.set()
    thread.join(FAILED_AFTER)
    assert not thread.is_alive()
    pool.wait(1)
    assert pool.stored(stuck).state is State.COMPLETED
    come_back(pool)
    assert (pool.held.busy, [*pool.held.apart(), *pool.held.hung()]) == (0, [])
    assert pool.workers._threads.count == 1


def test_what_has_come_back_by_then_needs_no_other_thread(
    pools: Callable[..., Pool],
) -> None:
    pool = pools(lambda _: None, max_workers=1)
    [run] = pool.submit()
    pool.wait(1)
    come_back(pool)
    pool.workers.replace(run)
    pool.held.hang(run)
    assert (pool.held.busy, [*pool.held.apart(), *pool.held.hung()]) == (0, [])
    pool.workers._threads.replace(run)
    assert pool.workers._threads.count == 1


def test_the_place_of_an_async_handler_that_hangs_is_given_to_the_next(
    pools: Callable[..., Pool],
) -> None:
    gates: list[asyncio.Event] = []
    started = threading.Semaphore(0)

    async def handler(instance: TaskInstance) -> None:
        if instance.definition.name != "ok":
            gates.append(asyncio.Event())
            started.release()
            await gates[-1].wait()

    pool = pools(handler, max_workers=1)
    [stuck] = pool.submit()
    assert started.acquire(timeout=FAILED_AFTER)
    [waiting] = pool.submit(name="ok")
    assert pool.held.due() == [waiting]
    hang(pool, stuck)
    pool.wait(1)
    assert pool.stored(waiting).state is State.COMPLETED
    loop = pool.workers._event_loop()._loop
    loop.call_soon_threadsafe(gates[0].set)
    pool.wait(1)
    assert pool.stored(stuck).state is State.COMPLETED
    # And it has not become two.
    pool.submit(2)
    for number in (1, 2):
        assert started.acquire(timeout=FAILED_AFTER)
        assert len(pool.held.due()) == 2 - number
        loop.call_soon_threadsafe(gates[number].set)
        pool.wait(1)


def test_a_run_that_is_over_cannot_be_told_to_end(pools: Callable[..., Pool]) -> None:
    async def handler(_: TaskInstance) -> None: ...

    pool = pools(handler)
    [run] = pool.submit()
    pool.wait(1)
    # Its task ends a little after its outcome is known.
    while pool.workers.end(run):
        pass
    assert pool.stored(run).state is State.COMPLETED


@pytest.mark.parametrize("returns", [False, True])
def test_an_async_handler_that_blocks_costs_only_what_runs_on_its_event_loop(
    pools: Callable[..., Pool], returns: bool
) -> None:
    gate = Gate()

    async def block(instance: TaskInstance) -> None:
        gate(instance)

    def handler(instance: TaskInstance) -> Awaitable[None]:
        return block(instance)

    pool = pools(handler if returns else block, max_workers=2)
    [stuck] = pool.submit()
    gate.wait()
    old = pool.workers._event_loop()
    assert isinstance(old, OwnEventLoop)
    # A thread that awaited it there would have to wait as well.
    waiting = [] if returns else pool.submit(3, name="ok")
    hang(pool, stuck)
    waiting += pool.submit(2, name="ok")
    pool.wait(len(waiting))
    assert {pool.stored(run).state for run in waiting} == {State.COMPLETED}
    assert pool.workers.ready()
    gate.go.set()
    pool.wait(1)
    assert pool.stored(stuck).state is State.COMPLETED
    assert {pool.stored(run).attempt for run in waiting} == {1}
    while not old._loop.is_closed():
        pass
    old.stop()


def test_a_node_whose_event_loop_is_blocked_for_good_is_not_ready(
    pools: Callable[..., Pool],
) -> None:
    gate = Gate()

    async def block(instance: TaskInstance) -> None:
        gate(instance)

    pool = pools(block, max_workers=2, max_hung=1)
    [first] = pool.submit()
    gate.wait()
    [second] = pool.submit()
    pool.held.hang(first)
    assert first.settle()
    assert not pool.workers.ready()
    pool.held._hung.clear()
    gate.go.set()
    pool.wait(2)
    assert pool.stored(second).state is State.COMPLETED


def test_once_all_spare_threads_hang_the_node_says_so_and_is_not_ready(
    pools: Callable[..., Pool],
) -> None:
    gate = Gate()
    pool = pools(gate, max_workers=4, max_hung=2)
    runs = pool.submit(3)
    gate.wait(3)
    for count, run in enumerate(runs):
        assert pool.workers.ready() is (count < 2)
        hang(pool, run)
    assert pool.workers.trouble == "3 handlers hang, and no worker may take their place"
    # The third one keeps its worker.
    assert (pool.held.busy, len(pool.held.apart())) == (1, 2)
    gate.go.set()
    pool.wait(3)
    come_back(pool)
    assert pool.workers.ready()


def test_a_node_whose_executor_is_stuck_says_so_and_is_not_ready(
    pools: Callable[..., Pool],
) -> None:
    gate = Gate()
    with ThreadPoolExecutor(2) as executor:
        pool = pools(gate, executor=executor)
        runs = pool.submit(2)
        gate.wait(2)
        hang(pool, runs[0])
        assert pool.workers.ready()
        hang(pool, runs[1])
        assert not pool.workers.ready()
        assert (pool.held.busy, len(pool.held.apart())) == (2, 0)
        gate.go.set()


@pytest.mark.parametrize(
    ("max_hung", "each", "apart"),
    [
        (1, 1, 1),
        (2, 1, 1),
        (3, 2, 2),
        (4, 3, 3),
        (7, 3, 4),
        (24, 3, 4),
        (32, 4, 5),
        (80, 10, 11),
    ],
)
def test_of_a_definition_of_which_an_eighth_or_three_hang_nothing_more_is_called_here(
    pools: Callable[..., Pool], max_hung: int, each: int, apart: int
) -> None:
    gate = Gate()
    pool = pools(gate, max_workers=12, max_hung=max_hung)
    runs = pool.submit(each + 1)
    gate.wait(each + 1)
    one = runs[0].instance.definition
    for run in runs:
        run.instance = replace(run.instance, definition=one)
    other = pool.run()
    instance = replace(other.instance, definition=one)
    hang(pool, *runs[: each - 1])
    assert pool.spares.refusal(instance) is None
    hang(pool, *runs[each - 1 :])
    # What was called by then is replaced as well, but for what others may need.
    assert len(pool.held.apart()) == apart
    assert pool.spares.refusal(instance) == f"{each} runs of {one.id} hang here"
    assert pool.spares.refusal(other.instance) is None
    # One that was held already is not called either.
    other.instance = instance
    pool.workers.submit([other])
    pool.wait(1)
    assert pool.stored(other).state is State.PENDING
    gate.go.set()
    come_back(pool)


def test_a_thread_that_hangs_once_the_workers_have_stopped_is_not_replaced(
    pools: Callable[..., Pool],
) -> None:
    gate = Gate()
    pool = pools(gate, max_workers=1)
    [stuck] = pool.submit()
    gate.wait()
    pool.workers.stop()
    hang(pool, stuck)
    assert pool.workers._threads.count == 0
    gate.go.set()
    pool.wait(1)
    pool.join()


def test_an_error_whose_text_hangs_leaves_the_run_to_the_keeper(
    pools: Callable[..., Pool],
) -> None:
    asked, release = threading.Event(), threading.Event()

    class SlowError(Exception):
        def __str__(self) -> str:
            asked.set()
            assert release.wait(FAILED_AFTER)
            return "slow"

    def handler(instance: TaskInstance) -> None:
        raise SlowError

    pool = pools(handler)
    [run] = pool.submit()
    assert asked.wait(FAILED_AFTER)
    assert not run.settled
    release.set()
    pool.wait(1)
    assert "slow" in (pool.stored(run).error or "")


def test_a_thread_outlives_an_outcome_that_cannot_be_told(
    pools: Callable[..., Pool],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = pools(lambda instance: None, max_workers=1)
    succeed = pool.recorder.succeed

    def fail_once(run: HeldRun) -> None:
        monkeypatch.setattr(pool.recorder, "succeed", succeed)
        raise ZeroDivisionError

    monkeypatch.setattr(pool.recorder, "succeed", fail_once)
    [lost, good] = pool.submit(2)
    pool.wait(1)
    assert pool.stored(good).state is State.COMPLETED
    come_back(pool)
    assert pool.held.busy == 0
    assert str(lost.instance.id) in caplog.text


class Closed(ApplicationLoop):
    """A loop of an application's that has been closed while it had these runs."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._loop.close()
        self.runs: list[HeldRun] = []

    def left_by_close(self) -> list[HeldRun]:
        return self.runs


def test_a_thread_that_waits_for_a_closed_loop_keeps_its_run(
    pools: Callable[..., Pool],
) -> None:
    called, go = threading.Event(), threading.Event()

    def handler(instance: TaskInstance) -> None:
        called.set()
        assert go.wait(FAILED_AFTER)

    application = Closed()
    pool = pools(handler, application=application)
    application.runs = pool.submit()
    assert called.wait(FAILED_AFTER)
    pool.workers.give_back_left()
    [run] = application.runs
    assert not run.settled
    assert list(pool.held.running()) == [run]
    go.set()
    pool.wait(1)
    assert pool.stored(run).state is State.COMPLETED
