"""Stopping: what is given back, what is waited for, and what is left behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    RetryAfter,
    RetryPolicy,
    State,
    StoreUnavailableError,
)
from go_scheduler.events import (
    InstanceGivenBack,
    InstanceStarted,
    NodeStarted,
    NodeStopped,
    RunFailed,
    RunLeftBehind,
    hears,
)
from go_scheduler.testing.builders import counts_by_state
from tests.behaviour.house import (
    HOUR,
    LEASE,
    MILLISECOND,
    SECOND,
    ThreadedWorld,
    World,
    every,
    meanwhile,
    once,
    run_now,
    seconds,
    wait_until,
    wait_until_draining,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler import TaskInstance


def test_what_is_held_is_given_back_and_run_elsewhere_on_time(world: World) -> None:
    one = world.node(world.note, "one")
    one.schedule_all(map(once, (2, 2, 2.5)))
    world.advance(1.9)
    assert world.states() == {State.CLAIMED: 3}
    before = world.clock.elapsed()
    assert one.stop()
    assert world.clock.elapsed() - before < SECOND / 10
    assert world.states() == {State.PENDING: 3}
    reasons = {each.reason for each in world.heard.of(InstanceGivenBack)}
    assert reasons == {"its node stops"}
    world.node(world.note, "two")
    world.advance(5)
    assert world.times == [2, 2, 2.5]
    assert {each.runs for each in world.store.select()} == {1}


def test_what_has_started_and_is_not_called_yet_is_given_back_as_well(
    world: World,
) -> None:
    one = world.node(world.note, "one")
    one.schedule(once(2))
    world.clock.advance(seconds(2) - 10 * MILLISECOND)
    assert world.states() == {State.RUNNING: 1}
    one.stop()
    assert (world.called, world.only().runs) == ([], 0)
    world.node(world.note, "two")
    world.advance(3)
    assert (len(world.called), world.only().runs) == (1, 1)


def test_a_stop_waits_for_what_runs_and_for_its_record(world: World) -> None:
    node = world.begin(once())
    world.faults.failing["finish_instances"] = StoreUnavailableError("a moment")
    assert node.stop(seconds(3)) is False
    assert world.states() == {State.RUNNING: 1}


def test_a_stop_answers_whether_all_came_back(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: threaded.hang(), lease=HOUR)
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    answers: list[bool] = []
    with meanwhile(*[lambda: answers.append(node.stop())] * 3):
        threaded.gate.set()
    assert answers == [True] * 3
    assert node.counts()[State.COMPLETED] == 1
    assert node.stop()
    assert [each.clean for each in threaded.heard.of(NodeStopped)] == [True]


def test_nothing_more_begins_once_a_stop_has_been_asked_for(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(lambda _: threaded.hang(), max_workers=1, lease=HOUR)
    [made, *_] = run_now(node, 3)
    threaded.wait_for_hanging()
    with meanwhile(node.stop):
        wait_until_draining(node)
        threaded.gate.set()
    assert len(threaded.heard.of(InstanceStarted)) == 1
    assert node.counts()[State.PENDING] == 2
    node.run_now(made.definition_id)
    assert node.counts()[State.PENDING] == 3


def test_a_deadline_leaves_behind_what_still_runs(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: threaded.hang(), lease=HOUR)
    node.schedule(threaded.now())
    threaded.wait_for_hanging()
    assert node.stop(MILLISECOND) is False
    assert node.stop(MILLISECOND) is False
    [stopped] = threaded.heard.of(NodeStopped)
    assert not stopped.clean
    assert node.counts()[State.RUNNING] == 1
    # What it does in the end counts all the same, while the process lives.
    threaded.gate.set()
    wait_until(lambda: node.counts()[State.COMPLETED] == 1)


@pytest.mark.parametrize(
    ("error", "retry", "state", "runs"),
    [
        (ValueError("the program ends"), RetryPolicy(), State.PENDING, 0),
        (ValueError("once"), RetryPolicy(max_attempts=1), State.FAILED, 1),
        (RetryAfter(seconds(60)), RetryPolicy(), State.PENDING, 1),
        (ValueError("cancelled"), RetryPolicy(), State.CANCELLED, 1),
    ],
)
def test_what_was_left_behind_and_fails_is_given_back_unless_that_was_its_last_run(
    world: World, error: Exception, retry: RetryPolicy, state: State, runs: int
) -> None:
    node = world.begin(once(retry=retry))
    if state is State.CANCELLED:
        node.cancel(world.only().id)
        world.advance(7)
    assert node.stop(seconds(0)) is False
    world.bench.calls[0].end(error=error)
    world.advance(1)
    assert (world.only().state, world.only().runs) == (state, runs)
    assert len(world.heard.of(RunLeftBehind)) == (runs == 0)
    assert len(world.heard.of(RunFailed)) == (state is State.FAILED)


def test_what_was_left_behind_keeps_its_claim(world: World) -> None:
    one = world.begin(once(expire_after=HOUR), name="one")
    assert one.stop(seconds(0)) is False
    world.node(world.note, "two")
    world.clock.advance(2 * LEASE)
    assert world.called == []
    world.bench.end_all()
    world.advance(1)
    assert (world.only().state, world.only().attempt) == (State.COMPLETED, 1)


def test_what_an_answer_has_left_unknown_is_given_back_as_it_stops(
    world: World,
) -> None:
    node = world.node(world.note)
    node.schedule(once(3))
    world.advance(1.5)
    world.faults.losing.add("claim_instances")
    world.until(lambda: world.states() == {State.CLAIMED: 1}, step=0.01)
    world.faults.losing.clear()
    world.faults.failing["list_claimed"] = StoreUnavailableError("a moment")
    world.clock.freeze("node")
    world.clock.thaw("node")
    assert node.stop(seconds(0.5)) is False
    del world.faults.failing["list_claimed"]
    world.advance(1)
    assert world.states() == {State.PENDING: 1}


def test_a_stop_while_the_store_is_away_gives_up_after_a_lease(world: World) -> None:
    node = world.node(world.note)
    node.schedule(once(2))
    world.advance(1.5)
    assert world.states() == {State.CLAIMED: 1}
    world.faults.away = True
    before = world.clock.elapsed()
    assert node.stop() is False
    assert LEASE <= world.clock.elapsed() - before <= LEASE + SECOND
    world.faults.away = False
    world.node(world.note, "two")
    world.clock.advance(2 * LEASE)
    assert len(world.called) == 1


def test_a_stop_with_nothing_to_give_back_waits_for_no_store(world: World) -> None:
    node = world.node(world.note)
    world.advance(5)
    world.faults.away = True
    before = world.clock.elapsed()
    assert node.stop()
    assert world.clock.elapsed() - before < 2 * SECOND


def test_the_others_are_told_at_once_that_it_takes_nothing_more(world: World) -> None:
    one = world.begin(once())
    assert one.stop(seconds(0.2)) is False
    [found] = world.scheduler(None).nodes()
    assert found.stopping


@pytest.mark.parametrize("who", ["a handler", "a listener"])
def test_a_handler_or_a_listener_may_stop_its_scheduler(
    threaded: ThreadedWorld, who: str
) -> None:
    answers: list[bool] = []

    def stop(_: object) -> None:
        answers.append(node.stop())

    listeners: list[object] = [threaded.heard]
    if who == "a listener":
        listeners.append(hears(InstanceStarted)(stop))
    handler = stop if who == "a handler" else lambda _: None
    node = threaded.node(handler, listeners=listeners)
    node.schedule(threaded.now())
    threaded.heard.wait(NodeStopped)
    assert answers == [False]
    assert node.stop()
    assert node.counts()[State.COMPLETED] == 1


def test_an_async_stop_lets_the_loop_go_on_and_answers_alike(
    threaded: ThreadedWorld,
) -> None:
    async def main() -> bool:
        began, go = asyncio.Event(), asyncio.Event()

        async def handler(instance: TaskInstance) -> None:
            began.set()
            await go.wait()

        scheduler = threaded.scheduler(handler)
        await scheduler.astart()
        await scheduler.aschedule(threaded.now())
        await began.wait()
        stop = asyncio.create_task(scheduler.astop())
        await asyncio.sleep(0)
        go.set()
        return await stop

    assert asyncio.run(main())
    assert counts_by_state(threaded.store)[State.COMPLETED] == 1


def test_after_a_stop_it_starts_afresh_as_another_node(world: World) -> None:
    node = world.scheduler(world.note)
    ids = []
    for number in range(3):
        node.start()
        node.start()
        ids.append(node.health().node)
        node.schedule(once(number * 2))
        world.advance(2)
        assert node.stop()
        assert not node.health().ok
    assert len({*ids}) == 3
    assert len(world.called) == 3
    assert len(world.heard.of(NodeStarted)) == 3
    assert [each.node for each in world.heard.of(NodeStopped)] == ids


def test_whoever_waits_for_the_stop_may_close_the_store(
    threaded: ThreadedWorld,
) -> None:
    node = threaded.node(lambda _: None, schedule_window=seconds(0.1))
    node.schedule(threaded.now())
    threaded.heard.wait(InstanceStarted)
    assert node.stop()
    threaded.faults.asked.clear()
    for _ in range(3):
        threaded.clock.leap(HOUR)
    assert threaded.faults.asked == []


def test_while_one_node_stops_another_takes_what_fires(world: World) -> None:
    one = world.node(world.note, "one")
    one.schedule(every(0.5))
    for number in range(6):
        world.advance(2.2)
        two = world.node(world.note, f"node {number}")
        assert one.stop()
        one = two
    world.advance(2)
    times = world.times
    assert times == sorted(times)
    assert len(times) == len({*times}) == int(world.clock.elapsed() / (SECOND / 2))
    assert max(b - a for a, b in itertools.pairwise(times)) == 0.5


def test_a_node_that_cannot_start_all_its_threads_goes_on_with_none(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def starting(most: int) -> Callable[[threading.Thread], None]:
        left = [None] * most

        def limited(self: threading.Thread) -> None:
            if not left:
                raise RuntimeError("can't start new thread")
            left.pop()
            start(self)

        return limited

    others = {*threading.enumerate()}
    for most in range(8):
        scheduler = threaded.scheduler(lambda _: None, listeners=[])
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", starting(most))
            with pytest.raises(RuntimeError, match="new thread"):
                scheduler.start()
        assert scheduler.stop() is False
    for each in {*threading.enumerate()} - others:
        each.join(FAILED_AFTER)
        assert not each.is_alive()
    # And it can be started when there are threads again.
    scheduler.start()
    scheduler.schedule(threaded.now())
    wait_until(lambda: scheduler.counts()[State.COMPLETED] == 1)
