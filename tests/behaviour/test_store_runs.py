"""Runs on every kind of store: what is claimed, kept, lost, excluded and cleaned up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler import (
    CatchUp,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandedOn,
    IntervalTrigger,
    Job,
    Overlap,
    RetryAfter,
    RetryPolicy,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    Trigger,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    MOMENT,
    NOW,
    SECOND,
    House,
    ids,
    once,
    running,
    task,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from go_scheduler import Store, TaskInstance
    from go_scheduler.testing import ManualClock

ONCE = RetryPolicy(max_attempts=1)
AT_ONCE = RetryPolicy(delay=NOW, max_attempts=3)
SELDOM: dict[str, Any] = {"schedule_window": DAY, "runner_window": DAY, "lease": DAY}
"""Of a node that looks by itself once a day."""


@pytest.fixture
def house(store: Store, clock: ManualClock) -> Iterator[House]:
    """A scheduler whose runs go on until they are ended."""
    with running(store, clock) as house:
        yield house


def numbers(given: list[TaskInstance]) -> list[object]:
    """What they were enqueued with."""
    return [(each.payload or {}).get("n") for each in given]


# What is claimed.


def test_what_is_due_is_run_once_and_nothing_early(house: House) -> None:
    house.task()
    for n, after in enumerate((5 * SECOND, -HOUR, 2 * SECOND, NOW)):
        house.scheduler.enqueue("send", at=START + after, n=n)
    house.clock.advance(NOW)
    assert numbers(house.called) == [1, 3]
    house.clock.advance(2 * SECOND - MOMENT)
    assert numbers(house.called) == [1, 3]
    house.clock.advance(MOMENT)
    assert numbers(house.called) == [1, 3, 2]
    house.clock.advance(3 * SECOND)
    assert numbers(house.called) == [1, 3, 2, 0]
    for each in house.called:
        assert (each.attempt, each.runs) == (1, 1)
        assert each.started_at == max(each.due_at, START)
    house.clock.advance(MINUTE)
    assert len(house.called) == 4


def test_only_its_queues_are_served(store: Store, clock: ManualClock) -> None:
    with running(store, clock, queues=["mail", "fax"]) as house:
        for queue in ("default", "fax", "mail", "MAIL"):
            house.task(queue, queue=queue)
            house.scheduler.enqueue(queue)
        clock.advance(2 * SECOND)
        queues = sorted(each.definition.queue for each in house.called)
        assert queues == ["fax", "mail"]


def in_order_of_claims(
    store: Store, clock: ManualClock, priorities: str, each: int
) -> str:
    """The classes of what runs, in the order in which one worker gets it."""
    house = House(store, clock, max_workers=1, max_held=1)
    house.answer = lambda _: None
    for priority in priorities:
        house.task(priority, priority=int(priority))
        # The less urgent, the longer it has been due.
        at = START - int(priority) * MINUTE
        house.scheduler.enqueue_all(priority, [Job(at=at) for _ in range(each)])
    with house.scheduler:
        while len(house.called) < len(priorities) * each:
            clock.advance(NOW)
            clock.advance(SECOND)
    return "".join(str(one.definition.priority) for one in house.called)


def test_what_is_more_urgent_is_claimed_first_and_nothing_waits_for_ever(
    store: Store, clock: ManualClock
) -> None:
    order = in_order_of_claims(store, clock, "310", each=16)
    assert order[0] == "0"
    assert order[:8].count("0") >= 6
    # One claim in eight begins at the last class.
    assert "3" in order[:10]
    assert order.rindex("0") < order.rindex("1") < order.rindex("3") + 1
    assert Counter(order) == {"0": 16, "1": 16, "3": 16}


def test_of_one_class_the_earliest_due_is_claimed_first(
    store: Store, clock: ManualClock, engine: str
) -> None:
    house = House(store, clock, max_workers=1, max_held=1)
    house.answer = lambda _: None
    house.task()
    for n in (2, 0, 3, 1):
        house.scheduler.enqueue("send", at=START - HOUR + n * SECOND, n=n)
    with house.scheduler:
        clock.advance(4 * SECOND)
    found = numbers(house.called)
    # CockroachDB keeps to it within each of its shards.
    if engine == "cockroachdb":
        assert {*found} == {0, 1, 2, 3}
    else:
        assert found == [0, 1, 2, 3]


def test_what_is_created_and_due_runs_at_once_and_not_at_the_next_look(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, **SELDOM) as house:
        clock.advance(NOW)
        one = house.once(NOW)
        of = house.task()
        many = house.scheduler.enqueue_all("send", [{"n": n} for n in range(3)])
        by_hand = house.scheduler.run_now(of.id)
        clock.advance(NOW)
        [fired] = house.of(one)
        expected = {fired.id, *ids(many), by_hand.id}
        assert {*ids(house.called)} == expected
        assert fired.fire_time == START
        assert {house.state(each) for each in house.called} == {State.RUNNING}
        assert house.scheduler.get_definition(one.id).state == "completed"
        # What another has to run, or is paused, or to come, does not.
        house.once(NOW, queue="another")
        house.once(NOW, paused=True)
        house.once(HOUR)
        house.task("later")
        house.scheduler.enqueue("later", delay=HOUR)
        clock.advance(NOW)
        assert len(house.called) == 5


def test_two_nodes_run_each_fire_time_once(store: Store, clock: ManualClock) -> None:
    with running(store, clock) as one, running(store, clock) as other:
        for house in (one, other):
            house.answer = lambda _: None
        every = IntervalTrigger(SECOND, anchor=START)
        of = one.scheduler.schedule(TaskDefinition(trigger=every))
        for n in range(10):
            house = (one, other)[n % 2]
            house.once(NOW)
            clock.advance(SECOND)
        both = [*one.called, *other.called]
        assert len({*ids(both)}) == len(both)
        fired = [each.fire_time for each in both if each.definition.id == of.id]
        assert sorted(fired) == [START + n * SECOND for n in range(1, 11)]  # type: ignore[type-var]
        assert {each.attempt for each in both} == {1}


# Claims that hold, and that are lost.


def test_what_a_node_holds_nobody_else_claims_before_its_end(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as one:
        held = one.run()
        with running(store, clock, queues=["default"]) as other:
            clock.advance(30 * SECOND)
            assert other.called == []
            assert one.again(held).claimed_by == one.scheduler.health().node
            assert one.again(held).expires_at == START + HOUR


def test_a_run_that_is_not_kept_runs_again_as_another_attempt(house: House) -> None:
    run = house.run()
    house.rest(HOUR - 10 * SECOND)
    house.clock.advance(9 * SECOND)
    assert len(house.called) == 1
    house.clock.advance(MINUTE)
    assert [each.attempt for each in house.called] == [1, 2]
    again = house.again(run)
    assert (again.attempt, again.runs, again.state) == (2, 2, State.RUNNING)
    [lost] = house.scheduler.list_runs(run.id)
    assert (lost.attempt, lost.outcome, lost.node) == (1, "lost", run.claimed_by)
    assert lost.started_at == run.started_at


def test_what_lapses_is_taken_over_and_what_is_kept_beside_it_stays(
    house: House,
) -> None:
    lapses, kept = house.run(), house.run()
    assert house.scheduler.extend(kept.id, kept.attempt, DAY) == "go on"
    house.rest(HOUR)
    house.clock.advance(MINUTE)
    assert (house.again(lapses).attempt, house.again(kept).attempt) == (2, 1)
    assert house.complete(kept)


def lost_by(house: House) -> tuple[TaskInstance, TaskInstance]:
    """A run that has lost its claim, and the one that has it."""
    run = house.run(retry=AT_ONCE)
    house.rest(HOUR)
    house.clock.advance(MINUTE)
    again = house.again(run)
    assert again.attempt == 2
    return run, again


def test_a_lost_run_keeps_fails_and_gives_back_nothing(house: House) -> None:
    run, again = lost_by(house)
    client = house.scheduler
    assert client.extend(run.id, run.attempt, DAY) == "lost"
    assert not house.fail(run)
    assert not client.release(run.id, run.attempt)
    assert house.again(run) == again
    # Nor does an attempt that there never was.
    assert client.extend(run.id, 3, DAY) == "lost"
    assert not client.complete(run.id, 3)
    assert not client.fail(run.id, 3, "x")
    assert not client.release(run.id, 3)
    assert house.again(run) == again


def test_the_first_success_wins_of_whichever_attempt(house: House) -> None:
    run, again = lost_by(house)
    assert house.complete(run, result={"by": 1})
    ended = house.again(run)
    assert (ended.state, ended.ended_attempt) == (State.COMPLETED, 1)
    assert ended.result == {"by": 1}
    # It may be said again; the other run is not needed any more.
    assert house.complete(run)
    assert not house.complete(again)
    assert house.scheduler.extend(again.id, again.attempt, HOUR) == "lost"
    assert not house.fail(again)
    assert house.again(run) == ended
    house.rest(2 * HOUR)
    assert len(house.called) == 2


def test_a_success_counts_after_the_instance_has_failed(house: House) -> None:
    run = house.run(retry=ONCE)
    assert house.fail(run)
    assert house.state(run) is State.FAILED
    assert house.complete(run, result=7)
    found = house.again(run)
    assert (found.state, found.result) == (State.COMPLETED, 7)


def test_a_run_may_be_kept_longer_and_not_shorter(house: House) -> None:
    run = house.run()
    extend = house.scheduler.extend
    assert extend(run.id, run.attempt, 3 * HOUR, progress={"done": [1]}) == "go on"
    kept = house.again(run)
    assert kept.expires_at == START + SECOND + 3 * HOUR
    assert kept.progress == {"done": [1]}
    assert extend(run.id, run.attempt, SECOND) == "go on"
    assert house.again(run).expires_at == kept.expires_at
    assert house.again(run).progress == {"done": [1]}
    house.rest(2 * HOUR)
    house.clock.advance(MINUTE)
    assert len(house.called) == 1


def test_what_is_given_back_counts_as_no_run_and_comes_when_it_is_said(
    house: House,
) -> None:
    run = house.run()
    assert house.scheduler.release(run.id, run.attempt, delay=5 * SECOND)
    back = house.again(run)
    assert (back.state, back.runs, back.attempt) == (State.PENDING, 0, 1)
    assert back.due_at == house.clock.now() + 5 * SECOND
    assert not house.scheduler.release(run.id, run.attempt)
    house.clock.advance(4 * SECOND)
    assert len(house.called) == 1
    house.clock.advance(SECOND)
    assert [(each.attempt, each.runs) for each in house.called] == [(1, 1), (2, 1)]
    assert list(house.scheduler.list_runs(run.id)) == []


def test_a_retry_is_due_by_the_stores_time(house: House) -> None:
    run = house.run(retry=RetryPolicy(delay=5 * SECOND, factor=2, max_attempts=3))
    for attempt, delay in ((1, 5), (2, 10)):
        assert house.fail(run, f"no paper {attempt}")
        waits = house.again(run)
        assert (waits.state, waits.runs) == (State.PENDING, attempt)
        assert waits.due_at == house.clock.now() + delay * SECOND
        assert (waits.started_at, waits.error) == (None, f"no paper {attempt}")
        house.clock.advance(waits.due_at - house.clock.now() - MOMENT)
        assert len(house.called) == attempt
        house.clock.advance(MOMENT)
        assert len(house.called) == attempt + 1
        run = house.again(run)
    assert house.fail(run)
    ended = house.again(run)
    assert (ended.state, ended.runs) == (State.FAILED, 3)
    assert ended.completed_at == house.clock.now()
    assert len(house.scheduler.list_runs(run.id)) == 3


def test_who_says_that_a_run_failed_may_say_what_follows(house: House) -> None:
    run = house.run(retry=AT_ONCE)
    assert house.fail(run, retry_in=HOUR)
    assert house.again(run).due_at == house.clock.now() + HOUR
    other = house.run(retry=AT_ONCE)
    assert house.fail(other, retry=False)
    assert house.state(other) is State.FAILED


def test_a_handler_that_fails_or_asks_for_another_time_is_called_again(
    house: House,
) -> None:
    raised: list[Exception] = [RetryAfter(2 * SECOND), ValueError("no paper")]

    def answer(_: object) -> None:
        if raised:
            raise raised.pop()

    house.answer = answer
    made = house.run(retry=RetryPolicy(delay=SECOND))
    assert (made.state, made.runs) == (State.PENDING, 2)
    assert made.due_at == START + 3 * SECOND
    house.clock.advance(2 * SECOND)
    ended = house.again(made)
    assert (ended.state, ended.runs) == (State.COMPLETED, 3)
    kept = house.scheduler.list_runs(made.id)
    assert [each.outcome.value for each in kept] == ["failed", "failed"]
    assert "ValueError: no paper" in (kept[0].error or "")


def test_a_run_on_a_bus_is_accepted_and_begun_by_one_worker(house: House) -> None:
    house.answer = lambda _: HandedOn(start_timeout=MINUTE)
    run, client = house.run(retry=AT_ONCE), house.scheduler
    assert (run.start_by, run.stage) == (START + MINUTE, "published")
    accept: dict[str, Any] = {"attempt": run.attempt, "by": 2 * MINUTE}
    assert client.accept(run.id, worker="w-1", **accept) == "go on"
    assert client.accept(run.id, worker="w-2", **accept) == "lost"
    accepted = house.again(run)
    assert (accepted.worker, accepted.stage) == ("w-1", "accepted")
    assert accepted.accepted_at == house.clock.now()
    assert accepted.start_by == house.clock.now() + 2 * MINUTE
    house.clock.advance(SECOND)
    begin: dict[str, Any] = {"attempt": run.attempt, "by": HOUR}
    assert client.begin(run.id, worker="w-2", **begin) == "lost"
    assert client.begin(run.id, worker="w-1", **begin) == "go on"
    begun = house.again(run)
    assert (begun.stage, begun.start_by) == ("started", None)
    assert begun.started_at == house.clock.now()
    assert begun.expires_at == house.clock.now() + HOUR
    assert house.complete(begun)


def test_a_run_on_a_bus_that_nobody_accepts_has_failed(house: House) -> None:
    house.answer = lambda _: HandedOn(start_timeout=MINUTE)
    run = house.run(retry=ONCE)
    house.rest(2 * MINUTE)
    house.clock.advance(MINUTE)
    ended = house.again(run)
    assert ended.state is State.FAILED
    [kept] = house.scheduler.list_runs(run.id)
    assert (kept.lost_in, len(house.called)) == ("published", 1)


# What excludes what.

OVERLAPS: dict[Overlap, tuple[list[int], list[str], list[int]]] = {
    Overlap.ALLOW: ([0, 1, 2, 3], ["running"] * 4, [0, 1, 2, 3]),
    Overlap.SKIP: ([0], ["running", "skipped", "skipped", "skipped"], [0]),
    Overlap.BUFFER_ONE: (
        [0],
        ["running", "pending", "skipped", "skipped"],
        [0, 1],
    ),
    Overlap.BUFFER_ALL: ([0], ["running", *["pending"] * 3], [0, 1, 2, 3]),
    Overlap.REPLACE: (
        [0],
        ["cancelling", "skipped", "skipped", "pending"],
        [0, 3],
    ),
}


@pytest.mark.parametrize("overlap", Overlap)
def test_what_is_due_meanwhile_is_treated_as_the_overlap_says(
    house: House, overlap: Overlap
) -> None:
    begin, states, in_the_end = OVERLAPS[overlap]
    of = house.task(overlap=overlap)
    for n in range(4):
        house.scheduler.enqueue("send", n=n)
        house.clock.advance(SECOND)
    assert numbers(house.called) == begin
    assert house.states(of) == states
    parked = [each.parked for each in house.of(of) if each.state is State.PENDING]
    assert all(parked)
    for each in house.called:
        assert house.complete(each)
        house.clock.advance(SECOND)
    assert numbers(house.called) == in_the_end
    skipped = [each for each in house.of(of) if each.state is State.SKIPPED]
    assert all(each.skipped and each.skipped.reason for each in skipped)


def let_go(house: House, run: TaskInstance, how: str) -> None:
    """End what has a lock, in one of the ways there are."""
    client = house.scheduler
    if how == "completed":
        assert house.complete(run)
    elif how == "failed":
        assert house.fail(run, retry=False)
    elif how == "cancelled":
        client.cancel(run.id)
        assert house.fail(run)
    elif how == "given back":
        assert client.release(run.id, run.attempt, delay=HOUR)
    elif how == "deleted":
        assert client.delete_definition(run.definition.id)
    elif how == "edited":
        assert house.fail(run, retry_in=HOUR)
        client.schedule(replace(run.definition, lock=None, revision=None))
    elif how == "cancelled between":
        assert house.fail(run, retry_in=HOUR)
        client.cancel(run.id)


@pytest.mark.parametrize(
    "how",
    [
        "completed",
        "failed",
        "cancelled",
        "given back",
        "deleted",
        "edited",
        "cancelled between",
    ],
)
def test_of_all_that_share_a_lock_one_runs_until_it_lets_go(
    house: House, how: str
) -> None:
    first = house.run(lock="printer")
    house.task("other", lock="printer", queue="default")
    waits = house.scheduler.enqueue("other")
    house.task("free", lock="another")
    free = house.scheduler.enqueue("free")
    house.clock.advance(2 * SECOND)
    assert ids(house.called) == [first.id, free.id]
    assert house.again(waits).parked
    let_go(house, first, how)
    house.clock.advance(2 * SECOND)
    assert ids(house.called) == [first.id, free.id, waits.id]
    assert not house.again(waits).parked


def test_on_two_nodes_one_has_the_lock_at_a_time_and_each_its_turn(
    store: Store, clock: ManualClock
) -> None:
    with (
        running(store, clock, queues=["a"]) as one,
        running(store, clock, queues=["b"]) as other,
    ):
        for queue in "ab":
            one.task(queue, queue=queue, lock="printer")
            one.scheduler.enqueue_all(queue, [{}] * 2)
        order = []
        for _ in range(4):
            clock.advance(2 * SECOND)
            runs = [
                each
                for each in (*one.called, *other.called)
                if one.state(each) is State.RUNNING
            ]
            [run] = runs
            order.append(run.definition.queue)
            assert one.complete(run)
        clock.advance(2 * SECOND)
        assert sorted(order) == ["a", "a", "b", "b"]
        assert one.scheduler.counts()[State.COMPLETED] == 4


def test_a_lock_is_kept_while_its_run_waits_for_a_retry_and_when_it_is_lost(
    house: House,
) -> None:
    first = house.run(lock="printer", retry=RetryPolicy(delay=5 * SECOND))
    house.task("other", lock="printer")
    waits = house.scheduler.enqueue("other")
    assert house.fail(first)
    house.clock.advance(3 * SECOND)
    assert ids(house.called) == [first.id]
    house.clock.advance(2 * SECOND)
    assert ids(house.called) == [first.id, first.id]
    house.rest(HOUR)
    house.clock.advance(MINUTE)
    assert ids(house.called) == [first.id] * 3
    assert house.complete(house.again(first))
    house.clock.advance(SECOND)
    assert ids(house.called) == [*[first.id] * 3, waits.id]


def test_what_waits_for_a_lock_goes_on_by_priority_and_time(house: House) -> None:
    first = house.run(lock="printer")
    for n, (priority, delay) in enumerate([(1, 2), (3, 1), (1, 1), (0, 3)]):
        house.task(f"waits {n}", lock="printer", priority=priority)
        house.scheduler.enqueue(f"waits {n}", n=n, delay=delay * SECOND)
    house.clock.advance(4 * SECOND)
    order = []
    run = first
    for _ in range(4):
        assert house.complete(run)
        house.clock.advance(SECOND)
        run = house.called[-1]
        order.append(run.payload and run.payload["n"])
    assert order == [3, 2, 0, 1]


def test_what_waits_for_a_lock_can_be_cancelled_paused_and_deleted(
    house: House,
) -> None:
    first = house.run(lock="printer")
    made = {}
    for name in ("cancelled", "paused", "deleted", "last"):
        house.task(name, lock="printer")
        made[name] = house.scheduler.enqueue(name)
        house.clock.advance(SECOND)
    assert house.scheduler.cancel(made["cancelled"].id) == "cancelled"
    house.scheduler.pause(made["paused"].definition.id)
    house.scheduler.delete_definition(made["deleted"].definition.id)
    assert house.complete(first)
    house.clock.advance(2 * SECOND)
    assert ids(house.called) == [first.id, made["last"].id]
    house.scheduler.resume(made["paused"].definition.id)
    assert house.complete(house.again(made["last"]))
    # A node that knew of nothing parked looks again within a lease.
    house.clock.advance(20 * SECOND)
    assert house.called[-1].id == made["paused"].id


# Triggers that wait, and what changes while something fires.


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_what_fires_after_each_end_goes_on_from_there(house: House, end: str) -> None:
    of = house.scheduler.schedule(
        TaskDefinition(trigger=DelayTrigger(5 * SECOND), retry=ONCE)
    )
    house.clock.advance(5 * SECOND)
    [first] = house.called
    house.clock.advance(7 * SECOND)
    assert len(house.called) == 1
    assert house.scheduler.get_definition(of.id).next_fire_time is None
    if end == "complete":
        assert house.complete(first)
    elif end == "fail":
        assert house.fail(first)
    else:
        house.scheduler.cancel(first.id)
        assert house.fail(first)
    following = house.scheduler.get_definition(of.id).next_fire_time
    assert following == START + 17 * SECOND
    # What is made by hand is not waited for.
    house.scheduler.run_now(of.id)
    house.clock.advance(5 * SECOND)
    assert [each.fire_time for each in house.called] == [
        START + 5 * SECOND,
        None,
        START + 17 * SECOND,
    ]


meanwhile: list[Callable[[], object]] = []
"""What happens once a trigger is asked for what follows."""


@dataclass(frozen=True)
class Interrupted(Trigger):
    """Fires each minute; while it is asked, something else happens once."""

    kind: ClassVar[str] = "tests.behaviour.interrupted"

    def next_fire_time(self, after: datetime) -> datetime:
        if meanwhile:
            meanwhile.pop()()
        return START + ((after - START) // MINUTE + 1) * MINUTE


@pytest.fixture
def fires(store: Store, clock: ManualClock) -> Iterator[tuple[House, TaskDefinition]]:
    """What is to fire when its scheduler looks next, and that scheduler."""
    meanwhile.clear()
    house = House(store, clock)
    house.answer = lambda _: None
    of = house.scheduler.schedule(TaskDefinition(trigger=Interrupted()))
    clock.advance(MINUTE)
    yield house, of
    meanwhile.clear()


def test_what_is_paused_while_it_fires_makes_nothing(
    fires: tuple[House, TaskDefinition], store: Store
) -> None:
    house, of = fires
    meanwhile.append(lambda: Client(store).pause(of.id))
    with house.scheduler:
        house.clock.advance(SECOND)
        assert meanwhile == []
        assert house.of(of) == []
        paused = Client(store).resume(of.id)
        assert paused.next_fire_time == START + MINUTE
        house.clock.advance(2 * SECOND)
        assert [each.fire_time for each in house.called] == [START + MINUTE]


def test_what_is_deleted_while_it_fires_makes_nothing(
    fires: tuple[House, TaskDefinition], store: Store
) -> None:
    house, of = fires
    meanwhile.append(lambda: Client(store).delete_definition(of.id))
    with house.scheduler:
        house.clock.advance(2 * SECOND)
        assert meanwhile == []
        assert house.called == []
        assert house.of(of) == []


def test_what_gets_another_trigger_while_it_fires_fires_by_that(
    fires: tuple[House, TaskDefinition], store: Store
) -> None:
    house, of = fires
    edited = replace(of, revision=None, trigger=IntervalTrigger(HOUR, anchor=START))
    meanwhile.append(lambda: Client(store).schedule(edited))
    with house.scheduler:
        house.clock.advance(2 * SECOND)
        assert meanwhile == []
        assert house.called == []
        found = house.scheduler.get_definition(of.id)
        assert found.next_fire_time == START + HOUR
        # What had passed is recorded by the edit, once.
        [record] = house.of(of)
        assert record.skipped is not None
        assert (record.skipped.first, record.skipped.count) == (START + MINUTE, 1)


def test_what_gets_a_trigger_of_the_same_time_while_it_fires_goes_on_by_that(
    fires: tuple[House, TaskDefinition], store: Store
) -> None:
    house, of = fires
    edited = replace(of, revision=None, trigger=ExecuteOnceTrigger(START + MINUTE))
    meanwhile.append(lambda: Client(store).schedule(edited))
    with house.scheduler:
        house.clock.advance(2 * SECOND)
        house.rest(2 * MINUTE)
        assert meanwhile == []
        assert [each.fire_time for each in house.called] == [START + MINUTE]
        assert house.scheduler.get_definition(of.id).state == "completed"


def test_what_is_edited_otherwise_while_it_fires_fires_once_as_it_was_edited(
    fires: tuple[House, TaskDefinition], store: Store
) -> None:
    house, of = fires
    edited = replace(of, revision=None, queue="default", metadata={"new": True})
    meanwhile.append(lambda: Client(store).schedule(edited))
    with house.scheduler:
        house.clock.advance(2 * SECOND)
        assert meanwhile == []
        [ran] = house.called
        assert (ran.fire_time, ran.metadata) == (START + MINUTE, {"new": True})
        assert house.scheduler.get_definition(of.id).revision == 2


def test_all_that_was_missed_is_caught_up_in_its_order(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock)
    house.answer = lambda _: None
    every = IntervalTrigger(MINUTE, anchor=START)
    modes = {
        mode: house.scheduler.schedule(
            TaskDefinition(trigger=every, catch_up=CatchUp(mode=mode))
        )
        for mode in ("all", "latest", "none")
    }
    clock.advance(5 * MINUTE + 30 * SECOND)
    with house.scheduler:
        clock.advance(SECOND)
    times = {
        mode: [each.fire_time for each in house.called if each.definition.id == of.id]
        for mode, of in modes.items()
    }
    passed = [START + n * MINUTE for n in range(1, 6)]
    assert times == {"all": passed, "latest": passed[-1:], "none": []}
    for mode, count in (("latest", 4), ("none", 5)):
        [record] = [each for each in house.of(modes[mode]) if each.skipped]
        assert record.skipped is not None
        assert (record.skipped.first, record.skipped.count) == (passed[0], count)


# Cleaned up.


def test_what_has_ended_is_kept_as_long_as_it_is_said_and_what_is_open_stays(
    store: Store, clock: ManualClock
) -> None:
    keeps: dict[str, Any] = {"retention": HOUR, "retention_failed": 3 * HOUR}
    with running(store, clock, **keeps) as house:
        house.answer = lambda _: HandedOn(expire_after=DAY)
        one_off = house.once(NOW, id=UUID(int=7))
        clock.advance(SECOND)
        [done] = house.called
        failed, cancelled, open_one = (house.run(retry=AT_ONCE) for _ in range(3))
        waits = house.scheduler.run_now(open_one.definition.id, delay=DAY)
        assert house.complete(done)
        for _ in range(3):
            assert house.fail(house.again(failed))
            clock.advance(NOW)
        assert house.state(failed) is State.FAILED
        house.scheduler.cancel(cancelled.id)
        assert house.fail(cancelled)

        def there() -> list[bool]:
            found = []
            for each in (done, cancelled, failed, open_one, waits):
                try:
                    house.again(each)
                except TaskInstanceNotFoundError:
                    found.append(False)
                else:
                    found.append(True)
            return found

        house.rest(HOUR - MINUTE)
        clock.advance(NOW)
        assert there() == [True] * 5
        house.rest(2 * MINUTE)
        assert there() == [False, False, True, True, True]
        with pytest.raises(TaskDefinitionNotFoundError):
            house.scheduler.get_definition(one_off.id)
        assert len(house.scheduler.list_runs(failed.id)) == 3
        assert list(house.scheduler.list_runs(cancelled.id)) == []
        house.rest(2 * HOUR)
        assert there() == [False, False, False, True, True]
        assert list(house.scheduler.list_runs(failed.id)) == []
        # What fires no more, and on demand, is no definition that has ended.
        assert house.scheduler.get_definition(failed.definition.id)
        assert house.complete(house.again(open_one))
        counts = house.scheduler.counts()
        assert {each.value: n for each, n in counts.items() if n} == {
            "completed": 1,
            "pending": 1,
        }


def test_more_than_a_batch_is_cleaned_up_at_once(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, retention=MINUTE) as house:
        of = house.task()
        made = house.scheduler.enqueue_all("send", [{"n": n} for n in range(1100)])
        house.scheduler.schedule_all(once(START + HOUR, paused=True) for _ in range(3))
        house.scheduler.delete_definition(of.id)
        assert house.scheduler.counts()[State.PENDING] == 0
        house.task()
        kept = house.scheduler.enqueue_all("send", [{}] * 600)
        for each in kept[:520]:
            house.scheduler.cancel(each.id)
        assert len(made) == 1100
        house.scheduler.pause(TaskDefinition.id_for("task send"))
        house.rest(2 * MINUTE)
        counts = house.scheduler.counts()
        assert {each.value: n for each, n in counts.items() if n} == {"pending": 80}


# Nodes, and what they count.


def test_a_node_is_there_while_it_tells_of_itself(
    store: Store, clock: ManualClock
) -> None:
    client = Client(store)
    with running(store, clock, queues=["mail", "fax"]) as house:
        clock.advance(SECOND)
        [node] = client.nodes()
        assert node.id == house.scheduler.health().node
        assert node.queues == ("mail", "fax")
        assert node.alive
        assert node.takes_on
    [node] = client.nodes()
    assert node.stopping
    clock.advance(MINUTE)
    assert not client.nodes()[0].alive
    clock.advance(2 * HOUR)
    assert list(client.nodes()) == []


def test_what_nodes_have_counted_is_added_up_by_minute_and_queue(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as one, running(store, clock, queues=["mail"]) as other:
        mail = one.task("mail", queue="mail", retry=AT_ONCE)
        one.task()
        for house in (one, other):
            house.answer = lambda _: None
        one.scheduler.enqueue_all("send", [{}] * 3)
        other.scheduler.run_now(mail.id)
        clock.advance(MINUTE + 10 * SECOND)

        def answer(_: object) -> None:
            raise ValueError("no paper")

        other.answer = answer
        other.scheduler.run_now(mail.id)
        clock.advance(MINUTE)
    client = Client(store)
    found = client.stats_since(START)
    assert [(each.at, each.queue, dict(each.ended)) for each in found] == [
        (START, "default", {"completed": 3}),
        (START, "mail", {"completed": 1}),
        (START + MINUTE, "mail", {"retried": 2, "failed": 1}),
    ]
    assert sum(found[0].lateness.counts) == 3
    assert client.stats_since(START, START) == []


def test_minutes_are_kept_for_two_days(store: Store, clock: ManualClock) -> None:
    with running(store, clock) as house:
        house.answer = lambda _: None
        house.once(NOW)
        clock.advance(SECOND)
        house.rest(2 * DAY - 2 * MINUTE)
        [minute] = house.scheduler.stats_since(START, START + DAY)
        assert minute.ended == {"completed": 1}
        house.rest(4 * MINUTE)
        assert house.scheduler.stats_since(START, START + DAY) == []


def test_a_queue_in_which_something_is_due_and_nobody_serves_is_named(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as house:
        house.once(NOW, queue="mial")
        house.once(HOUR, queue="later")
        house.once(NOW, queue="paused", paused=True)
        clock.advance(2 * MINUTE)
        [text] = [one for one in house.scheduler.health().warnings if "mial" in one]
        assert "'mial'" in text
        assert "later" not in text
        assert "paused" not in text
        with running(store, clock, queues=["mial"]):
            clock.advance(MINUTE)
            assert not any("mial" in one for one in house.scheduler.health().warnings)


def test_all_that_a_store_is_asked_is_of_what_was_put_in_it_alone(
    store: Store, clock: ManualClock
) -> None:
    """An empty one has nothing of anything, and says so."""
    client = Client(store)
    client.check()
    assert client.list_definitions() == []
    assert client.list_instances() == []
    assert {*client.counts().values()} == {0}
    assert list(client.backlog()) == []
    assert list(client.nodes()) == []
    assert client.stats_since(clock.now() - timedelta(days=1)) == []
    assert client.schedule(task()).revision == 1
