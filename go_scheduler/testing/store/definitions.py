"""Store suite: definitions are put and read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    WAITING,
    definition,
    due,
    fire,
    ids,
    kept_by_store,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
OTHER_VALUES = [
    pytest.param({"name": "other"}, id="name"),
    pytest.param({"queue": "other"}, id="queue"),
    pytest.param({"priority": 3}, id="priority"),
    pytest.param({"metadata": {"a": [1]}}, id="metadata"),
    pytest.param({"expire_after": MINUTE}, id="expire_after"),
    pytest.param({"timeout": MINUTE}, id="timeout"),
    pytest.param({"max_per_node": 3}, id="max_per_node"),
    pytest.param({"max_queue": 3}, id="max_queue"),
    pytest.param({"when_full": "drop"}, id="when_full"),
    pytest.param({"retry": RetryPolicy(max_attempts=None)}, id="retry"),
    pytest.param({"retry": RetryPolicy(max_attempts=3)}, id="retry-3"),
    pytest.param({"catch_up": CatchUp(grace=HOUR)}, id="catch_up"),
    pytest.param({"overlap": Overlap.BUFFER_ONE}, id="overlap"),
    pytest.param({"lock": "a"}, id="lock"),
]


class PutTests:
    """``put_definitions``, where nothing has fired yet, and ``get_definition``."""

    def test_a_new_definition_is_kept_as_it_is(self, store: Store) -> None:
        new = definition(name="a", queue="b", metadata={"c": 1}, expire_after=MINUTE)
        new = replace(
            new, retry=RetryPolicy(max_attempts=2), catch_up=CatchUp(grace=HOUR)
        )
        assert put(store, new) == new
        assert store.get_definition(new.id) == new

    @pytest.mark.parametrize("exists", [False, True])
    def test_an_id_that_is_there_twice_is_refused_and_none_is_put(
        self, store: Store, *, exists: bool
    ) -> None:
        other, one = definition(), definition(name="old")
        if exists:
            put(store, one)
        given = [other, replace(one, name="new"), replace(one, name="newer")]
        with pytest.raises(ConfigurationError, match="twice"):
            store.put_definitions(given)
        found = store.list_definitions(ids=[other.id, one.id])
        assert [each.name for each in found] == ["old"] * exists

    def test_a_new_definition_is_at_revision_one_and_not_paused(
        self, store: Store
    ) -> None:
        new = put(store)
        assert kept_by_store(new) == (START, False, None, None, 1)
        assert kept_by_store(store.get_definition(new.id)) == kept_by_store(new)

    def test_of_what_the_store_keeps_a_new_definition_brings_only_its_pause(
        self, store: Store
    ) -> None:
        new = replace(definition(), paused=True, note="n", completed_at=START)
        assert kept_by_store(put(store, new)) == (START, True, "n", None, 1)

    def test_a_new_definition_that_never_fires_is_completed_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        clock.advance(MINUTE)
        assert put(store, definition(None)).completed_at == START + MINUTE

    def test_a_new_definition_whose_trigger_waits_is_not_completed(
        self, store: Store
    ) -> None:
        assert put(store, definition(None, trigger=WAITING)).completed_at is None

    def test_definitions_come_back_in_the_order_given(self, store: Store) -> None:
        new = [definition(key=key) for key in (3, 1, 2)]
        assert store.put_definitions(new) == new

    def test_putting_nothing_returns_nothing(self, store: Store) -> None:
        assert store.put_definitions([]) == []

    def test_no_definition_is_found_under_an_unknown_id(self, store: Store) -> None:
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            store.get_definition(NOBODY)
        assert caught.value.definition_id == NOBODY

    def test_an_equal_definition_changes_nothing(self, store: Store) -> None:
        stored = put(store)
        again = replace(stored, next_fire_time=START + HOUR, revision=None)
        assert kept_by_store(put(store, again)) == kept_by_store(stored)
        assert kept_by_store(store.get_definition(stored.id)) == kept_by_store(stored)

    def test_an_equal_definition_leaves_a_completed_one_completed(
        self, store: Store
    ) -> None:
        new = definition()
        fire(store, put(store, new))
        assert put(store, new).completed_at == START
        assert due(store, ahead=HOUR, limit=10) == []

    def test_an_equal_definition_keeps_the_anchor_of_the_first(
        self, store: Store
    ) -> None:
        first = IntervalTrigger(HOUR).anchored(START)
        stored = put(store, definition(trigger=first))
        later = IntervalTrigger(HOUR).anchored(START + MINUTE)
        again = put(store, replace(stored, trigger=later))
        assert again.trigger.next_fire_time(START) == START + HOUR

    @pytest.mark.parametrize("values", OTHER_VALUES)
    def test_another_value_raises_the_revision_and_moves_nothing(
        self, store: Store, clock: ManualClock, values: dict[str, object]
    ) -> None:
        stored = put(store)
        clock.advance(MINUTE)
        new = replace(stored, next_fire_time=START + HOUR, **values)  # type: ignore[arg-type]
        changed = put(store, new)
        assert changed == new
        assert kept_by_store(changed) == (START, False, None, None, 2)
        assert store.get_definition(stored.id) == new

    def test_metadata_that_only_python_calls_equal_is_another_value(
        self, store: Store
    ) -> None:
        stored = put(store, definition(metadata={"a": 1}))
        changed = put(store, replace(stored, metadata={"a": True}))
        assert changed.revision == 2
        assert store.get_definition(stored.id).metadata["a"] is True

    def test_another_value_keeps_the_anchor_of_the_first(self, store: Store) -> None:
        first = IntervalTrigger(HOUR).anchored(START)
        stored = put(store, definition(trigger=first))
        later = IntervalTrigger(HOUR).anchored(START + MINUTE)
        put(store, replace(stored, trigger=later, name="other"))
        kept = store.get_definition(stored.id)
        assert kept.name == "other"
        assert kept.trigger.next_fire_time(START) == START + HOUR

    def test_another_value_leaves_a_completed_one_completed(self, store: Store) -> None:
        new = definition()
        fire(store, put(store, new))
        assert put(store, replace(new, name="other")).completed_at == START

    def test_another_value_keeps_a_pause_and_its_note(self, store: Store) -> None:
        new = put(store)
        store.pause_definitions([new.id], note="why")
        changed = put(store, replace(new, name="other", revision=None))
        assert kept_by_store(changed) == (START, True, "why", None, 3)

    def test_another_trigger_raises_the_revision_and_takes_its_fire_time(
        self, store: Store
    ) -> None:
        new = replace(
            put(store), trigger=EVERY_TWO_HOURS, next_fire_time=START + 2 * HOUR
        )
        changed = put(store, new)
        assert changed == new
        assert kept_by_store(changed) == (START + 2 * HOUR, False, None, None, 2)
        assert store.get_definition(new.id) == new

    def test_another_trigger_makes_a_completed_definition_live_again(
        self, store: Store
    ) -> None:
        new = definition()
        fire(store, put(store, new))
        changed = put(store, replace(new, trigger=EVERY_TWO_HOURS))
        assert kept_by_store(changed) == (START, False, None, None, 2)
        assert ids(due(store, ahead=HOUR, limit=10)) == [new.id]

    def test_another_trigger_that_never_fires_completes_the_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store)
        clock.advance(MINUTE)
        new = replace(stored, trigger=EVERY_TWO_HOURS, next_fire_time=None)
        assert put(store, new).completed_at == START + MINUTE

    def test_another_trigger_keeps_a_pause_and_its_note(self, store: Store) -> None:
        new = put(store)
        store.pause_definitions([new.id], note="why")
        changed = put(store, replace(new, trigger=EVERY_TWO_HOURS, revision=None))
        assert kept_by_store(changed) == (START, True, "why", None, 3)
        assert due(store, ahead=HOUR, limit=10) == []

    def test_the_stored_revision_may_be_passed(self, store: Store) -> None:
        changed = put(store, replace(put(store), name="other"))
        assert put(store, replace(changed, name="third")).revision == 3

    @pytest.mark.parametrize("name", ["third", "second", "first"])
    def test_another_revision_than_the_stored_one_conflicts(
        self, store: Store, name: str
    ) -> None:
        read = put(store, definition(name="first"))
        put(store, replace(read, name="second"))
        with pytest.raises(ConflictError) as caught:
            put(store, replace(read, name=name))
        assert caught.value.definition_id == read.id
        assert (caught.value.expected, caught.value.revision) == (1, 2)
        assert store.get_definition(read.id).name == "second"

    def test_a_revision_of_a_definition_that_is_gone_conflicts(
        self, store: Store
    ) -> None:
        read = put(store)
        store.delete_definitions([read.id])
        with pytest.raises(ConflictError) as caught:
            put(store, read)
        assert (caught.value.expected, caught.value.revision) == (1, None)

    def test_one_that_is_to_be_new_conflicts_with_one_that_is_there(
        self, store: Store
    ) -> None:
        new = put(store, replace(definition(), revision=0))
        assert new.revision == 1
        with pytest.raises(ConflictError) as caught:
            put(store, replace(new, revision=0))
        assert (caught.value.expected, caught.value.revision) == (0, 1)

    def test_one_that_is_to_be_new_may_have_the_id_of_one_that_is_gone(
        self, store: Store
    ) -> None:
        old = put(store)
        store.delete_definitions([old.id])
        assert put(store, replace(old, revision=0)).id == old.id

    def test_where_one_definition_conflicts_none_is_put(self, store: Store) -> None:
        old, first, last = put(store), definition(), definition()
        conflicting = replace(old, name="other", revision=7)
        with pytest.raises(ConflictError):
            store.put_definitions([first, conflicting, last])
        assert store.list_definitions() == [old]
