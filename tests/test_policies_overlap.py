"""Overlap and locks, where many are due at once."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    HandedOn,
    MemoryStore,
    OnDemandTrigger,
    Overlap,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.testing import InlineExecutor
from go_scheduler.testing.clock import START
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant
    from go_scheduler.testing import ManualClock

P = ParamSpec("P")
T = TypeVar("T")

CONCEPTS = (Path(__file__).parents[1] / "docs/concepts.md").read_text()
HOUR = seconds(3600)
BEGIN = START + seconds(1)


def once(at: float = 0, **options: object) -> TaskDefinition:
    trigger = ExecuteOnceTrigger(START + seconds(at))
    return TaskDefinition(trigger=trigger, **options)  # type: ignore[arg-type]


def outcomes(scheduler: Scheduler) -> Counter[str]:
    return Counter(each.state.value for each in scheduler.list_instances(limit=1000))


def test_skip_runs_one_of_those_due_at_once_though_it_ends_at_once(
    store: Store, clock: ManualClock
) -> None:
    called: list[TaskInstance] = []
    new = TaskDefinition(trigger=OnDemandTrigger(), overlap=Overlap.SKIP)
    with Scheduler(
        called.append, store, executor=InlineExecutor(), clock=store.clock
    ) as scheduler:
        scheduler.schedule(new)
        scheduler.pause(new.id)
        for _ in range(3):
            scheduler.run_now(new.id)
        scheduler.resume(new.id)
        clock.advance(seconds(5))
        assert outcomes(scheduler) == {"completed": 1, "skipped": 2}
    assert len(called) == 1


class CountingStore(MemoryStore):
    """Counts how often each instance is claimed."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.claims: Counter[UUID] = Counter()

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        claimed = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        self.claims.update(each.id for each in claimed)
        return claimed


def test_ten_thousand_that_share_a_lock_delay_none_of_a_thousand_others(
    clock: ManualClock,
) -> None:
    store = CountingStore(clock)
    late: list[timedelta] = []
    kept: list[TaskInstance] = []

    def handle(instance: TaskInstance) -> object:
        if instance.definition.lock is not None:
            kept.append(instance)
            return HandedOn(expire_after=HOUR)
        late.append(clock.now() - instance.execute_at)
        return None

    scheduler = Scheduler(handle, store, clock=clock)
    locked = [once(10 + number / 1000, lock="a") for number in range(10_000)]
    free = [once(10 + number / 100) for number in range(1000)]
    scheduler.schedule_all([*locked, *free])
    with scheduler:
        clock.advance(seconds(30))
        assert len(late) == 1000
        assert max(late) == seconds(0)
        assert len(kept) == 1
        assert max(store.claims.values()) == 1
        before = store.claims.total()
        clock.advance(seconds(60))
        assert store.claims.total() == before


class Mine(str, Enum):  # noqa: UP042
    """An enumeration of a user, from before Python 3.11."""

    SKIP = "skip"


def test_an_overlap_may_be_a_text_of_an_enumeration_of_the_users() -> None:
    made = TaskDefinition(trigger=OnDemandTrigger(), overlap=Mine.SKIP)  # type: ignore[arg-type]
    assert made.overlap is Overlap.SKIP
    with pytest.raises(ConfigurationError, match="overlap must be"):
        TaskDefinition(trigger=OnDemandTrigger(), overlap="skipped")  # type: ignore[arg-type]
