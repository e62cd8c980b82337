"""Calling: on which threads, loops and executors handlers run, and what they cost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.thread import BrokenThreadPool
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    RetryPolicy,
    SchedulerStateError,
    State,
    current_run,
)
from go_scheduler.events import (
    ExecutorFailed,
    ExecutorRecovered,
    InstanceFinished,
    InstanceRetried,
    RunFailed,
)
from tests.behaviour.house import (
    HOUR,
    ThreadedWorld,
    World,
    once,
    run_now,
    several,
    wait_until,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from go_scheduler import Run, TaskInstance

# So that nothing is given back on a slow machine.
PATIENT = {"lease": HOUR, "runner_window": HOUR / 60}


def outcomes(world: ThreadedWorld, count: int) -> set[str]:
    return {each.outcome.value for each in world.heard.wait(InstanceFinished, count)}


def test_handlers_run_on_daemon_threads_no_more_than_allowed(
    threaded: ThreadedWorld,
) -> None:
    running: list[None] = []
    most: list[int] = []

    def handler(instance: TaskInstance) -> None:
        assert threading.current_thread().daemon
        running.append(None)
        most.append(len(running))
        threaded.hang()
        running.pop()

    node = threaded.node(handler, max_workers=3, **PATIENT)
    run_now(node, 10)
    threaded.wait_for_hanging(3)
    assert node.counts()[State.RUNNING] >= 3
    threaded.gate.set()
    assert outcomes(threaded, 10) == {"completed"}
    assert max(most) == 3


def test_no_run_waits_while_a_worker_is_free(threaded: ThreadedWorld) -> None:
    together = threading.Barrier(4)
    node = threaded.node(
        lambda _: together.wait(FAILED_AFTER) and None, max_workers=4, **PATIENT
    )
    for round_number in range(1, 6):
        run_now(node, 4)
        assert outcomes(threaded, 4 * round_number) == {"completed"}


def test_a_thread_that_is_free_is_used_again(threaded: ThreadedWorld) -> None:
    threads: list[int] = []
    node = threaded.node(
        lambda _: threads.append(threading.get_ident()), max_workers=2, **PATIENT
    )
    for number in range(1, 21):
        run_now(node, 1)
        threaded.heard.wait(InstanceFinished, number)
    assert len(threads) == 20
    assert len({*threads}) <= 2


def test_a_run_is_equal_to_itself_and_to_no_other(world: World) -> None:
    seen: list[set[Run]] = []
    node = world.node(lambda _: seen.append({current_run(), current_run()}))
    for _ in range(2):
        node.schedule(once())
    world.advance(1)
    assert [len(each) for each in (*seen, set.union(*seen))] == [1, 1, 2]


def test_each_handler_has_its_own_current_run(threaded: ThreadedWorld) -> None:
    together = threading.Barrier(3)
    seen: list[tuple[object, object]] = []

    def handler(instance: TaskInstance) -> None:
        together.wait(FAILED_AFTER)
        seen.append((instance, current_run().instance))
        together.wait(FAILED_AFTER)

    node = threaded.node(handler, max_workers=3, **PATIENT)
    run_now(node, 3)
    outcomes(threaded, 3)
    assert len(seen) == 3
    assert all(one == other for one, other in seen)
    with pytest.raises(SchedulerStateError, match="only inside a handler"):
        current_run()


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["sync", "async", "coroutine"])
def test_whatever_a_handler_raises_costs_no_worker(
    threaded: ThreadedWorld, error: BaseException, kind: str
) -> None:
    def sync(instance: TaskInstance) -> None:
        if instance.definition.name == "fails":
            raise error

    async def work(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        sync(instance)

    handlers = {"sync": sync, "async": work, "coroutine": lambda one: work(one)}
    handler: Any = handlers[kind]
    node = threaded.node(handler, max_workers=1, **PATIENT)
    run_now(node, 3, name="fails")
    failed = threaded.heard.wait(InstanceRetried, 3)
    assert {type(error).__name__ in (each.error or "") for each in failed} == {True}
    run_now(node, 2, name="works")
    assert outcomes(threaded, 2) == {"completed"}
    assert node.health().busy == 0


def test_async_handlers_run_on_one_event_loop_no_more_than_allowed(
    threaded: ThreadedWorld,
) -> None:
    running: list[None] = []
    most: list[int] = []
    loops: set[object] = set()
    full = asyncio.Event()

    async def handler(instance: TaskInstance) -> None:
        loops.add(asyncio.get_running_loop())
        assert current_run().instance is instance
        running.append(None)
        most.append(len(running))
        if len(running) == 3:
            full.set()
        await full.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        running.pop()

    node = threaded.node(handler, max_workers=3, **PATIENT)
    run_now(node, 10)
    assert outcomes(threaded, 10) == {"completed"}
    assert max(most) == 3
    assert len(loops) == 1


def test_an_object_whose_call_is_async_is_called_on_the_loop(
    threaded: ThreadedWorld,
) -> None:
    class Handler:
        async def __call__(self, instance: TaskInstance) -> None:
            assert asyncio.get_running_loop().is_running()

    run_now(threaded.node(Handler(), **PATIENT), 2)
    assert outcomes(threaded, 2) == {"completed"}


def test_what_a_sync_handler_returns_is_awaited_before_its_run_has_ended(
    threaded: ThreadedWorld,
) -> None:
    seen: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(current_run().instance)

    def handler(instance: TaskInstance) -> Awaitable[None]:
        return work()

    [instance] = run_now(threaded.node(handler, **PATIENT), 1)
    assert outcomes(threaded, 1) == {"completed"}
    assert [getattr(each, "id", None) for each in seen] == [instance.id]


def test_a_task_of_a_handler_that_exits_does_not_end_the_event_loop(
    threaded: ThreadedWorld,
) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def handler(instance: TaskInstance) -> None:
        await asyncio.gather(asyncio.create_task(leave()), return_exceptions=True)

    node = threaded.node(handler, **PATIENT)
    run_now(node, 5)
    outcomes(threaded, 5)
    run_now(node, 5)
    assert outcomes(threaded, 10) == {"completed"}


async def afails(instance: TaskInstance) -> None:
    raise ValueError("no paper")


def fails_when_awaited(instance: TaskInstance) -> Awaitable[None]:
    return afails(instance)


def fails(instance: TaskInstance) -> None:
    raise ValueError("no paper") from KeyError("tray")


@pytest.mark.parametrize("handler", [fails, afails, fails_when_awaited])
def test_a_traceback_begins_in_the_handler(
    threaded: ThreadedWorld, handler: Callable[[TaskInstance], Any]
) -> None:
    once_only = RetryPolicy(max_attempts=1)
    node = threaded.node(handler, retry=once_only, **PATIENT)
    run_now(node, 1)
    assert outcomes(threaded, 1) == {"failed"}
    [failed] = node.list_instances()
    assert (failed.error or "").count('File "') == 1
    assert f'File "{__file__}"' in (failed.error or "")


def test_the_traceback_of_a_call_that_fails_is_its_last_frame(world: World) -> None:
    world.node(len).schedule(once())  # type: ignore[arg-type]
    world.advance(1)
    error = world.only().error or ""
    assert error.count('File "') == 1
    assert "has no len()" in error


def test_a_generator_that_is_returned_is_a_failed_run(world: World) -> None:
    world.node(lambda _: (number for number in range(3))).schedule(once())
    world.advance(1)
    assert "returned a generator" in (world.only().error or "")


def test_on_a_manual_clock_what_a_handler_returns_is_awaited_in_place(
    world: World,
) -> None:
    async def handler(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        world.note(instance)

    world.node(handler).schedule(once(1))
    world.advance(1)
    assert world.times == [1]
    assert world.only().state is State.COMPLETED


def test_handlers_may_run_on_an_executor_of_the_users(threaded: ThreadedWorld) -> None:
    names: set[str] = set()
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
        node = threaded.node(
            lambda _: names.add(threading.current_thread().name),
            executor=executor,
            **PATIENT,
        )
        run_now(node, 6)
        assert outcomes(threaded, 6) == {"completed"}
        assert all(each.startswith("mine") for each in names)
        node.stop()
        # It is the user's, and goes on.
        assert executor.submit(int).result(FAILED_AFTER) == 0


class Refusing(Executor):
    """Takes what it is handed and calls nothing, unless it refuses it."""

    def __init__(self) -> None:
        self.refusal: Exception | None = None
        self.futures: list[Future[Any]] = []
        self.calls: list[Callable[[], object]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.refusal is not None:
            raise self.refusal
        self.futures.append(Future())
        self.calls.append(lambda: fn(*args, **kwargs))
        return self.futures[-1]

    def call_all(self) -> None:
        """Call what has not been called yet."""
        for future, call in zip(self.futures, self.calls, strict=True):
            if not future.done():
                call()
                future.set_result(None)


def test_an_executor_that_refuses_is_given_nothing_more_until_it_takes_again(
    world: World,
) -> None:
    executor = Refusing()
    node = world.node(world.note, executor=executor, max_workers=2)
    executor.refusal = RuntimeError("cannot schedule new futures after shutdown")
    node.schedule_all(map(once, (1, 1, 5)))
    world.advance(2)
    assert {*world.states()} == {State.PENDING}
    health = node.health()
    assert "the executor takes nothing: RuntimeError" in (health.trouble or "")
    assert (health.ok, health.waiting, health.busy) == (False, 0, 0)
    assert len(world.heard.of(ExecutorFailed)) == 1
    world.advance(10)
    assert executor.calls == []
    executor.refusal = None
    world.advance(3)
    assert node.health().trouble is None
    assert len(world.heard.of(ExecutorRecovered)) == 1
    # By one call it was asked whether it takes more.
    executor.call_all()
    world.advance(3)
    executor.call_all()
    world.advance(1)
    assert world.states() == {State.COMPLETED: 3}
    assert {each.runs for each in world.store.select()} == {1}


def test_all_that_a_broken_executor_had_is_given_back_uncalled(world: World) -> None:
    executor = Refusing()
    node = world.node(world.note, executor=executor, max_workers=2)
    node.schedule_all(several(3, 1))
    world.advance(1)
    assert world.states() == {State.RUNNING: 3}
    assert len(executor.futures) == 2
    executor.refusal = RuntimeError("no more")
    for future in executor.futures:
        future.set_exception(BrokenThreadPool("broken"))
    world.advance(0.1)
    assert world.states() == {State.PENDING: 3}
    assert {each.runs for each in world.store.select()} == {0}
    assert len(world.heard.of(ExecutorFailed)) == 1
    assert "BrokenThreadPool" in (node.health().trouble or "")
    other = world.node(world.note, "other")
    world.advance(2)
    assert world.states() == {State.COMPLETED: 3}
    assert other.health().ok


def test_what_an_executor_cancels_is_given_back(world: World) -> None:
    executor = Refusing()
    node = world.node(world.note, executor=executor)
    node.schedule(once(1))
    world.advance(1)
    executor.futures[0].cancel()
    world.advance(0)
    assert node.health().ok
    world.advance(1)
    assert len(executor.futures) == 2
    executor.calls[1]()
    world.advance(1)
    assert (world.only().state, world.only().runs) == (State.COMPLETED, 1)


def test_what_was_called_by_an_executor_that_then_refuses_is_called_once(
    world: World,
) -> None:
    class Calling(Refusing):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            fn(*args, **kwargs)
            raise RuntimeError("and yet")

    world.node(world.note, executor=Calling()).schedule(once(1))
    world.advance(10)
    assert len(world.called) == 1
    assert world.only().state is State.COMPLETED


def test_where_no_thread_can_be_started_what_is_due_is_given_back(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = threaded.node(lambda _: None, max_workers=1)
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if "worker" in self.name:
            raise RuntimeError("can't start new thread")
        start(self)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        [made] = run_now(node, 1)
        wait_until(lambda: node.get_instance(made.id).attempt > 1)
    assert outcomes(threaded, 1) == {"completed"}
    assert node.get_instance(made.id).runs == 1
    assert threaded.heard.of(RunFailed) == []
