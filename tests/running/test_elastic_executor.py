"""An executor whose room changes is claimed for what it takes, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.running.calling.elastic_executor import ElasticExecutor
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import definition, fire, put
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import Claimant
    from go_scheduler.testing import ManualClock


class Some(ElasticExecutor):
    """Takes as many as it is told to; the handler takes the room of each."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.handled: list[TaskInstance] = []

    @property
    def room(self) -> int:
        return self.left

    def handle(self, instance: TaskInstance) -> None:
        self.left -= 1
        self.handled.append(instance)

    def add(self, room: int) -> None:
        self.left += room
        self.grow()


class CountingStore(MemoryStore):
    """Notes how many a claim may take."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.limits: list[int] = []

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        self.limits.append(limit)
        return super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )


@pytest.fixture
def store(clock: ManualClock) -> CountingStore:
    return CountingStore(clock)


@pytest.fixture
def some() -> Some:
    return Some()


@pytest.fixture
def scheduler(
    some: Some, store: CountingStore, clock: ManualClock
) -> Iterator[Scheduler]:
    with Scheduler(some.handle, store, clock=clock, executor=some) as scheduler:
        clock.advance(seconds(1))
        yield scheduler


def due(
    store: CountingStore, count: int = 1, *, after: float = 0
) -> list[TaskInstance]:
    found: list[TaskInstance] = []
    for _ in range(count):
        found += fire(store, put(store, definition(store.now() + seconds(after))))
    return found


def states(store: CountingStore, instances: list[TaskInstance]) -> list[State]:
    return [store.get_instance(each.id).state for each in instances]


def test_without_room_nothing_is_claimed_and_nothing_is_wrong(
    scheduler: Scheduler, store: CountingStore, clock: ManualClock
) -> None:
    instances = due(store, 3)
    clock.advance(seconds(60))
    assert store.limits == []
    assert scheduler.health().ok
    assert states(store, instances) == [State.PENDING] * 3


def test_as_much_is_claimed_as_there_is_room_for(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    instances = due(store, 5)
    some.add(2)
    clock.advance(seconds(1))
    assert max(store.limits) == 2
    assert len(some.handled) == 2
    assert states(store, instances).count(State.PENDING) == 3


def test_new_room_is_claimed_for_at_once_if_something_is_left(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    due(store, 5)
    clock.advance(seconds(1))
    some.add(1)
    clock.advance(seconds(0))
    assert len(some.handled) == 1
    some.add(4)
    clock.advance(seconds(0))
    assert len(some.handled) == 5


def test_new_room_asks_nothing_if_nothing_is_left(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    some.add(1)
    clock.advance(seconds(60))
    asked = len(store.limits)
    for _ in range(100):
        some.left -= 1
        some.add(1)
    clock.advance(seconds(0))
    assert len(store.limits) == asked


def test_what_has_found_no_room_is_called_when_there_is_some(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    some.add(1)
    instances = due(store, after=0.5)
    clock.advance(seconds(0.45))
    some.left -= 1
    clock.advance(seconds(0.1))
    assert states(store, instances) == [State.RUNNING]
    assert some.handled == []
    some.add(1)
    assert [each.id for each in some.handled] == [instances[0].id]
    clock.advance(seconds(1))
    assert states(store, instances) == [State.COMPLETED]


def test_what_finds_no_room_for_a_window_is_given_back_and_not_called(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    some.add(1)
    [instance] = due(store, after=0.5)
    clock.advance(seconds(0.45))
    some.left -= 1
    clock.advance(seconds(3))
    assert states(store, [instance]) == [State.PENDING]
    assert store.get_instance(instance.id).runs == 0
    # The call that waited for room is of a run that was given back.
    some.left = 1
    some.grow()
    assert (some.handled, some.left) == ([], 1)
    clock.advance(seconds(0))
    assert [each.id for each in some.handled] == [instance.id]


def test_ahead_of_its_time_no_more_is_held_than_some_for_each_it_takes(
    scheduler: Scheduler, store: CountingStore, some: Some, clock: ManualClock
) -> None:
    due(store, 100, after=1.5)
    some.add(2)
    clock.advance(seconds(1))
    assert 2 <= scheduler.health().waiting <= 33
    some.add(100)
    clock.advance(seconds(1))
    assert len(some.handled) == 100


def test_a_node_that_has_stopped_is_told_of_no_room(
    some: Some, store: CountingStore, clock: ManualClock
) -> None:
    scheduler = Scheduler(some.handle, store, clock=clock, executor=some)
    for _ in range(3):
        scheduler.start()
        scheduler.stop()
    assert some._told == ()


def test_what_a_call_raises_is_in_its_future() -> None:
    some = Some()
    future = some.submit(int, "x")
    assert not future.done()
    some.add(1)
    assert isinstance(future.exception(), ValueError)


def test_what_is_cancelled_while_it_waits_is_not_called() -> None:
    some = Some()
    future = some.submit(some.handle)  # type: ignore[call-arg]
    assert future.cancel()
    some.add(1)
    assert some.handled == []
