"""The reference store keeps every promise of the interface."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from go_scheduler.models import QueueStats, State
from go_scheduler.stores import rules
from go_scheduler.stores.base import ReadStore
from go_scheduler.stores.filters import ANY, Filter
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    HOUR,
    NODE,
    SECOND,
    claim,
    counts_by_state,
    definition,
    ended,
    fire,
    hand_on,
    pending,
    put,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite

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


def test_a_restored_store_keeps_and_answers_the_same(clock: ManualClock) -> None:
    one, other = MemoryStore(clock), MemoryStore(clock)
    waiting_for_retry(one, retry_in=HOUR)
    hand_on(one, running(one), lease=HOUR)
    gone = ended(one)
    one.delete_definitions([gone.definition.id])
    one.pause_definitions([pending(one).definition.id])
    fire(one, put(one, replace(definition(), lock="disk")), START, START + SECOND)
    start(one, *claim(one, ahead=SECOND))
    one.note_contact(Announcement(node=NODE), unbroken=HOUR)
    one.note_stats(NODE, [QueueStats(at=START, queue="mail", ended={"failed": 1})])
    one.keep_setting("key", "first")
    running(other)
    other.restore(one.snapshot())
    assert other.snapshot() == one.snapshot()
    assert other.keep_setting("key", "second") == "first"
    assert counts_by_state(other) == counts_by_state(one)
    assert other.select() == one.select()
    assert other.select_definitions() == one.select_definitions()
    assert other.select(Filter(definition_id=gone.definition.id)) == []


def test_a_store_without_counts_of_its_own_reads_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    monkeypatch.setattr("go_scheduler.stores.base._PAGE", 2)
    for _ in range(5):
        pending(store)
    [counts] = ReadStore.count(store, [ANY])
    assert counts[State.PENDING].count == 5


def test_a_former_trigger_that_raises_keeps_no_other_from_its_place(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(clock)
    put(store, definition(START + HOUR, key=1))
    raises = Mock(side_effect=ValueError)
    monkeypatch.setattr(rules, "next_fire_time_of", raises)
    other = replace(definition(START, key=1), trigger=EVERY_TWO_HOURS)
    assert put(store, other).next_fire_time == START
    raises.assert_called_once()
