"""Schedulers of one process that share a store, and look at once for each other."""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing import InlineExecutor
from go_scheduler.testing.builders import HOUR
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        self.first = Scheduler(None, store, clock=clock, expire_after=HOUR)
        self.other = self.first.another(
            self.handled.append, queues=["other"], executor=InlineExecutor()
        )


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
    third = two.first.another(print, queues=["third"], executor=InlineExecutor())
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


def test_another_one_is_like_the_first_but_for_what_it_runs(
    store: Store, clock: ManualClock
) -> None:
    two = Two(store, clock)
    assert two.other._settings.expire_after == HOUR
    assert two.other._settings.queues == ("other",)
    with pytest.raises(ConfigurationError, match="queues"):
        two.first.another(print, queues=[], executor=InlineExecutor())


def test_those_that_nobody_has_any_more_are_forgotten(
    store: Store, clock: ManualClock
) -> None:
    first = Scheduler(None, store, clock=clock)
    for _ in range(10):
        first.another(print, queues=["other"], executor=InlineExecutor())
    gc.collect()
    assert list(first._fellows.nodes()) == []
    first.another(print, queues=["other"], executor=InlineExecutor())
    assert len(first._fellows._all) <= 2
