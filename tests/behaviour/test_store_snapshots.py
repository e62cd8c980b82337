"""A store in memory goes on in another process from what was kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    HandedOn,
    MemoryStore,
    Overlap,
    RetryPolicy,
    State,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    House,
    ids,
    once,
    running,
    task,
)

if TYPE_CHECKING:
    from go_scheduler import TaskInstance
    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """The one that is kept."""
    return MemoryStore(clock)


def restored(store: MemoryStore, clock: ManualClock) -> MemoryStore:
    """Another one, which had something else before, as what is kept of the first."""
    other = MemoryStore(clock)
    Client(other).schedule(once(name="of before"))
    other.restore(store.snapshot())
    return other


def full(house: House) -> dict[str, TaskInstance]:
    """What runs, what waits for that, what is to stop and what is to run again."""
    client = house.scheduler
    runs = house.run(lock="printer", metadata={"a": [1]})
    house.task("parked", lock="printer")
    parked = client.enqueue("parked", key="k")
    stopping = house.run()
    client.cancel(stopping.id)
    waits = house.run(retry=RetryPolicy(max_attempts=2, delay=HOUR))
    assert house.fail(waits)
    client.declare([task("declared")], owner="shop", version=7)
    house.clock.advance(2 * SECOND)
    return {"runs": runs, "parked": parked, "stopping": stopping, "waits": waits}


def test_what_ran_goes_on_and_what_waits_for_it_has_its_turn(
    store: MemoryStore, clock: ManualClock
) -> None:
    with running(store, clock) as before:
        at = full(before)
    with running(restored(store, clock), clock) as house:
        clock.advance(2 * SECOND)
        assert house.called == []
        assert house.scheduler.extend(at["runs"].id, 1, HOUR) == "go on"
        assert house.scheduler.extend(at["stopping"].id, 1, HOUR) == "stop"
        assert house.scheduler.enqueue("parked", key="k").id == at["parked"].id
        assert house.complete(at["runs"])
        clock.advance(2 * SECOND)
        assert ids(house.called) == [at["parked"].id]
        house.answer = lambda _: HandedOn(expire_after=2 * DAY)
        house.rest(HOUR)
        assert at["waits"].id in ids(house.called)
        assert house.again(at["waits"]).attempt == 2
        # Of a declared set its version counts.
        house.scheduler.declare([], owner="shop", version=6)
        assert len(house.scheduler.list_definitions(owner="shop")) == 1
        # What happens here is not seen in the one that it was kept of.
        house.scheduler.delete_definitions(name="parked")
        assert len(Client(store).list_definitions(name="parked")) == 1


def test_what_met_another_that_runs_is_judged_by_that(
    store: MemoryStore, clock: ManualClock
) -> None:
    with running(store, clock) as before:
        before.task(overlap=Overlap.BUFFER_ALL)
        first, second = (before.scheduler.enqueue("send") for _ in range(2))
        clock.advance(SECOND)
        [runs] = before.called
    with running(restored(store, clock), clock) as house:
        assert house.complete(house.again(runs))
        clock.advance(2 * SECOND)
        assert ids(house.called) == [({first.id, second.id} - {runs.id}).pop()]


def test_ids_that_have_ended_and_revisions_of_deleted_ones_are_remembered(
    store: MemoryStore, clock: ManualClock
) -> None:
    new = once(id=TaskDefinition.id_for("a"))
    other = once(START + DAY, id=TaskDefinition.id_for("b"))
    with running(store, clock, retention=MINUTE) as before:
        before.answer = lambda _: None
        before.scheduler.schedule(new)
        deleted = before.scheduler.schedule(other)
        clock.advance(SECOND)
        before.rest(2 * MINUTE)
        before.scheduler.delete_definition(other.id)
    client = Client(restored(store, clock))
    assert client.schedule(new).state == "completed"
    again = client.schedule(other)
    assert (again.revision or 0) > (deleted.revision or 0)
    assert client.counts()[State.PENDING] == 0
    clock.advance(NOW)
