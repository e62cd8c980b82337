"""Timeouts over the real loops: handlers that are ended, and those that cannot be."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    ClaimLostError,
    ConfigurationError,
    ExecuteOnceTrigger,
    HandedOn,
    HandlerRegistry,
    MemoryStore,
    Outcome,
    ProcessExecutor,
    RetryPolicy,
    Scheduler,
    State,
    TaskDefinition,
    current_run,
)
from go_scheduler.clock import SystemClock
from go_scheduler.events import (
    ExecutorFailed,
    InstanceFinished,
    InstanceHandedOn,
    InstanceRetried,
    RunTimedOut,
    hears,
)
from go_scheduler.running.calling import process_executor
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.patience import FAILED_AFTER
from tests.running.in_processes import handler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from go_scheduler import TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.testing import ManualClock

TIMEOUT = seconds(10)
GRACE = seconds(5)


def once(**options: object) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(START), **options)  # type: ignore[arg-type]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Those on which handlers run while the test moves the clock."""
    with ThreadPoolExecutor() as executor:
        yield executor


class Told:
    """Keeps what it is told of timeouts."""

    def __init__(self) -> None:
        self.timeouts: list[RunTimedOut] = []
        self.listener = hears(RunTimedOut)(self._keep)

    def _keep(self, event: Event) -> None:
        assert isinstance(event, RunTimedOut)
        self.timeouts.append(event)


def run(main: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(FAILED_AFTER):
            await main

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


class TestAsync:
    """An async handler is cancelled, and has failed."""

    def test_it_is_cancelled_at_its_timeout_and_runs_again(
        self, clock: ManualClock, threads: ThreadPoolExecutor
    ) -> None:
        async def main() -> None:
            called, ended = asyncio.Event(), []

            async def handler(instance: TaskInstance) -> None:
                called.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(clock.elapsed())

            store, told = MemoryStore(clock), Told()
            scheduler = Scheduler(
                handler,
                store,
                clock=clock,
                executor=threads,
                timeout=TIMEOUT,
                listeners=[told.listener],
            )
            async with scheduler:
                await scheduler.aschedule(once())
                # No further: a thread that is late may call it as late.
                await asyncio.to_thread(clock.advance, seconds(0))
                await called.wait()
                await asyncio.to_thread(clock.advance, TIMEOUT)
                await until(lambda: not scheduler.health().busy)
                await asyncio.to_thread(clock.advance, seconds(1))
                [instance] = await scheduler.alist_instances()
                assert (instance.state, instance.runs, instance.hangs) == (
                    State.PENDING,
                    1,
                    0,
                )
                assert (instance.error or "").startswith("timed out after 0:00:10\n\n")
                assert "CancelledError" in (instance.error or "")
                assert scheduler.health().stuck_workers == 0
            assert ended == [TIMEOUT]
            [event] = told.timeouts
            assert (event.timeout, event.ended) == (TIMEOUT, True)

        run(main())

    def test_one_that_goes_on_is_presumed_hung_and_may_still_succeed(
        self, clock: ManualClock, threads: ThreadPoolExecutor
    ) -> None:
        async def main() -> None:
            called, cancelled, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
            refused: list[bool] = []

            async def handler(instance: TaskInstance) -> None:
                called.set()
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    cancelled.set()
                try:
                    current_run().extend(seconds(100))
                except ClaimLostError:
                    refused.append(True)
                await go.wait()

            store = MemoryStore(clock)
            scheduler = Scheduler(handler, store, clock=clock, executor=threads)
            async with scheduler:
                await scheduler.aschedule(once(timeout=TIMEOUT))
                await asyncio.to_thread(clock.advance, seconds(0))
                await called.wait()
                await asyncio.to_thread(clock.advance, TIMEOUT)
                await cancelled.wait()
                await until(lambda: bool(refused))
                await asyncio.to_thread(clock.advance, GRACE)
                assert scheduler.health().stuck_workers == 1
                [instance] = await scheduler.alist_instances()
                assert (instance.state, instance.hangs) == (State.PENDING, 1)
                assert (instance.error or "").startswith("timed out after 0:00:10\n\n")
                go.set()
                await until(lambda: not scheduler.health().stuck_workers)
                await asyncio.to_thread(clock.advance, seconds(1))
                [instance] = await scheduler.alist_instances()
                assert instance.state is State.COMPLETED

        run(main())

    @pytest.mark.parametrize("kind", ["async", "coroutine"])
    def test_it_is_cancelled_on_the_schedulers_own_loop(self, kind: str) -> None:
        retried = threading.Event()
        errors: list[str | None] = []

        other_called, ended = threading.Event(), asyncio.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def work(instance: TaskInstance) -> None:
            if instance.definition.timeout is None:
                loops.append(asyncio.get_running_loop())
                other_called.set()
                await ended.wait()
                return
            await asyncio.Event().wait()

        def handler(instance: TaskInstance) -> object:
            return work(instance)

        @hears(InstanceRetried)
        def listen(event: InstanceRetried) -> None:
            errors.append(event.error)
            retried.set()

        called = work if kind == "async" else handler
        with Scheduler(called, listeners=[listen]) as scheduler:
            now = SystemClock().now()
            # Another one on the same loop goes on.
            scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(now)))
            assert other_called.wait(FAILED_AFTER)
            scheduler.schedule(
                TaskDefinition(
                    trigger=ExecuteOnceTrigger(now), timeout=timedelta(seconds=0.1)
                )
            )
            assert retried.wait(FAILED_AFTER)
            loops[0].call_soon_threadsafe(ended.set)
        assert (errors[0] or "").startswith("timed out after 0:00:00.100000\n\n")


class TestThreads:
    """A sync handler cannot be ended: its run is left behind."""

    def test_it_is_left_behind_counted_and_shown_and_may_still_succeed(
        self, clock: ManualClock, threads: ThreadPoolExecutor
    ) -> None:
        called, go = threading.Event(), threading.Event()

        def handler(instance: TaskInstance) -> None:
            called.set()
            assert go.wait(FAILED_AFTER)

        told = Told()
        with Scheduler(
            handler,
            MemoryStore(clock),
            clock=clock,
            executor=threads,
            listeners=[told.listener],
        ) as scheduler:
            scheduler.schedule(once(timeout=TIMEOUT))
            clock.advance(seconds(0))
            assert called.wait(FAILED_AFTER)
            clock.advance(TIMEOUT)
            assert scheduler.health().stuck_workers == 1
            [instance] = scheduler.list_instances()
            assert (instance.state, instance.runs, instance.hangs) == (
                State.PENDING,
                1,
                1,
            )
            assert (instance.error or "").startswith("timed out after 0:00:10\n\n")
            go.set()
            while scheduler.health().stuck_workers:
                pass
            clock.advance(seconds(1))
            [instance] = scheduler.list_instances()
            assert instance.state is State.COMPLETED
        [event] = told.timeouts
        assert (event.timeout, event.ended) == (TIMEOUT, False)

    def test_what_was_handed_on_has_no_timeout(self, clock: ManualClock) -> None:
        told = Told()
        with Scheduler(
            lambda _: HandedOn(expire_after=seconds(100)),
            MemoryStore(clock),
            clock=clock,
            listeners=[told.listener],
        ) as scheduler:
            scheduler.schedule(once(timeout=TIMEOUT))
            clock.advance(2 * TIMEOUT)
            [instance] = scheduler.list_instances()
            assert instance.state is State.RUNNING
        assert told.timeouts == []


def test_an_edit_of_the_timeout_is_kept(clock: ManualClock) -> None:
    scheduler = Scheduler(print, MemoryStore(clock), clock=clock)
    stored = scheduler.schedule(once(timeout=TIMEOUT))
    edited = scheduler.schedule(replace(stored, timeout=None))
    assert scheduler.get_definition(stored.id).timeout is None
    assert edited.revision == 2


@pytest.mark.slow
class TestProcesses:
    """A run in a process of ours has that ended, and no other."""

    @pytest.fixture
    def executor(self) -> Iterator[ProcessExecutor]:
        with ProcessExecutor(2) as executor:
            # Warm: what a test measures is not how fast processes start.
            executor.submit(int).result(FAILED_AFTER)
            yield executor

    @pytest.mark.parametrize(
        ("limit", "error"),
        [("timeout", "timed out after 0:00:00.500000\n\n"), ("expire_after", "no re")],
    )
    def test_it_is_ended_when_its_time_is_over(
        self, executor: ProcessExecutor, limit: str, error: str
    ) -> None:
        ended = Ended(2)
        with Scheduler(
            handler, executor=executor, listeners=[ended.listener]
        ) as scheduler:
            scheduler.schedule(now("block", **{limit: seconds(0.5)}))
            scheduler.schedule(now("return"))
            ended.wait()
            while scheduler.health().busy:
                pass
            assert scheduler.health().stuck_workers == 0
        assert ended.outcomes == {"block": Outcome.FAILED, "return": Outcome.COMPLETED}
        assert (ended.errors["block"] or "").startswith(error)

    def test_a_handler_that_cannot_be_sent_is_refused_by_name(
        self, executor: ProcessExecutor
    ) -> None:
        handlers = HandlerRegistry()
        handlers.register("good")(handler)
        scheduler = Scheduler(handlers, executor=executor)

        @handlers.register("bad")
        def bad(instance: object) -> None: ...

        expected = (
            rf"^handler 'bad' \({bad.__qualname__}\) cannot be sent to a process: a"
            r" ProcessExecutor takes functions of a module, not lambdas or functions"
            r" within functions; "
        )
        with pytest.raises(ConfigurationError, match=expected):
            scheduler.start()
        with pytest.raises(ConfigurationError, match=expected):
            Scheduler(handlers, executor=executor)
        with pytest.raises(ConfigurationError, match=r"^the handler \(.*<lambda>\)"):
            Scheduler(lambda _: None, executor=executor)

    def test_one_that_is_registered_later_and_cannot_be_sent_stops_no_other(
        self, executor: ProcessExecutor
    ) -> None:
        ended, handlers = Ended(2), HandlerRegistry()
        handlers.register("return")(handler)
        with Scheduler(
            handlers, executor=executor, listeners=[ended.listener]
        ) as scheduler:
            handlers.register("lambda")(lambda _: None)
            for do in ("lambda", "return"):
                scheduler.schedule(replace(now(do), retry=RetryPolicy(max_attempts=9)))
            ended.wait()
        assert ended.outcomes == {"lambda": Outcome.FAILED, "return": Outcome.COMPLETED}
        assert "takes functions of a module" in (ended.errors["lambda"] or "")

    def test_one_that_dies_or_raises_costs_its_own_run_alone(
        self, executor: ProcessExecutor
    ) -> None:
        ended = Ended(12)
        with Scheduler(
            handler, executor=executor, listeners=[ended.listener]
        ) as scheduler:
            scheduler.schedule(now("die"))
            scheduler.schedule(now("raise"))
            for number in range(10):
                scheduler.schedule(now(f"return {number}"))
            ended.wait()
        failed = {
            do for do, outcome in ended.outcomes.items() if outcome is Outcome.FAILED
        }
        assert failed == {"die", "raise"}
        assert ended.errors["die"] == "its process died: killed by SIGKILL"
        assert (ended.errors["raise"] or "").startswith("Traceback")

    def test_two_hundred_runs_take_their_turns_in_two_processes(
        self, executor: ProcessExecutor
    ) -> None:
        ended = Ended(200)
        with Scheduler(
            handler, executor=executor, listeners=[ended.listener]
        ) as scheduler:
            for number in range(200):
                scheduler.schedule(now(f"return {number}"))
            ended.wait()
        assert set(ended.outcomes.values()) == {Outcome.COMPLETED}

    def test_what_is_handed_on_there_goes_on_elsewhere(
        self, executor: ProcessExecutor
    ) -> None:
        handed_on = threading.Event()

        @hears(InstanceHandedOn)
        def listen(event: Event) -> None:
            handed_on.set()

        with Scheduler(handler, executor=executor, listeners=[listen]) as scheduler:
            scheduler.schedule(now("hand on"))
            assert handed_on.wait(FAILED_AFTER)
            [instance] = scheduler.list_instances()
            assert scheduler.complete(instance.id, instance.attempt)

    def test_its_processes_end_with_the_scheduler_and_come_back_with_it(self) -> None:
        executor = ProcessExecutor(2)
        for _ in range(2):
            ended = Ended(1)
            scheduler = Scheduler(
                handler, executor=executor, listeners=[ended.listener]
            )
            with scheduler:
                scheduler.schedule(now("return"))
                ended.wait()
            while process_executor._PROCESSES:
                pass
        executor.shutdown()

    def test_where_no_process_comes_up_nothing_is_called_or_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failed, ended = threading.Event(), Ended(1)

        @hears(ExecutorFailed)
        def listen(event: Event) -> None:
            failed.set()

        def refuse(*_: object) -> None:
            raise OSError("too many")

        with (
            ProcessExecutor(1) as executor,
            Scheduler(
                handler, executor=executor, listeners=[listen, ended.listener]
            ) as scheduler,
        ):
            with monkeypatch.context() as patched:
                patched.setattr(process_executor, "_started", refuse)
                scheduler.schedule(now("return"))
                assert failed.wait(FAILED_AFTER)
            ended.wait()
            [instance] = scheduler.list_instances()
            assert (instance.state, instance.runs) == (State.COMPLETED, 1)


def now(do: str, **options: object) -> TaskDefinition:
    """What is to be done at once, and once."""
    return TaskDefinition(
        trigger=ExecuteOnceTrigger(SystemClock().now()),
        metadata={"do": do},
        name=do,
        retry=RetryPolicy(max_attempts=1),
        **options,  # type: ignore[arg-type]
    )


class Ended:
    """Waits until so many instances have ended, and keeps how."""

    def __init__(self, count: int) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.errors: dict[str, str | None] = {}
        self._count = count
        self._all = threading.Event()
        self.listener = hears(InstanceFinished)(self._keep)

    def _keep(self, event: Event) -> None:
        assert isinstance(event, InstanceFinished)
        assert event.name is not None
        self.outcomes[event.name] = event.outcome
        self.errors[event.name] = event.error
        if len(self.outcomes) == self._count:
            self._all.set()

    def wait(self) -> None:
        assert self._all.wait(FAILED_AFTER)
