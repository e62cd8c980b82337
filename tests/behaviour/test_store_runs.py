"""Runs on every kind of store: what is claimed, kept, lost, excluded and cleaned up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler import (
    ExecuteOnceTrigger,
    HandedOn,
    IntervalTrigger,
    Overlap,
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from go_scheduler import Store, TaskInstance
    from go_scheduler.testing import ManualClock

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


# Triggers that wait, and what changes while something fires.


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
