"""The reference store keeps every promise of the interface."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    NODE,
    SECOND,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    hand_on,
    ids,
    pending,
    put,
    running,
    start,
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


def test_what_was_handed_on_is_so_in_a_restored_store(clock: ManualClock) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    hand_on(one, running(one), lease=HOUR)
    here = running(one)
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    assert ids(other.list_claimed(NODE)) == [here.id]


def test_who_has_a_slot_has_it_in_a_restored_store(clock: ManualClock) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    first, second = (definition(START + SECOND, key=key) for key in (1, 2))
    holder = claimed(one, replace(first, lock="disk"))
    assert ids(start(one, holder)) == [holder.id]
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    assert [*other.snapshot().slots.values()] == [holder.id]
    waits = claimed(other, replace(second, lock="disk"))
    [parked] = start(other, waits)
    assert parked.parked


def test_what_may_wait_for_its_slot_may_do_so_in_a_restored_store(
    clock: ManualClock,
) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    task = put(one, replace(definition(key=1), overlap=Overlap.SKIP))
    again, holder = fire(one, task, START, START + SECOND)
    assert finish(one, start(one, *claim(one, limit=1))[0], Outcome.FAILED)
    assert ids(start(one, *claim(one, ahead=HOUR))) == [holder.id]
    one.reopen_instances([again.id])
    [parked] = start(one, *claim(one))
    assert parked.parked
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    clock.advance(HOUR)
    assert other.review_parked(limit=10).skipped == []
    assert other.get_instance(again.id).parked


def test_a_restored_store_has_the_runs_of_what_is_there_and_of_what_was_deleted(
    clock: ManualClock,
) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    waiting = waiting_for_retry(one, retry_in=HOUR)
    [again, gone] = [running(one), running(one)]
    assert finish(one, again, None, error="no paper")
    assert finish(one, gone, Outcome.FAILED, error="no ink")
    one.delete_definitions([gone.definition.id])
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    for each in (waiting, again, gone):
        assert other.list_runs(each.id) == one.list_runs(each.id) != ()


def test_a_store_that_is_restored_forgets_what_it_had(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    empty = store.snapshot()
    running(store)
    store.restore(empty)
    assert store.snapshot() == empty
    assert not any(store.counts().values())
