"""Handlers that hang: what they cost, who takes their place, and what is told."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    ClaimLostError,
    OnDemandTrigger,
    State,
    TaskDefinition,
    current_run,
)
from go_scheduler.events import (
    InstanceFinished,
    InstanceGivenBack,
    InstanceRetried,
    RunHung,
    RunTimedOut,
)
from tests.behaviour.house import (
    HOUR,
    MINUTE,
    SECOND,
    ThreadedWorld,
    World,
    at,
    meanwhile,
    once,
    run_now,
    seconds,
    wait_until,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from go_scheduler import TaskInstance

DAY = 24 * HOUR
# So that nothing lapses in a leap.
SETTINGS = {"expire_after": HOUR, "lease": DAY, "max_workers": 1}


def hanging(world: ThreadedWorld) -> Callable[[TaskInstance], None]:
    """A handler whose first attempts hang, but for those of definitions named "ok"."""

    def handler(instance: TaskInstance) -> None:
        if instance.definition.name != "ok" and instance.attempt == 1:
            world.hang()

    return handler


def presume_hung(world: ThreadedWorld, count: int = 1) -> None:
    """Wait until so many handlers hang, and until that is presumed."""
    told = len(world.heard.of(RunHung))
    world.wait_for_hanging(count)
    world.leap(HOUR, RunHung, told + count)


def test_another_thread_takes_the_place_of_one_whose_handler_hangs(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(hanging(threaded), **SETTINGS)
    stuck = node.schedule(threaded.now())
    threaded.wait_for_hanging()
    node.schedule_all(threaded.now(name="ok") for _ in range(3))
    # Those that waited, and the one that hung once more.
    finished = threaded.leap(HOUR, InstanceFinished, 4)
    assert {each.took is None for each in finished} == {False}
    # Who gives it up tells that first.
    wait_until(lambda: (node.health().stuck_workers, node.health().busy) == (1, 0))
    assert not node.health().ok
    [hung] = threaded.heard.of(RunHung)
    assert (hung.definition_id, hung.allowed) == (stuck.id, HOUR)
    threaded.gate.set()
    wait_until(lambda: node.health().ok)
    [instance] = node.list_instances(definition_id=stuck.id)
    assert (instance.state, instance.ended_attempt) == (State.COMPLETED, 2)


def test_the_place_of_an_async_handler_that_hangs_is_given_to_the_next(
    threaded: ThreadedWorld,
) -> None:
    began = threading.Semaphore(0)
    let_go: list[Callable[[], object]] = []

    async def handler(instance: TaskInstance) -> None:
        if instance.definition.name != "ok" and instance.attempt == 1:
            loop, event = asyncio.get_running_loop(), asyncio.Event()
            let_go.append(lambda: loop.call_soon_threadsafe(event.set))
            began.release()
            await event.wait()

    node = threaded.node(handler, **SETTINGS)
    node.schedule(threaded.now())
    assert began.acquire(timeout=FAILED_AFTER)
    node.schedule(threaded.now(name="ok"))
    threaded.leap(HOUR, InstanceFinished, 2)
    wait_until(lambda: node.health().stuck_workers == 1)
    let_go[0]()
    wait_until(lambda: node.health().ok)
    assert node.counts()[State.COMPLETED] == 2


@pytest.mark.parametrize("returned", [False, True])
def test_an_async_handler_that_blocks_its_event_loop_costs_no_other_run(
    threaded: ThreadedWorld, returned: bool
) -> None:
    async def block(instance: TaskInstance) -> None:
        hanging(threaded)(instance)

    def handler(instance: TaskInstance) -> Awaitable[None]:
        return block(instance)

    node = threaded.node(
        handler if returned else block, **{**SETTINGS, "max_workers": 2}
    )
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    if not returned:
        for _ in range(3):
            node.schedule(threaded.now(name="ok"))
    threaded.leap(HOUR, RunHung)
    for _ in range(2):
        node.schedule(threaded.now(name="ok"))
    # What came to the blocked loop before it was left behind hangs there as well.
    threaded.leap(SECOND, InstanceFinished, 3 if returned else 6, again=HOUR)
    threaded.gate.set()
    wait_until(lambda: node.health().ok)


def test_what_a_blocked_event_loop_was_to_await_is_awaited_once_it_goes_on(
    threaded: ThreadedWorld,
) -> None:
    returned = threading.Event()

    async def work(instance: TaskInstance) -> None:
        if instance.definition.name != "ok" and instance.attempt == 1:
            threaded.hang()

    def handler(instance: TaskInstance) -> Awaitable[None]:
        if instance.definition.name == "ok":
            returned.set()
        return work(instance)

    node = threaded.node(handler, **{**SETTINGS, "max_workers": 2})
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    node.schedule(threaded.now(name="ok", expire_after=100 * HOUR))
    assert returned.wait(FAILED_AFTER)
    threaded.leap(HOUR, RunHung)
    threaded.gate.set()
    threaded.heard.wait(InstanceFinished, 2)
    wait_until(lambda: node.health().ok)
    assert {each.runs for each in node.list_instances(name="ok")} == {1}


def test_once_all_that_may_hang_do_the_node_claims_nothing_and_says_why(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(
        hanging(threaded), **{**SETTINGS, "max_workers": 2}, max_hung=2
    )
    for number in range(2):
        node.schedule(threaded.now(name=f"stuck {number}"))
    presume_hung(threaded, 2)
    wait_until(lambda: node.health().trouble)
    trouble = node.health().trouble
    assert trouble == "2 handlers hang, and no worker may take their place"
    node.schedule(threaded.now(name="ok"))
    # Another node does it instead.
    other = threaded.node(hanging(threaded), **SETTINGS)
    threaded.heard.wait(InstanceFinished, 3)
    [done] = [each for each in node.list_instances() if each.definition.name == "ok"]
    assert done.claimed_by == other.health().node
    threaded.gate.set()
    wait_until(lambda: node.health().trouble is None)


def test_of_a_definition_of_which_three_hang_nothing_more_is_called_here(
    threaded: ThreadedWorld,
) -> None:
    def handler(instance: TaskInstance) -> None:
        if instance.definition.name == "stuck":
            threaded.hang()

    settings = {**SETTINGS, "max_workers": 8}
    node = threaded.node(handler, **settings, max_hung=10)
    [stuck, *_] = run_now(node, 3, name="stuck")
    presume_hung(threaded, 3)
    wait_until(lambda: node.health().stuck_workers == 3)
    threaded.heard.events.clear()
    made = {node.run_now(stuck.definition_id).id for _ in range(2)}
    # Those that are to run again are given back as well.
    given_back = threaded.heard.of(InstanceGivenBack)
    while not made.issubset(each.instance_id for each in given_back):
        given_back = threaded.heard.wait(InstanceGivenBack, len(given_back) + 1)
    assert {each.reason for each in given_back} == {"3 runs of stuck hang here"}
    assert node.health().trouble is None
    run_now(node, 2, name="ok")
    threaded.heard.wait(InstanceFinished, 2)
    # Another node may have them.
    other = threaded.node(handler, **settings, max_hung=10).health().node
    wait_until(lambda: other in {node.get_instance(each).claimed_by for each in made})


def test_what_was_held_by_then_is_not_called_either(world: World) -> None:
    node = world.node(
        world.bench.handler, max_workers=4, max_hung=24, runner_window=MINUTE
    )
    task = TaskDefinition(
        trigger=OnDemandTrigger(), name="stuck", expire_after=seconds(10)
    )
    node.schedule(task)
    made = {node.run_now(task.id, at=at(1)).id for _ in range(5)}
    world.advance(12)
    called = {each.instance.id for each in world.bench.calls}
    assert len(world.bench.calls) == 4
    world.bench.calls[0].end()
    world.advance(0.1)
    given_back = {
        each.instance_id: each.reason for each in world.heard.of(InstanceGivenBack)
    }
    [held] = made - called
    assert given_back[held] == "3 runs of stuck hang here"
    assert len(world.bench.calls) == 4


def test_those_of_one_definition_leave_spare_workers_to_others(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(
        hanging(threaded), **{**SETTINGS, "max_workers": 6}, max_hung=4
    )
    run_now(node, 4, name="stuck")
    presume_hung(threaded, 4)
    # Three have been replaced; the fourth keeps its worker.
    wait_until(lambda: (node.health().stuck_workers, node.health().busy) == (4, 1))
    assert node.health().trouble is None
    run_now(node, 6, name="ok")
    threaded.heard.wait(InstanceFinished, 6)


def test_an_executor_of_the_users_that_is_stuck_is_given_nothing_more(
    threaded: ThreadedWorld,
) -> None:
    with ThreadPoolExecutor(2) as executor, ExitStack() as stack:
        # Else it would wait for its threads if this fails.
        stack.callback(threaded.gate.set)
        node = threaded.node(
            hanging(threaded), **{**SETTINGS, "max_workers": 2}, executor=executor
        )
        for _ in range(2):
            node.schedule(threaded.now())
        threaded.wait_for_hanging(2)
        assert node.health().trouble is None
        threaded.leap(HOUR, RunHung, 2)
        wait_until(lambda: node.health().trouble)
        assert node.health().busy == 2
        node.schedule(threaded.now(name="ok"))
        threaded.gate.set()
        threaded.heard.wait(InstanceFinished, 3)
        wait_until(lambda: node.health().ok)


def test_an_error_whose_text_hangs_is_presumed_hung(threaded: ThreadedWorld) -> None:
    class SlowError(Exception):
        def __str__(self) -> str:
            threaded.hang()
            return "slow"

    def handler(instance: TaskInstance) -> None:
        if instance.attempt == 1:
            raise SlowError

    node = threaded.node(handler, **SETTINGS)
    node.schedule(threaded.now())
    presume_hung(threaded)
    threaded.heard.wait(InstanceFinished)
    wait_until(lambda: node.health().stuck_workers == 1)


def test_a_stop_waits_for_no_handler_that_hangs(threaded: ThreadedWorld) -> None:
    node = threaded.node(hanging(threaded), **SETTINGS)
    node.schedule(threaded.now(name="stuck"))
    presume_hung(threaded)
    threaded.heard.wait(InstanceFinished)
    assert node.stop() is False


def test_a_handler_that_hangs_while_the_node_stops_ends_the_wait(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(hanging(threaded), **SETTINGS)
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    stopped: list[bool] = []
    with meanwhile(lambda: stopped.append(node.stop())):
        wait_until(lambda: not node.health().ok)
        threaded.leap(HOUR, RunHung)
    assert stopped == [False]
    [instance] = node.list_instances()
    assert (instance.state, instance.hangs) == (State.PENDING, 1)


def test_an_async_handler_is_cancelled_at_its_timeout(threaded: ThreadedWorld) -> None:
    began = threading.Semaphore(0)
    cleaned_up: list[bool] = []

    async def handler(instance: TaskInstance) -> None:
        if instance.definition.name == "other":
            began.release()
            await asyncio.to_thread(threaded.gate.wait)
        elif instance.attempt == 1:
            began.release()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned_up.append(True)

    node = threaded.node(handler, **{**SETTINGS, "max_workers": 2}, timeout=MINUTE)
    # On the same loop, and not cancelled with it.
    node.schedule(threaded.now(name="other", timeout=10 * HOUR))
    node.schedule(threaded.now(name="stuck"))
    for _ in range(2):
        assert began.acquire(timeout=FAILED_AFTER)
    [retried] = threaded.leap(MINUTE, InstanceRetried)
    assert (retried.error or "").startswith("timed out after 0:01:00\n\n")
    assert "CancelledError" in (retried.error or "")
    assert cleaned_up == [True]
    [told] = threaded.heard.wait(RunTimedOut)
    assert (told.timeout, told.ended) == (MINUTE, True)
    threaded.gate.set()
    [finished] = threaded.heard.wait(InstanceFinished)
    assert finished.name == "other"
    wait_until(lambda: node.health().stuck_workers == 0)


def test_an_async_handler_that_goes_on_past_its_timeout_is_presumed_hung(
    threaded: ThreadedWorld,
) -> None:
    began, told_to_end = threading.Semaphore(0), threading.Event()
    refused: list[bool] = []

    async def handler(instance: TaskInstance) -> None:
        if instance.attempt > 1:
            return
        began.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                current_run().extend(HOUR)
            except ClaimLostError:
                refused.append(True)
            told_to_end.set()
        await asyncio.to_thread(threaded.gate.wait)

    node = threaded.node(handler, **SETTINGS, timeout=MINUTE)
    node.schedule(threaded.now())
    assert began.acquire(timeout=FAILED_AFTER)
    threaded.leap(MINUTE, RunTimedOut)
    assert told_to_end.wait(FAILED_AFTER)
    assert refused == [True]
    threaded.leap(seconds(6), RunHung)
    [retried] = threaded.heard.wait(InstanceRetried)
    assert (retried.error or "").startswith("timed out after 0:01:00\n\nno result")
    wait_until(lambda: node.health().stuck_workers == 1)


def test_a_sync_handler_is_left_behind_at_its_timeout(world: World) -> None:
    node = world.node(world.bench.handler)
    node.schedule(once(timeout=seconds(10), expire_after=MINUTE))
    world.advance(9.9)
    assert world.heard.of(RunTimedOut) == []
    world.advance(0.1)
    [told] = world.heard.of(RunTimedOut)
    assert (told.timeout, told.ended) == (seconds(10), False)
    wait_until(lambda: node.health().stuck_workers == 1)
    world.advance(1)
    assert (world.only().runs, world.only().hangs) == (1, 1)
    error = world.only().error or ""
    assert error.startswith("timed out after 0:00:10\n\nnothing ends a h")
    # A late success counts all the same.
    world.bench.calls[0].end()
    world.advance(1)
    assert world.only().state is State.COMPLETED


def test_a_timeout_beyond_expire_after_never_acts(world: World) -> None:
    world.begin(once(timeout=MINUTE, expire_after=seconds(10)))
    world.advance(10)
    assert len(world.heard.of(RunHung)) == 1
    assert world.heard.of(RunTimedOut) == []


def test_more_time_moves_no_timeout(world: World) -> None:
    world.begin(once(timeout=MINUTE, expire_after=seconds(30)))
    world.bench.calls[0].run.extend(HOUR)
    world.advance(58.5)
    assert world.heard.of(RunTimedOut) == []
    world.advance(1)
    assert len(world.heard.of(RunTimedOut)) == 1


def test_the_schedulers_timeout_holds_for_definitions_that_do_not_say(
    world: World,
) -> None:
    own = once(name="own", timeout=seconds(5))
    world.begin(once(name="not"), own, timeout=seconds(20))
    world.advance(5)
    assert [each.name for each in world.heard.of(RunTimedOut)] == ["own"]
    world.advance(15)
    assert [each.name for each in world.heard.of(RunTimedOut)] == ["own", "not"]


def test_a_result_that_comes_just_before_its_timeout_counts(world: World) -> None:
    world.begin(once(timeout=seconds(10)))
    world.advance(8.99)
    world.bench.end_all()
    world.advance(60)
    assert world.only().state is State.COMPLETED
    assert world.heard.of(RunTimedOut) == []
