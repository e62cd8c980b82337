"""Schedulers of one process that share a store, and look at once for each other."""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import InlineExecutor
from go_scheduler.testing.builders import HOUR
from go_scheduler.triggers.simple import ExecuteOnceTrigger, OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """What this module is about is the same on any store."""
    return MemoryStore(clock)


class Two:
    """A scheduler, and another one for the queue \"other\"."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.handled: list[TaskInstance] = []
        self.first = Scheduler(None, store, clock=clock)
        self.other = beside(self.first, self.handled.append, "other")


def beside(
    first: Scheduler, handler: Callable[[TaskInstance], None], queue: str
) -> Scheduler:
    """A scheduler beside another one, for a queue of its own."""
    made = Scheduler(
        handler,
        first._store,
        clock=first._clock,
        queues=[queue],
        executor=InlineExecutor(),
    )
    first._join(made)
    return made


def once(clock: ManualClock) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(clock.now()), queue="other")


class Noted(MemoryStore):
    """One that notes the queues of nodes that claim."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.claimed: list[Sequence[str]] = []

    def claim_instances(self, claimant: Any, **asked: Any) -> Sequence[TaskInstance]:
        self.claimed.append(claimant.queues)
        return super().claim_instances(claimant, **asked)


def test_only_those_look_that_serve_its_queue(clock: ManualClock) -> None:
    store = Noted(clock)
    two = Two(store, clock)
    third = beside(two.first, print, "third")
    task = TaskDefinition(trigger=OnDemandTrigger(), queue="other")
    with two.first, two.other, third:
        two.first.schedule(task)
        clock.advance(timedelta(seconds=10))
        store.claimed.clear()
        for _ in range(2):
            two.first._queues |= {uuid4(): "other" for _ in range(10_000)}
            two.first.run_now(task.id)
            clock.advance(ZERO)
        assert set(store.claimed) == {("other",)}
    assert len(two.handled) == 2
    assert two.first._queues == {task.id: "other"}


def test_one_that_hands_out_is_like_the_first(store: Store, clock: ManualClock) -> None:
    first = Scheduler(None, store, clock=clock, expire_after=HOUR)
    assert first._handing_out()._settings.expire_after == HOUR


def test_those_that_nobody_has_any_more_are_forgotten(
    store: Store, clock: ManualClock
) -> None:
    first = Scheduler(None, store, clock=clock)
    for _ in range(10):
        first._handing_out()
    gc.collect()
    assert list(first._fellows.nodes()) == []
    first._handing_out()
    assert len(first._fellows._all) <= 2
