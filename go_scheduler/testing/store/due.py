"""Store suite: which definitions are due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    definition,
    due,
    fire,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class DueTests:
    """``due_definitions``."""

    def test_what_is_not_fired_stays_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        early, late = put(store), put(store, definition(START + MINUTE))
        clock.advance(MINUTE)
        for _ in range(3):
            assert store.due_definitions(ahead=ZERO, limit=10) == [early, late]
            assert store.due_definitions(ahead=ZERO, limit=1) == [early]
            clock.advance(SECOND)

    def test_a_definition_is_due_when_its_fire_time_is_within_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, definition(START + MINUTE))
        assert due(store, ahead=MINUTE) == [new]
        assert due(store, ahead=MINUTE - TICK) == []
        clock.advance(TICK)
        assert due(store, ahead=MINUTE - TICK) == [new]

    def test_a_definition_whose_fire_time_has_passed_is_due(self, store: Store) -> None:
        new = put(store, definition(START - 1000 * HOUR))
        assert due(store, ahead=0 * HOUR) == [new]

    def test_it_is_read_as_it_is_stored(self, store: Store) -> None:
        put(store, definition(metadata={"a": 1}, name="b"))
        [read] = due(store)
        stored = store.get_definition(read.id)
        assert read == stored
        assert (read.next_fire_time, read.revision) == (START, 1)

    def test_a_definition_without_a_fire_time_is_not_due(self, store: Store) -> None:
        put(store, definition(None))
        put(store, definition(None, trigger=WAITING))
        assert due(store) == []

    def test_due_definitions_come_in_the_order_of_fire_time_and_id(
        self, store: Store
    ) -> None:
        fire_times = {4: START, 2: START + TICK, 3: START, 1: START + 2 * TICK}
        for key, at in fire_times.items():
            put(store, definition(at, key=key))
        assert [each.id.int for each in due(store)] == [3, 4, 2, 1]

    def test_a_page_has_at_most_limit_definitions(self, store: Store) -> None:
        for key in range(5):
            put(store, definition(START + key * TICK, key=key))
        assert [each.id.int for each in due(store, limit=2)] == [0, 1]

    def test_pages_of_due_definitions_follow_each_other(self, store: Store) -> None:
        for key in range(5):
            put(store, definition(START + key // 3 * SECOND, key=key))
        first = due(store, limit=2)
        second = due(store, after=first[-1], limit=2)
        third = due(store, after=second[-1], limit=2)
        assert [each.id.int for each in (*first, *second, *third)] == [0, 1, 2, 3, 4]
        assert due(store, after=third[-1], limit=2) == []

    def test_the_next_page_follows_even_if_the_last_one_has_moved_on(
        self, store: Store
    ) -> None:
        for key in range(3):
            put(store, definition(START + key * SECOND, key=key))
        [first] = due(store, limit=1)
        fire(store, first, next_fire_time=START + MINUTE)
        assert [each.id.int for each in due(store, after=first)] == [1, 2, 0]

    def test_the_next_page_follows_even_if_the_last_one_is_gone(
        self, store: Store
    ) -> None:
        for key in range(2):
            put(store, definition(START + key * SECOND, key=key))
        [first] = due(store, limit=1)
        store.delete_definitions([first.id])
        assert [each.id.int for each in due(store, after=first)] == [1]

    def test_a_trigger_that_cannot_be_read_costs_only_itself(
        self, store: Store
    ) -> None:
        unknown = UnknownTrigger("from.another.node", {"a": [1, None]}, "not here")
        strange = put(store, definition(START - HOUR, trigger=unknown))
        known = put(store, definition())
        first, second = due(store)
        assert (first, second) == (strange, known)
        assert isinstance(first.trigger, UnknownTrigger)
        assert first.trigger.reason
        assert fire(store, second)
