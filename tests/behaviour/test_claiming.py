"""Claiming: what a node takes into its hands, and what it leaves to others."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    Cancelled,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    RetryPolicy,
    State,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.events import (
    ClaimAnswerLost,
    InstanceClaimed,
    InstanceFinished,
    InstanceGivenBack,
    InstanceTakenOver,
    RunFailed,
)
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.messages import ReadLater
from go_scheduler.testing.builders import check, claim, counts_by_state
from go_scheduler.triggers import UnknownTrigger
from tests.behaviour.house import (
    HOUR,
    LEASE,
    Later,
    ThreadedWorld,
    World,
    at,
    once,
    seconds,
    several,
)
from tests.behaviour.store_house import task
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from go_scheduler import Scheduler, TaskInstance
    from go_scheduler.clock import Clock


def test_what_is_due_runs_once_and_says_so(world: World) -> None:
    node = world.node(world.note)
    node.schedule(once(5))
    world.advance(60)
    assert world.times == [5]
    ended = world.only()
    check(ended, state=State.COMPLETED, runs=1, attempt=1, ended_attempt=1)
    check(ended, started_at=at(5), claimed_by=node.health().node)
    [claimed] = world.heard.of(InstanceClaimed)
    assert (claimed.instance_id, claimed.due_at) == (ended.id, at(5))


@pytest.mark.parametrize("window", [1, 4])
def test_it_is_claimed_within_the_window_before_it_is_due(
    world: World, window: float
) -> None:
    node = world.node(world.note, runner_window=seconds(window))
    node.schedule(once(30))
    states: dict[float, State] = {}
    for _ in range(300):
        world.advance(0.1)
        for each in world.store.select():
            states[round(world.clock.elapsed().total_seconds(), 1)] = each.state
    claimed = [moment for moment, state in states.items() if state is State.CLAIMED]
    assert 30 - window <= claimed[0] <= 30 - window / 4
    assert node.health().waiting == 0
    assert world.times == [30]


def test_no_more_is_held_than_allowed_and_the_rest_is_left_to_others(
    world: World,
) -> None:
    one = world.node(world.note, "one", max_held=5)
    one.schedule_all(several(20, 5))
    world.advance(4.5)
    assert world.states() == {State.CLAIMED: 5, State.PENDING: 15}
    assert one.health().waiting == 5
    other: list[TaskInstance] = []
    world.node(other.append, "two")
    world.advance(2)
    assert world.states() == {State.COMPLETED: 20}
    assert (len(world.called), len(other)) == (5, 15)


def test_a_node_that_holds_all_that_it_may_takes_what_is_due_all_the_same(
    world: World,
) -> None:
    node = world.node(world.note, max_held=5, runner_window=seconds(10))
    node.schedule_all(several(20, 9))
    world.advance(2)
    assert counts_by_state(world.store)[State.CLAIMED] == 5
    node.schedule(once(2, lock="a"))
    world.advance(0.2)
    assert world.times == [2]


def test_of_what_is_overdue_no_more_is_claimed_than_there_are_workers(
    world: World,
) -> None:
    node = world.begin(*several(10), max_workers=2)
    world.advance(30)
    assert world.states() == {State.RUNNING: 2, State.PENDING: 8}
    assert node.health().busy == 2
    world.bench.running[0].end()
    world.advance(1)
    assert len(world.bench.running) == 2
    # As many as came free within a window may be on their way, and no more.
    assert counts_by_state(world.store)[State.PENDING] in (6, 7)
    # A worker that comes free takes what is overdue at once.
    for number in range(4, 7):
        world.bench.running[0].end()
        world.advance(0.02)
        assert len(world.bench.calls) == number


def test_a_backlog_is_worked_off_as_fast_as_its_workers_are(world: World) -> None:
    made = world.node(None, "makes")
    made.schedule_all(several(200))
    world.advance(1)
    made.stop()
    world.node(world.note, max_workers=2)
    world.faults.asked.clear()
    world.advance(0.5)
    assert len(world.called) == 200
    assert world.faults.asked.count("claim_instances") < 20


def test_what_waits_for_a_worker_for_longer_than_a_window_is_given_back(
    world: World,
) -> None:
    one = world.begin(*several(2, 1), max_workers=1)
    world.advance(0.5)
    assert (one.health().busy, len(world.bench.calls)) == (2, 1)
    world.until(lambda: world.heard.of(InstanceGivenBack))
    [given_back] = world.heard.of(InstanceGivenBack)
    assert given_back.reason == "no worker has been free for it"
    # That makes no room for it, or for others.
    for _ in range(9):
        world.advance(0.1)
        assert one.health().busy == 1
    world.node(world.note, "two")
    world.advance(1)
    [called] = world.called
    assert (called.instance.attempt, called.instance.runs) == (2, 1)


def test_a_node_without_a_free_worker_leaves_to_others_what_comes(
    world: World,
) -> None:
    one = world.begin(once(), max_workers=1)
    world.node(world.note, "two")
    one.schedule_all(map(once, (5, 6, 7)))
    world.advance(10)
    assert world.times == [5, 6, 7]


def test_what_comes_while_a_claim_is_under_way_is_claimed_as_well(
    world: World,
) -> None:
    node = world.node(world.note, runner_window=seconds(8), schedule_window=seconds(8))
    task = node.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    world.advance(10)
    world.faults.meanwhile["claim_instances"] = lambda: node.run_now(task.id)
    node.run_now(task.id)
    world.advance(0)
    assert world.times == [10, 10]


def test_only_its_own_queues_are_served(world: World) -> None:
    node = world.node(world.note, queues=["mail", "sms"])
    node.schedule_all(once(queue=queue) for queue in ("mail", "default", "sms"))
    world.advance(10)
    served = {each.instance.definition.queue for each in world.called}
    assert served == {"mail", "sms"}
    assert world.states() == {State.COMPLETED: 2, State.PENDING: 1}


def test_what_has_no_handler_here_is_given_back_for_longer_each_time(
    world: World,
) -> None:
    handlers = HandlerRegistry()
    handlers.register("known")(world.note)
    node = world.node(handlers)
    node.schedule(once(name="known"))
    node.schedule(once(name="other"))
    world.advance(600)
    told = world.heard.of(InstanceGivenBack)
    delays = [each.delay for each in told]
    doubled = [seconds(0.05 * 2**n) for n in range(11)]
    assert delays[: len(doubled)] == doubled
    assert set(delays[len(doubled) :]) == {seconds(60)}
    assert "no handler is registered for definitions 'other' here" in told[0].reason
    assert "registered: 'known'" in told[0].reason
    [warning] = node.health().warnings
    assert "'other'" in warning
    handlers.register("other")(world.note)
    world.advance(61)
    names = [each.instance.definition.name for each in world.called]
    assert names == ["known", "other"]
    assert world.called[1].instance.runs == 1


def test_a_nameless_one_is_given_back_by_a_registry_with_what_to_do(
    world: World,
) -> None:
    world.scheduler(None).schedule(once())
    world.node(HandlerRegistry())
    world.advance(1)
    assert "pass name= to TaskDefinition" in world.heard.of(InstanceGivenBack)[0].reason


def test_what_has_a_trigger_that_is_unknown_here_is_left_to_others(
    world: World,
) -> None:
    client = world.scheduler(None)
    stored = client.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    client.run_now(stored.id)
    unknown = UnknownTrigger("gone", {}, "gone is not installed")
    world.store.put_definitions([replace(stored, trigger=unknown)])
    world.node(world.note)
    world.advance(1)
    assert world.called == []
    assert world.states() == {State.PENDING: 1}
    assert world.heard.of(InstanceGivenBack)[0].reason == "gone is not installed"


@pytest.mark.parametrize("taken_over", [False, True])
def test_what_was_asked_to_stop_is_not_called_again(
    world: World, taken_over: bool
) -> None:
    later = Later()
    one = world.node(world.note, "one", executor=later)
    one.schedule(once())
    world.advance(0)
    # As another process does: this node is not told.
    asked = world.store.cancel_instances({world.only().id: None})
    assert [*asked.values()] == [Cancelled.REQUESTED]
    if taken_over:
        world.clock.freeze("one")
        world.node(world.note, "two")
        world.advance(60)
    else:
        # It waits for the executor, and is given back as the node stops.
        assert one.stop()
        world.node(world.note, "two")
        world.advance(5)
    assert world.called == []
    ended = world.only()
    assert (ended.state, ended.runs) == (State.CANCELLED, int(taken_over))


def test_what_every_run_has_died_of_has_failed_after_the_last(world: World) -> None:
    world.scheduler(None).schedule(once(retry=RetryPolicy(max_attempts=2)))
    for name in ("first", "second"):
        later = Later()
        world.node(world.note, name, executor=later)
        world.until(partial(len, later.waiting))
        world.clock.freeze(name)
    world.node(world.note, "last")
    world.advance(60)
    assert world.called == []
    error = "none of 2 recorded starts came to an end"
    check(world.only(), state=State.FAILED, runs=2, error=error)
    assert world.heard.of(RunFailed)[-1].runs == 2
    assert [each.attempt for each in world.heard.of(InstanceTakenOver)] == [2]


def test_what_a_lost_answer_had_claimed_is_given_back_and_runs_once(
    world: World,
) -> None:
    node = world.node(world.note)
    node.schedule_all(several(2, 5))
    world.advance(1)
    world.faults.losing.add("claim_instances")
    world.until(lambda: world.states() == {State.CLAIMED: 2})
    assert (node.health().store_reachable, node.health().waiting) == (False, 0)
    world.faults.losing.clear()
    world.advance(10)
    assert len(world.called) == 2
    assert max(world.times) < 7
    assert world.states() == {State.COMPLETED: 2}
    assert {each.runs for each in world.store.select()} == {1}
    lost = world.heard.of(ClaimAnswerLost)
    assert [(each.node, each.count) for each in lost] == [(node.health().node, 2)]


def test_what_runs_is_held_or_not_recorded_is_not_taken_for_lost(world: World) -> None:
    node = world.begin(once(1), once(1), once(9.5))
    world.advance(1)
    world.faults.failing["finish_instances"] = StoreError("no")
    world.bench.calls[0].end()
    world.advance(7)
    world.faults.losing.add("claim_instances")
    node.schedule(once(9.2))
    world.advance(0)
    world.faults.losing.clear()
    world.advance(10)
    del world.faults.failing["finish_instances"]
    world.bench.end_all()
    world.advance(11)
    world.bench.end_all()
    world.advance(1)
    assert world.states() == {State.COMPLETED: 4}
    assert {each.runs for each in world.store.select()} == {1}
    assert len(world.bench.calls) == 4


def node_without_an_answer(world: World) -> tuple[Scheduler, UUID, TaskInstance]:
    """A node whose claim had no answer, its id, and what is due, which waits yet."""
    node = world.node(world.note)
    task = node.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    world.advance(2)
    mine = node.health().node
    assert mine is not None
    world.faults.failing["claim_instances"] = StoreUnavailableError("no answer")
    made = node.run_now(task.id)
    world.advance(0)
    del world.faults.failing["claim_instances"]
    return node, mine, made


def test_what_a_store_claims_only_after_its_answer_was_lost_is_given_back_too(
    world: World,
) -> None:
    node, mine, made = node_without_an_answer(world)
    # The store was still at work on it, and comes to it two seconds later.
    node.pause(made.definition_id)
    world.advance(2)
    node.resume(made.definition_id)
    [late] = claim(world.store, mine)
    assert world.called == []
    world.advance(3)
    assert [each.instance.id for each in world.called] == [late.id]
    assert world.only().runs == 1
    assert [each.count for each in world.heard.of(ClaimAnswerLost)] == [1]


def test_what_is_claimed_behind_a_slow_look_for_it_is_looked_for_once_more(
    world: World,
) -> None:
    node, mine, made = node_without_an_answer(world)
    node.pause(made.definition_id)

    def claim_late() -> None:
        node.resume(made.definition_id)
        claim(world.store, mine)

    world.faults.slow["list_claimed"] = seconds(6)
    world.faults.meanwhile["list_claimed"] = claim_late
    world.advance(2)
    world.faults.slow.clear()
    world.advance(2)
    assert [each.instance.id for each in world.called] == [made.id]
    assert world.only().attempt == 2


def test_while_it_is_unknown_what_was_claimed_and_locked_it_is_tried_again(
    world: World,
) -> None:
    node = world.node(world.note)
    node.schedule(once(5))
    world.advance(3)
    world.faults.losing = {"claim_instances", "fire_definitions and start"}
    world.advance(1.8)
    [instance] = world.store.select()
    assert instance.state in (State.CLAIMED, State.RUNNING)
    world.faults.losing.clear()
    world.faults.locked.add(instance.id)
    world.advance(1)
    assert world.called == []
    world.faults.locked.clear()
    world.advance(2)
    assert [each.instance.id for each in world.called] == [instance.id]
    assert world.only().runs == 1


@pytest.mark.parametrize("slow", [0.05, 0.3, 0.8])
def test_on_a_slow_store_what_is_due_still_starts_on_time(
    world: World, slow: float
) -> None:
    slow_calls = ("claim_instances", "start_instances", "finish_instances")
    world.faults.slow = dict.fromkeys(slow_calls, seconds(slow))
    due_times = range(2, 60, 3)
    world.node(world.note).schedule_all(map(once, due_times))
    world.advance(70)
    late = [called - due for called, due in zip(world.times, due_times, strict=True)]
    assert min(late) >= 0
    # The first ones teach it how slow the store is.
    assert max(late[len(late) // 2 :]) <= slow


class Settling(MemoryStore):
    """Its scans leave out for a moment what has just been committed.

    It starts nothing by itself, but what is added.
    """

    settling = seconds(0.2)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._elapsed = clock.elapsed
        self._committed = {"put_definitions": -HOUR, "fire_definitions": -HOUR}

    def put_definitions(self, *args: Any, **_: Any) -> Any:
        self._committed["put_definitions"] = self._elapsed()
        return super().put_definitions(*args)

    def fire_definitions(self, *args: Any, **_: Any) -> Any:
        self._committed["fire_definitions"] = self._elapsed()
        return super().fire_definitions(*args)

    def due_definitions(self, **options: Any) -> Any:
        settles = self._elapsed() - self._committed["put_definitions"]
        return super().due_definitions(**options) if settles >= SETTLED else []

    def claim_instances(self, *args: Any, **options: Any) -> Any:
        settles = self._elapsed() - self._committed["fire_definitions"]
        return super().claim_instances(*args, **options) if settles >= SETTLED else []


SETTLED = seconds(0.03)


def test_on_a_store_that_settles_what_is_new_waits_for_no_tick() -> None:
    world = World(Settling)
    node = world.node(world.note, schedule_window=HOUR, runner_window=HOUR)
    world.advance(10)
    node.schedule(once(10))
    world.advance(0.4)
    assert len(world.called) == 1
    assert world.times[0] < 10.2


def test_of_what_is_due_at_once_each_node_takes_as_much_as_it_can_call(
    world: World,
) -> None:
    world.scheduler(None).schedule_all(several(40, 5))
    world.advance(1)
    world.node(world.bench.handler, "one", max_workers=4, max_held=4)
    world.node(world.bench.handler, "two", max_workers=8, max_held=8)
    world.advance(6)
    running = world.store.select(Filter(states=[State.RUNNING]), limit=100)
    shares = Counter(each.claimed_by for each in running)
    assert sorted(shares.values()) == [4, 8]


def test_of_one_definition_a_node_has_no_more_than_it_may_and_others_go_on(
    world: World,
) -> None:
    client = world.scheduler(None)
    few = client.schedule(
        TaskDefinition(trigger=OnDemandTrigger(), name="few", max_per_node=2)
    )
    other = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), name="other"))
    for _ in range(5):
        client.run_now(few.id)
    for _ in range(3):
        client.run_now(other.id)
    world.node(world.bench.handler, "one")
    world.advance(20)
    names = Counter(each.instance.definition.name for each in world.bench.running)
    assert names == {"few": 2, "other": 3}
    begun = {each.instance.id for each in world.bench.running}
    waits = next(each for each in client.list_instances() if each.id not in begun)
    assert "at most 2 at once" in client.why(waits.id).text
    given_back = world.heard.of(InstanceGivenBack)
    assert "no more may be on one node (max_per_node)" in given_back[0].reason
    # What is kept out in a row comes later each time, so that nobody claims in vain.
    assert given_back[0].delay == seconds(1)
    assert max(each.delay for each in given_back) > seconds(1)
    world.node(world.bench.handler, "two")
    world.advance(31)
    names = Counter(each.instance.definition.name for each in world.bench.running)
    assert names == {"few": 4, "other": 3}
    while counts_by_state(world.store)[State.COMPLETED] < 8:
        world.bench.end_all()
        world.advance(31)
    assert {each.runs for each in world.store.select()} == {1}


def test_what_has_lapsed_is_taken_over_one_first_then_two_then_four(
    world: World,
) -> None:
    one = world.node(world.note, "one", executor=Later(), lease=LEASE)
    one.schedule_all(several(12, expire_after=seconds(300)))
    world.advance(1)
    assert world.states() == {State.RUNNING: 12}
    world.clock.freeze("one")
    world.advance(LEASE.total_seconds() + 5)
    world.node(world.bench.handler, "two")
    batches: list[int] = []
    while sum(batches) < 12:
        world.advance(0.05)
        if new := len(world.bench.calls) - sum(batches):
            batches.append(new)
    assert batches == [1, 2, 4, 5]
    assert world.bench.calls[-1].at - world.bench.calls[0].at < seconds(0.5)
    assert len(world.heard.of(InstanceTakenOver)) == 12


def test_without_a_free_worker_nothing_is_taken_over(world: World) -> None:
    one = world.node(world.note, "one", executor=Later())
    one.schedule(once())
    world.advance(1)
    world.begin(once(1), name="two", max_workers=1)
    assert len(world.bench.running) == 1
    world.clock.freeze("one")
    world.advance(100)
    assert len(world.bench.calls) == 1
    world.bench.end_all()
    world.advance(10)
    assert len(world.bench.calls) == 2


def test_what_had_not_begun_or_has_failed_was_not_lost_with_its_node(
    world: World,
) -> None:
    world.node(world.note, "one").schedule(once(2))
    world.advance(1.5)
    assert world.states() == {State.CLAIMED: 1}
    world.clock.freeze("one")
    world.node(world.note, "two")
    world.advance(60)
    assert len(world.called) == 1
    assert world.heard.of(InstanceTakenOver) == []


@pytest.mark.parametrize("unread", [(), (1,), (2,)])
def test_the_next_claim_is_sent_while_the_last_is_read(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch, unread: Collection[int]
) -> None:
    claim_instances, claims = threaded.store.claim_instances, count(1)
    second = threading.Event()
    ran: set[UUID] = set()

    def claim(*args: Any, **options: Any) -> Sequence[TaskInstance]:
        found = claim_instances(*args, **options)
        if len(found) < 500:
            return found
        number = next(claims)
        if number == 2:
            second.set()

        def read() -> Sequence[TaskInstance]:
            assert second.wait(FAILED_AFTER)
            if number in unread:
                raise StoreError("it cannot be read")
            return found

        return ReadLater(len(found), read)

    monkeypatch.setattr(threaded.store, "claim_instances", claim)
    # It takes 500 at a time, and has room for more than that.
    node = threaded.scheduler(lambda each: ran.add(each.id), max_workers=1200)
    node.schedule(task())
    node.enqueue_all("send", [{"number": number} for number in range(1000)])
    node.start()
    threaded.heard.wait(InstanceFinished, 1000)
    assert len(ran) == 1000
    assert len(threaded.heard.of(ClaimAnswerLost)) == len(unread)
    assert all(each.runs == 1 for each in threaded.store.select(limit=1000))
