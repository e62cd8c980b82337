"""The cleanup deletes one bounded batch a tick, and only what is past its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.cleanup import Cleanup
from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreUnavailableError, TaskInstanceNotFoundError
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Retention
from go_scheduler.testing.builders import HOUR, TICK, ended, pending

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


HOURS = Retention(ended=HOUR, failed=2 * HOUR, remembered=3 * HOUR)


class Counted(MemoryStore):
    """Says that it deleted so many rows, and notes what it was asked."""

    def __init__(self, deleted: int) -> None:
        super().__init__()
        self.deleted = deleted
        self.asked: list[tuple[Retention, int]] = []

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        self.asked.append((retention, limit))
        return self.deleted


class Away(MemoryStore):
    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        raise StoreUnavailableError("away")


def hourly(store: Store) -> Cleanup:
    return Cleanup(store, HOURS)


def test_what_ended_is_kept_for_its_retention_and_then_deleted(
    clock: ManualClock, store: Store
) -> None:
    old = ended(store)
    cleanup = hourly(store)
    clock.advance(HOUR - TICK)
    assert cleanup.tick() is None
    assert store.get_instance(old.id) == old
    clock.advance(TICK)
    assert cleanup.tick() is None
    with pytest.raises(TaskInstanceNotFoundError):
        store.get_instance(old.id)


def test_what_has_not_ended_stays(clock: ManualClock, store: Store) -> None:
    open_one = pending(store)
    clock.advance(100 * HOUR)
    hourly(store).tick()
    assert store.get_instance(open_one.id) == open_one


def test_a_full_batch_asks_for_another_at_once() -> None:
    store = Counted(deleted=500)
    assert hourly(store).tick() == ZERO
    assert store.asked == [(HOURS, 500)]


def test_a_batch_that_is_not_full_waits_for_the_interval() -> None:
    assert hourly(Counted(deleted=499)).tick() is None


def test_a_store_that_is_away_is_left_to_the_ticker() -> None:
    with pytest.raises(StoreUnavailableError):
        hourly(Away()).tick()
