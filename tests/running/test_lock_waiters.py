"""When the store is to go over what is parked, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.start_queue import LockWaiters
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Announcement, Reviewed
from go_scheduler.testing.builders import LEASE, OTHER_NODE
from tests.conftest import instance, seconds, state_of

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

PARKED = replace(instance(claimed_by=None), parked=True)


class ReviewedStore(MemoryStore):
    """Answers what it is told to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.found = Reviewed()

    def review_parked(self, *, limit: int) -> Reviewed:
        return self.found


@pytest.mark.parametrize(
    ("found", "pause"),
    [
        (Reviewed(), LEASE),
        (Reviewed(parked=True), seconds(1)),
        (Reviewed(parked=True, more=True), timedelta(milliseconds=100)),
        (Reviewed(parked=True, replaced=[PARKED]), ZERO),
    ],
    ids=["nothing", "parked", "more", "replaced"],
)
def test_it_looks_again_as_soon_as_there_may_be_something_to_do(
    clock: ManualClock, found: Reviewed, pause: timedelta
) -> None:
    freed: list[int] = []
    store = ReviewedStore(clock)
    store.found = found
    state = state_of(store, clock)
    state.work_found.connect(lambda: freed.append(1))
    lock_waiters = LockWaiters(state)
    assert lock_waiters.tick() == pause
    assert freed == []


@pytest.mark.parametrize(
    ("found", "pause"),
    [
        (Reviewed(), LEASE),
        (Reviewed(parked=True), seconds(5)),
        (Reviewed(parked=True, more=True), seconds(1)),
        (Reviewed(parked=True, replaced=[PARKED]), ZERO),
    ],
)
def test_it_looks_less_often_where_another_node_does(
    clock: ManualClock, found: Reviewed, pause: timedelta
) -> None:
    store = ReviewedStore(clock)
    store.shards = 16
    store.found = found
    state = state_of(store, clock)
    state.shares.know([Announcement(node=OTHER_NODE)])
    assert LockWaiters(state).tick() == pause


def test_it_looks_when_what_was_parked_here_is_due(
    clock: ManualClock,
) -> None:
    lock_waiters = LockWaiters(state_of(ReviewedStore(clock), clock))
    lock_waiters.park([replace(PARKED, due_at=clock.now() + timedelta(seconds=0.5))])
    assert lock_waiters.tick() == timedelta(seconds=0.5)
    clock.advance(seconds(1))
    assert lock_waiters.tick() == LEASE
