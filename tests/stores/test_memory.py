"""The reference store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    ids,
    pending,
    put,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class TestMemoryStore(StoreSuite):
    """``MemoryStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock) -> Iterator[Store]:
        """An empty, initialized store."""
        store = MemoryStore(clock)
        store.initialize()
        yield store
        store.close()


def test_a_restored_store_is_the_same(clock: ManualClock) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    waiting_for_retry(one, retry_in=HOUR)
    ended(one)
    gone = ended(one)
    once = TaskDefinition(trigger=ExecuteOnceTrigger(START), id=UUID(int=1))
    put(one, once)
    clean_up(one, older_than=ZERO, failed_older_than=HOUR)
    ended(one)
    gone = ended(one)
    running(one)
    claimed(one)
    one.delete_definitions([gone.definition.id])
    one.pause_definitions([pending(one).definition.id])
    declared = [definition(key=2)]
    one.declare_definitions(Declaration(owner="app", definitions=declared, version=2))
    one.keep_setting("key", "first")
    other.restore(one.snapshot())
    assert other.keep_setting("key", "second") == "first"
    assert other.snapshot() == one.snapshot()
    assert other.counts() == one.counts()
    assert other.list_instances() == one.list_instances()
    assert other.list_definitions() == one.list_definitions()
    assert other.list_instances(definition_id=gone.definition.id) == []
    assert ids(other.due_definitions(ahead=HOUR, limit=10)) == [UUID(int=2)]
    clock.advance(HOUR)
    for store in (one, other):
        assert len(claim(store, ahead=HOUR, lapsed=True)) == 3
        assert clean_up(store, older_than=ZERO, limit=10) == 3
        late = Declaration(owner="app", definitions=[], version=1)
        assert store.declare_definitions(late).outdated_by == 2
        assert store.list_definitions(owner="app") == declared
