"""A scheduler in an application whose event loop calls the async handlers."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import pytest

from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.models import State, TaskDefinition
from go_scheduler.run import current_run
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance

_P = ParamSpec("_P")
tenant: ContextVar[str] = ContextVar("tenant")


def at_once(**options: object) -> TaskDefinition:
    trigger = ExecuteOnceTrigger(SystemClock().now())
    return TaskDefinition(trigger=trigger, **options)  # type: ignore[arg-type]


def awaited(test: Callable[_P, Coroutine[object, object, None]]) -> Callable[_P, None]:
    """Runs a test on an event loop, no longer than a failing test waits."""

    @wraps(test)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(FAILED_AFTER):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return call


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


class Job:
    """A handler that says that it was called, and waits to be let go."""

    def __init__(self) -> None:
        # Bound to the event loop on which they are first awaited, like pools are.
        self.called, self.go = asyncio.Event(), asyncio.Event()
        self.loops: list[object] = []
        self.seen: list[str] = []

    async def __call__(self, instance: TaskInstance) -> None:
        self.loops.append(asyncio.get_running_loop())
        self.seen.append(tenant.get("nobody"))
        assert current_run().instance.id == instance.id
        self.called.set()
        await self.go.wait()


class TestHandlers:
    """Async handlers are called on the event loop of the application."""

    @awaited
    async def test_on_the_loop_and_in_the_context_in_which_it_was_entered(self) -> None:
        tenant.set("ours")
        job = Job()
        async with Scheduler(job) as scheduler:
            tenant.set("another one by now")
            await scheduler.aschedule(at_once())
            await job.called.wait()
            job.go.set()
        assert job.loops == [asyncio.get_running_loop()]
        assert job.seen == ["ours"]
        assert (await scheduler.acounts())[State.COMPLETED] == 1
        assert not scheduler.health().ok

    def test_what_is_no_event_loop_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="loop must be"):
            Scheduler(print, loop=asyncio)  # type: ignore[arg-type]

    def test_it_claims_nothing_while_the_given_loop_does_not_run(self) -> None:
        loop = asyncio.new_event_loop()
        called = asyncio.Event()

        async def handler(instance: TaskInstance) -> None:
            called.set()

        with Scheduler(handler, loop=loop) as scheduler:
            health = scheduler.health()
            assert "does not run" in (health.trouble or "")
            assert not health.ok
            stored = scheduler.schedule(at_once())
            loop.run_until_complete(asyncio.wait_for(called.wait(), FAILED_AFTER))
            assert scheduler.list_instances(definition_id=stored.id)[0].attempt == 1
        loop.close()

    def test_one_that_blocks_the_loop_is_said_and_the_loop_stays(self) -> None:
        blocked, go = threading.Event(), threading.Event()
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        async def handler(instance: TaskInstance) -> None:
            blocked.set()
            assert go.wait(FAILED_AFTER)

        with Scheduler(handler, loop=loop, expire_after=seconds(0.1)) as scheduler:
            definition = scheduler.schedule(at_once())
            assert blocked.wait(FAILED_AFTER)
            while scheduler.health().trouble is None:
                pass
            assert "1 handlers hang" in (scheduler.health().trouble or "")
            go.set()
            while scheduler.health().trouble is not None:
                pass
            scheduler.delete_definition(definition.id)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(FAILED_AFTER)
        loop.close()


class TestStop:
    """A stop waits for what runs on the same loop, which goes on meanwhile."""

    @awaited
    async def test_it_waits_for_sync_handlers_that_wait_for_the_same_loop(self) -> None:
        loop, called = asyncio.get_running_loop(), asyncio.Event()

        async def work() -> None:
            called.set()
            await until(lambda: scheduler._node.stopping)  # type: ignore[union-attr]

        def handler(instance: TaskInstance) -> None:
            asyncio.run_coroutine_threadsafe(work(), loop).result()

        async with Scheduler(handler) as scheduler:
            await scheduler.aschedule(at_once())
            await called.wait()
        assert scheduler.counts()[State.COMPLETED] == 1

    @awaited
    async def test_with_a_timeout_it_leaves_behind_what_still_runs(self) -> None:
        job = Job()
        scheduler = Scheduler(job)
        assert await scheduler.astop()
        await scheduler.astart()
        await scheduler.aschedule(at_once())
        await job.called.wait()
        assert not await scheduler.astop(timedelta(0))
        assert not await scheduler.astop()
        job.go.set()

    def test_what_runs_on_a_loop_that_is_closed_is_given_back(self) -> None:
        async def handler(instance: TaskInstance) -> None:
            called.set()
            await asyncio.get_running_loop().create_future()

        async def main() -> UUID:
            await scheduler.astart()
            stored = await scheduler.aschedule(at_once())
            await called.wait()
            return stored.id

        called = asyncio.Event()
        scheduler = Scheduler(handler, expire_after=seconds(20))
        loop = asyncio.new_event_loop()
        # It says so of a task that never ends once that is collected, in a later test.
        loop.set_exception_handler(lambda *_: None)
        definition_id = loop.run_until_complete(main())
        # No task is cancelled by this.
        loop.close()
        assert scheduler._node is not None
        # As it looks by itself every third of the lease.
        scheduler._node.state.beat_wanted()
        [instance] = scheduler.list_instances(definition_id=definition_id)
        while instance.state is State.RUNNING:
            instance = scheduler.get_instance(instance.id)
        assert (instance.state, instance.runs) == (State.PENDING, 0)
        # Once is enough.
        scheduler._node.workers.give_back_left()
        assert scheduler.stop()

    def test_one_whose_await_is_cancelled_stops_all_the_same(self) -> None:
        async def handler(instance: TaskInstance) -> None:
            called.append(instance)
            await asyncio.get_running_loop().create_future()

        called: list[TaskInstance] = []
        scheduler = Scheduler(handler)
        asyncio.run(cancelled_stop(scheduler, called))
        # The loop that waited is closed by now.
        assert scheduler._node is not None
        stopped = threading.Event()
        scheduler._node.when_stopped(stopped.set)
        assert stopped.wait(FAILED_AFTER)

    @awaited
    async def test_called_by_a_handler_it_answers_at_once(self) -> None:
        answers: list[bool] = []
        called = asyncio.Event()

        async def handler(instance: TaskInstance) -> None:
            answers.append(await scheduler.astop())
            answers.append(scheduler.stop())
            called.set()

        async with Scheduler(handler) as scheduler:
            await scheduler.aschedule(at_once())
            await called.wait()
        assert answers == [False, False]

    def test_a_timeout_must_be_a_timedelta(self) -> None:
        with pytest.raises(ConfigurationError, match="timeout"):
            asyncio.run(Scheduler(print).astop(5))  # type: ignore[arg-type]


class TestStart:
    """A start in an event loop does not block it, and happens whole or not at all."""

    @awaited
    async def test_one_that_is_cancelled_has_started_nothing(self) -> None:
        entered, go = threading.Event(), threading.Event()

        class Slow(MemoryStore):
            def initialize(self) -> None:
                entered.set()
                assert go.wait(FAILED_AFTER)

        scheduler = Scheduler(print, Slow())
        start = asyncio.create_task(scheduler.astart())
        await until(entered.is_set)
        start.cancel()
        with suppress(asyncio.CancelledError):
            await start
        go.set()
        assert scheduler._node is None

    @awaited
    async def test_it_is_harmless_where_it_runs_already_and_refused_elsewhere(
        self,
    ) -> None:
        async with Scheduler(print) as scheduler:
            await scheduler.astart()
            with pytest.raises(SchedulerStateError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, scheduler.astart())
        await asyncio.to_thread(scheduler.start)
        with pytest.raises(SchedulerStateError, match="another event loop"):
            await scheduler.astart()
        await scheduler.astop()

    @awaited
    async def test_the_sync_forms_say_that_they_would_block(self) -> None:
        scheduler = Scheduler(print)
        assert scheduler.stop()
        with pytest.raises(SchedulerStateError, match=r"await scheduler.astart\("):
            scheduler.start()
        with pytest.raises(SchedulerStateError, match="use `async with`"):
            scheduler.__enter__()
        with pytest.raises(SchedulerStateError, match="async with scheduler"):
            scheduler.run()
        async with scheduler:
            with pytest.raises(SchedulerStateError, match=r"scheduler.astop\("):
                scheduler.stop()
            assert scheduler.health().ok
        assert scheduler.stop()


class TestCalls:
    """Every call that waits for the store can be awaited."""

    @pytest.mark.parametrize(
        "name",
        [
            name
            for name, _ in inspect.getmembers(Client, inspect.isfunction)
            # What events are told with waits for no store.
            if not name.startswith(("_", "a")) and name != "teller"
        ],
    )
    def test_it_takes_and_answers_the_same(self, name: str) -> None:
        method, form = getattr(Client, name), getattr(Client, f"a{name}")
        assert inspect.signature(form) == inspect.signature(method)
        assert form.__name__ == f"a{name}"
        assert f"``{name}``" in form.__doc__
        assert inspect.iscoroutinefunction(form)

    @awaited
    async def test_the_event_loop_goes_on_while_the_store_is_slow(self) -> None:
        entered, go = threading.Event(), threading.Event()

        class Slow(MemoryStore):
            def get_definition(self, definition_id: UUID) -> TaskDefinition:
                entered.set()
                assert go.wait(FAILED_AFTER)
                return super().get_definition(definition_id)

        client = Client(Slow())
        stored = await client.aschedule(at_once())
        read = asyncio.create_task(client.aget_definition(stored.id))
        await until(entered.is_set)
        go.set()
        assert await read == stored


class TestManualClock:
    """Tests of async handlers move the clock on another thread than their loop's."""

    @awaited
    async def test_they_are_called_on_the_loop_of_the_test(self) -> None:
        clock = ManualClock()
        job = Job()
        job.go.set()
        async with Scheduler(job, clock=clock) as scheduler:
            await scheduler.aschedule(definition_at(START + seconds(60)))
            await asyncio.to_thread(clock.advance, seconds(60))
            assert job.loops == [asyncio.get_running_loop()]
        assert clock.now() < START + seconds(61)

    @pytest.mark.parametrize("returns", ["a coroutine", "a future"])
    @awaited
    async def test_on_the_thread_of_the_loop_it_is_said(self, returns: str) -> None:
        clock = ManualClock()

        def handler(instance: TaskInstance) -> Awaitable[None]:
            job = Job()(instance)
            if returns == "a coroutine":
                return job
            job.close()
            return asyncio.get_running_loop().create_future()

        with Scheduler(handler, clock=clock) as scheduler:
            stored = scheduler.schedule(definition_at(START))
            clock.advance(seconds(1))
            [instance] = scheduler.list_instances(definition_id=stored.id)
            assert "asyncio.to_thread(clock.advance" in (instance.error or "")


async def cancelled_stop(scheduler: Scheduler, called: Sequence[object]) -> None:
    await scheduler.astart()
    await scheduler.aschedule(at_once(expire_after=seconds(0.1)))
    await until(lambda: bool(called))
    stop = asyncio.create_task(scheduler.astop())
    await until(lambda: scheduler._node is not None and scheduler._node.stopping)
    stop.cancel()
    with suppress(asyncio.CancelledError):
        await stop


def definition_at(at: datetime) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at))
