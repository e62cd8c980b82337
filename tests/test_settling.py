"""On a store that settles, what is new is found by a repeated look, not by a tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import HandOverStore
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import Answer, Claimant, Fired, Firing
    from go_scheduler.testing import ManualClock


class SettlingStore(MemoryStore):
    """Its scans find nothing for a moment after anything was committed."""

    def __init__(self, clock: ManualClock, settling: timedelta) -> None:
        super().__init__(clock)
        self.settling = settling
        self.claims = 0
        self._manual = clock
        self._put_at = self._fired_at = -settling

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        self._put_at = self._manual.elapsed()
        return super().put_definitions(definitions)

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        if self._manual.elapsed() < self._put_at + self.settling:
            return []
        return super().due_definitions(ahead=ahead, after=after, limit=limit)

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        self._fired_at = self._manual.elapsed()
        return super().fire_definitions(firings)

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        # As of a store that leaves the start to the loops.
        return HandOverStore.fire_and_start(self, firings, claimant)

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        self.claims += 1
        if self._manual.elapsed() < self._fired_at + self.settling:
            return []
        return super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )


def called_after(clock: ManualClock, store: SettlingStore) -> timedelta:
    """How long a one-off that is due at once, between two ticks, waits for its call."""
    called: list[timedelta] = []
    with Scheduler(lambda _: called.append(clock.elapsed()), store, clock=clock) as it:
        clock.advance(seconds(10.05))
        began, claims = clock.elapsed(), store.claims
        it.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(clock.now())))
        clock.advance(seconds(0.4))
        store.claims -= claims
        [at] = called
        return at - began


@pytest.mark.parametrize(
    ("settling", "late"), [(0.015, 0.04), (0.045, 0.1), (0.09, 0.2), (0.15, 0.4)]
)
def test_a_one_off_that_is_due_now_waits_for_no_tick(
    clock: ManualClock, settling: float, late: float
) -> None:
    store = SettlingStore(clock, seconds(settling))
    assert called_after(clock, store) <= seconds(late)


def test_where_nothing_settles_no_look_is_repeated(clock: ManualClock) -> None:
    store = SettlingStore(clock, ZERO)
    assert called_after(clock, store) == ZERO
    # When its instance has been made, and not before.
    assert store.claims == 1
