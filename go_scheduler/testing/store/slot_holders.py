"""Store suite: who has a slot can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome
from go_scheduler.stores.slots import slot_of
from go_scheduler.testing.builders import SECOND, finish
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import excluding, fired, go, pair

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store


def holder(store: Store, of: TaskDefinition) -> TaskInstance | None:
    """Which instance has the slot of a definition."""
    slot = slot_of(of, fired=True)
    assert slot is not None
    return store.slot_holder(slot)


class SlotHolderTests:
    """``slot_holder``."""

    def test_who_runs_has_the_slot_and_not_who_is_parked(self, store: Store) -> None:
        runs, parked = pair(store)
        assert holder(store, parked.definition) == store.get_instance(runs.id)

    def test_a_lock_is_had_by_an_instance_of_any_definition(self, store: Store) -> None:
        [first] = fired(store, excluding(lock="printer"), START)
        [second] = fired(store, excluding(lock="printer"), START + SECOND)
        go(store)
        for each in (first, second):
            found = holder(store, each.definition)
            assert found is not None
            assert (found.id, found.definition.id) == (first.id, first.definition.id)

    def test_who_waits_for_a_retry_has_it_still(self, store: Store) -> None:
        runs, _ = pair(store)
        finish(store, runs, None, retry_in=SECOND)
        found = holder(store, runs.definition)
        assert found is not None
        assert (found.id, found.runs) == (runs.id, 1)

    def test_nobody_has_it_after_the_end(self, store: Store) -> None:
        runs, _ = pair(store)
        finish(store, runs, Outcome.COMPLETED)
        assert holder(store, runs.definition) is None

    def test_a_slot_that_was_never_taken_has_nobody(self, store: Store) -> None:
        [first] = fired(store, excluding(), START)
        assert holder(store, first.definition) is None
        assert store.slot_holder("lock nobody's") is None
