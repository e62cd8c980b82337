"""Workers: what ends on a thread or a loop as no handler can ask for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from go_scheduler import HandlerRegistry, OnDemandTrigger, State, TaskDefinition
from go_scheduler.events import InstanceFinished, ResultLost, RunHung, RunTimedOut
from go_scheduler.run import run_here
from go_scheduler.running.calling.workers import ApplicationLoop, Workers
from go_scheduler.running.claimer import Claimer
from go_scheduler.running.result_writer import ResultWriter
from go_scheduler.testing.builders import counts_by_state
from tests.behaviour.house import HOUR, ThreadedWorld, World, once, wait_until
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import pytest

    from go_scheduler import TaskInstance
    from go_scheduler.running.held import HeldRun


def test_a_thread_outlives_an_outcome_that_cannot_be_told(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed = ResultWriter.succeed

    def fail_once(self: ResultWriter, run: HeldRun) -> None:
        monkeypatch.setattr(ResultWriter, "succeed", succeed)
        raise ZeroDivisionError

    monkeypatch.setattr(ResultWriter, "succeed", fail_once)
    node = threaded.node(lambda _: None, max_workers=1, lease=HOUR)
    task = node.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    made = {node.run_now(task.id).id for _ in range(2)}
    [finished] = threaded.heard.wait(InstanceFinished)
    [lost] = threaded.heard.wait(ResultLost)
    assert {finished.instance_id, lost.instance_id} == made
    wait_until(lambda: node.health().busy == 0)


def test_a_task_that_somebody_cancels_before_it_begins_is_given_back(
    threaded: ThreadedWorld,
) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    blocked = threading.Event()

    async def handler(instance: TaskInstance) -> None:
        if instance.definition.name == "first":
            loops.append(asyncio.get_running_loop())
            blocked.set()
            # Whatever comes meanwhile has its task made, and no step of it taken.
            threaded.hang()
            loops[0].call_soon(cancel_all)

    def cancel_all() -> None:
        for each in asyncio.all_tasks(loops[0]):
            each.cancel()

    node = threaded.node(handler, max_workers=2, lease=HOUR)
    node.schedule(threaded.now(name="first"))
    assert blocked.wait(FAILED_AFTER)
    node.schedule(threaded.now(name="second"))
    wait_until(lambda: node.health().busy == 2)
    threaded.gate.set()
    threaded.heard.wait(InstanceFinished, 2)
    assert {each.state for each in node.list_instances()} == {State.COMPLETED}
    assert {each.runs for each in node.list_instances()} == {1}


def test_a_loop_that_is_needed_once_its_node_has_stopped_ends_with_its_task(
    threaded: ThreadedWorld,
) -> None:
    awaited = threading.Event()

    async def work() -> None:
        awaited.set()

    def handler(instance: TaskInstance) -> Awaitable[None]:
        threaded.hang()
        return work()

    node = threaded.node(handler, lease=25 * HOUR, expire_after=HOUR, max_hangs=1)
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    threaded.leap(HOUR, RunHung)
    assert not node.stop()
    threaded.gate.set()
    # And no thread outlives it.
    assert awaited.wait(FAILED_AFTER)


def test_a_thread_that_waits_for_a_closed_loop_keeps_its_run(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[object] = []
    looked = threading.Semaphore(0)

    def handler(instance: TaskInstance) -> None:
        runs.append(run_here())
        threaded.hang()

    def left_by_close(_: ApplicationLoop) -> list[object]:
        looked.release()
        return runs

    async def main() -> None:
        scheduler = threaded.scheduler(handler, lease=HOUR)
        await scheduler.astart()
        await scheduler.aschedule(threaded.now())
        await asyncio.to_thread(threaded.wait_for_hanging)
        monkeypatch.setattr(ApplicationLoop, "left_by_close", left_by_close)
        threaded.clock.leap(HOUR / 2)
        await asyncio.to_thread(looked.acquire)
        threaded.gate.set()
        await asyncio.to_thread(threaded.heard.wait, InstanceFinished)
        assert await scheduler.astop()

    asyncio.run(main())
    assert counts_by_state(threaded.store)[State.COMPLETED] == 1


def test_where_another_takes_the_last_place_meanwhile_the_loops_run_it(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = threaded.node(lambda _: None)
    wait_until(
        lambda: all(e.last_good is not None for e in node.health().loops.values())
    )
    monkeypatch.setattr(Claimer, "_begin", lambda *_: False)
    node.schedule(threaded.now())
    threaded.heard.wait(InstanceFinished)
    assert "put_definitions and start" not in threaded.faults.asked


def test_a_sync_handler_beside_async_ones_cannot_be_ended_at_its_timeout(
    threaded: ThreadedWorld,
) -> None:
    handlers = HandlerRegistry()

    @handlers.register("async")
    async def work(instance: TaskInstance) -> None: ...

    handlers.register("sync")(lambda _: threaded.hang())
    node = threaded.node(handlers, lease=25 * HOUR, expire_after=9 * HOUR)
    node.schedule(threaded.now(name="async"))
    threaded.heard.wait(InstanceFinished)
    node.schedule(threaded.now(name="sync", timeout=HOUR))
    threaded.wait_for_hanging()
    [told] = threaded.leap(HOUR, RunTimedOut)
    assert not told.ended


def test_nothing_is_handed_over_while_nothing_can_be_called(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world.node(world.note)
    world.advance(2)
    monkeypatch.setattr(Workers, "trouble", "it has closed its loop")
    node.schedule(once(2))
    world.faults.asked.clear()
    world.advance(5)
    assert not {"claim_instances", "fire_definitions and start"} & {*world.faults.asked}
    assert world.states() == {State.PENDING: 1}
