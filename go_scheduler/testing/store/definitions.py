"""Store suite: definitions are put, read, listed and deleted; whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.json import JSON
from go_scheduler.models import DefinitionState, Outcome, State
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.messages import Position
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    WAITING,
    cancel,
    claim,
    claimed,
    clean_up,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    kept_by_store,
    pending,
    put,
    renew,
    running,
    start,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.sets import (
    APP,
    ONE,
    OTHER_APP,
    THREE,
    TWO,
    declare,
    owned,
)
from go_scheduler.testing.store.values import TEXTS
from go_scheduler.triggers import base
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition
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


CONTAINED: list[tuple[Mapping[str, JSON], Mapping[str, JSON], bool]] = [
    ({}, {}, True),
    ({"a": 1}, {}, True),
    ({}, {"a": None}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": 1, "b": 2}, {"a": 1}, True),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": 1}, {"b": 1}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": 1}, {"a": True}, False),
    ({"a": True}, {"a": 1}, False),
    ({"a": False}, {"a": 0}, False),
    ({"a": False}, {"a": False}, True),
    ({"a": "Ab"}, {"a": "ab"}, False),
    ({"a": "ab"}, {"a": "a"}, False),
    ({"é": "ü"}, {"é": "ü"}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
    ({"a": {"b": {"c": [1]}}}, {"a": {"b": {}}}, True),
    ({"a": {"b": 1}}, {"b": 1}, False),
    ({"a": {}}, {"a": []}, False),
    ({"a": []}, {"a": {}}, False),
    ({"a": [1, 2, 3]}, {"a": [3, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 1, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 4]}, False),
    ({"a": [1, 2]}, {"a": []}, True),
    ({"a": [1, 2]}, {"a": 1}, False),
    ({"a": 1}, {"a": [1]}, False),
    ({"a": [True]}, {"a": [1]}, False),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
    ({"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": 1, "c": 2}]}, False),
    ({"a": [[1, 2], [3]]}, {"a": [[2]]}, True),
    ({"a": [[1, 2], [3]]}, {"a": [2]}, False),
    ({"a'\"%_\\$": "'; --"}, {"a'\"%_\\$": "'; --"}, True),
]


def _end(page: Sequence[TaskDefinition]) -> Position:
    return Position.of_definition(page[-1])


class DefinitionListTests:
    """``list_definitions``."""

    def test_definitions_come_in_the_order_of_their_ids(self, store: Store) -> None:
        keys = [3, 2**127, 1, 2**127 - 1, 0, 2]
        for key in keys:
            put(store, definition(START - key % 5 * SECOND, key=key))
        assert [each.id.int for each in store.list_definitions()] == sorted(keys)

    def test_pages_of_definitions_follow_each_other(self, store: Store) -> None:
        for key in range(5):
            put(store, definition(key=key))
        first = store.list_definitions(limit=2)
        second = store.list_definitions(after=_end(first), limit=2)
        third = store.list_definitions(after=_end(second), limit=2)
        assert [each.id.int for each in (*first, *second, *third)] == [0, 1, 2, 3, 4]
        assert store.list_definitions(after=_end(third), limit=2) == []

    def test_a_page_may_begin_after_an_id_that_is_gone(self, store: Store) -> None:
        for key in (1, 3):
            put(store, definition(key=key))
        found = store.list_definitions(after=Position(at=None, id=UUID(int=2)))
        assert [each.id.int for each in found] == [3]

    def test_definitions_by_state(self, store: Store) -> None:
        active, waiting = put(store), put(store, definition(None, trigger=WAITING))
        paused, over = put(store), put(store, definition(None))
        store.pause_definitions([paused.id, over.id])
        for state, expected in (
            (DefinitionState.ACTIVE, {active.id, waiting.id}),
            (DefinitionState.PAUSED, {paused.id}),
            (DefinitionState.COMPLETED, {over.id}),
        ):
            found = store.list_definitions(state=state)
            assert {each.id for each in found} == expected
            assert {each.state for each in found} == {state}

    def test_soonest_first_those_that_never_fire_come_last(self, store: Store) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key))
        store.pause_definitions([UUID(int=2)])
        found = store.list_definitions(soonest_first=True)
        assert [each.id.int for each in found] == [2, 3, 5, 0, 1, 4]
        some = {UUID(int=key) for key in (0, 1, 3)}
        found = store.list_definitions(ids=some, soonest_first=True, limit=2)
        assert [each.id.int for each in found] == [3, 0]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    def test_pages_follow_each_other_soonest_first(
        self, store: Store, limit: int
    ) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key, name="a"))
        put(store, definition(START))
        read: list[int] = []
        after = None
        while page := store.list_definitions(
            name="a", soonest_first=True, after=after, limit=limit
        ):
            read += (each.id.int for each in page)
            after = _end(page)
        assert read == [2, 3, 5, 0, 1, 4]

    @pytest.mark.parametrize("limit", [1, 2, 4])
    def test_pages_of_what_is_active_follow_each_other_soonest_first(
        self, store: Store, limit: int
    ) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key, queue="a", trigger=WAITING))
        store.pause_definitions([UUID(int=5)])
        put(store, definition(START))
        put(store, definition(None, queue="a"))
        read: list[int] = []
        after = None
        while page := store.list_definitions(
            queues={"a"},
            state=DefinitionState.ACTIVE,
            soonest_first=True,
            after=after,
            limit=limit,
        ):
            read += (each.id.int for each in page)
            after = _end(page)
        assert read == [2, 3, 6, 0, 1, 4]

    def test_a_page_has_100_definitions_by_default(self, store: Store) -> None:
        store.put_definitions([definition() for _ in range(101)])
        assert len(store.list_definitions()) == 100

    def test_listed_definitions_are_read_as_they_are_stored(self, store: Store) -> None:
        new = put(store, definition(name="a", metadata={"b": [1, {}]}))
        store.pause_definitions([new.id], note="why")
        [found] = store.list_definitions()
        assert found == new
        assert (found.paused, found.note, found.revision) == (True, "why", 2)
        assert found.next_fire_time == START

    def test_by_ids(self, store: Store) -> None:
        for key in range(4):
            put(store, definition(key=key))
        found = store.list_definitions(ids=[UUID(int=3), NOBODY, UUID(int=1)])
        assert [each.id.int for each in found] == [1, 3]

    def test_by_no_ids(self, store: Store) -> None:
        put(store)
        assert store.list_definitions(ids=[]) == []

    def test_by_name(self, store: Store) -> None:
        wanted, *_ = [
            put(store, definition(name=name)) for name in ("a", "b", "A", None)
        ]
        assert store.list_definitions(name="a") == [wanted]

    def test_by_queue(self, store: Store) -> None:
        wanted, *_ = [put(store, definition(queue=queue)) for queue in ("a", "b", "A")]
        assert store.list_definitions(queue="a") == [wanted]

    def test_by_all_conditions_at_once(self, store: Store) -> None:
        def made(key: int, name: str = "a", queue: str = "b", value: int = 1) -> UUID:
            metadata = {"c": value}
            return put(
                store, definition(key=key, name=name, queue=queue, metadata=metadata)
            ).id

        wanted = made(5)
        others = [made(6, name="x"), made(7, queue="x"), made(8, value=2)]
        unlisted = [made(4), made(9)]
        found = store.list_definitions(
            ids=[wanted, *others, unlisted[0]],
            metadata={"c": 1},
            name="a",
            queue="b",
            after=Position(at=None, id=unlisted[0]),
            limit=2,
        )
        assert ids(found) == [wanted]

    @pytest.mark.parametrize(("stored", "asked", "found"), CONTAINED)
    def test_by_what_the_metadata_contains(
        self,
        store: Store,
        stored: Mapping[str, JSON],
        asked: Mapping[str, JSON],
        found: bool,
    ) -> None:
        new = put(store, definition(metadata=stored))
        assert store.list_definitions(metadata=asked) == ([new] if found else [])


class DeleteTests:
    """``delete_definitions``."""

    def test_a_delete_answers_those_that_existed(self, store: Store) -> None:
        one, two, other = put(store), put(store), put(store)
        gone = [one.id, NOBODY, two.id]
        assert store.delete_definitions(gone) == {one.id: set(), two.id: set()}
        assert store.delete_definitions(gone) == {}
        assert store.list_definitions() == [other]

    def test_deleting_nothing_deletes_nothing(self, store: Store) -> None:
        one = put(store)
        assert store.delete_definitions([]) == {}
        assert store.list_definitions() == [one]

    def test_a_delete_answers_what_ran(self, store: Store) -> None:
        claimed_one, runs, other = claimed(store), running(store), running(store)
        ended = running(store)
        assert finish(store, ended)
        ids = [each.definition.id for each in (claimed_one, runs, ended)]
        answer = store.delete_definitions(ids)
        assert answer == dict(zip(ids, (set(), {runs.id}, set()), strict=True))
        assert store.get_instance(other.id).state is State.RUNNING

    def test_a_deleted_definition_does_not_fire(self, store: Store) -> None:
        read = put(store)
        store.delete_definitions([read.id])
        assert due(store, ahead=HOUR, limit=10) == []
        assert store.fire_definitions([firing(read)]).done == set()
        assert store.list_instances() == []
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(read.id)

    def test_its_pending_instances_are_removed(self, store: Store) -> None:
        instance = pending(store)
        store.delete_definitions([instance.definition.id])
        assert claim(store) == []
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_its_claimed_instances_are_removed(self, store: Store) -> None:
        instance = claimed(store)
        store.delete_definitions([instance.definition.id])
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_its_instances_that_wait_for_a_retry_are_removed(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store)
        store.delete_definitions([instance.definition.id])
        assert claim(store) == []
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_its_running_instances_end_as_cancelled_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        store.delete_definitions([instance.definition.id])
        found = store.get_instance(instance.id)
        assert found.outcome is Outcome.CANCELLED
        assert found.completed_at == START + SECOND

    def test_the_node_of_a_running_instance_finds_its_claim_lost(
        self, store: Store
    ) -> None:
        instance = running(store)
        store.delete_definitions([instance.definition.id])
        assert renew(store, instance) == {}
        assert not finish(store, instance)
        assert store.get_instance(instance.id).outcome is Outcome.CANCELLED

    def test_a_running_instance_is_not_taken_over_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        store.delete_definitions([instance.definition.id])
        clock.advance(HOUR)
        assert claim(store, OTHER_NODE, lapsed=True) == []

    def test_its_history_is_readable_by_id_and_listed_under_no_definition(
        self, store: Store
    ) -> None:
        instance = ended(store)
        store.delete_definitions([instance.definition.id])
        found = store.get_instance(instance.id)
        assert found.outcome is Outcome.COMPLETED
        assert found.definition == instance.definition
        assert instances(store, instance.definition) == []

    def test_its_history_is_in_the_list_of_all_instances(self, store: Store) -> None:
        over, cut_short = ended(store), running(store)
        store.delete_definitions([over.definition.id, cut_short.definition.id])
        assert {*ids(store.list_instances())} == {over.id, cut_short.id}
        assert ids(store.list_instances(state=State.COMPLETED)) == [over.id]
        counts = store.counts()
        assert (counts[State.COMPLETED], counts[State.CANCELLED]) == (1, 1)

    def test_its_history_goes_with_the_cleanup(self, store: Store) -> None:
        over, cut_short = ended(store), running(store)
        store.delete_definitions([over.definition.id, cut_short.definition.id])
        assert clean_up(store, older_than=EXPIRE_AFTER, limit=10) == 0
        assert clean_up(store, older_than=0 * HOUR, limit=10) == 2
        for instance in (over, cut_short):
            with pytest.raises(TaskInstanceNotFoundError):
                store.get_instance(instance.id)

    def test_a_deleted_id_may_be_put_again_and_is_new(self, store: Store) -> None:
        new = definition()
        [old] = store.pause_definitions([put(store, new).id], note="why")
        store.delete_definitions([new.id])
        again = put(store, new)
        assert kept_by_store(again)[:4] == (START, False, None, None)
        assert again.revision is not None
        assert old.revision is not None
        assert again.revision > old.revision

    def test_a_firing_of_the_old_one_does_not_fire_the_new_one(
        self, store: Store
    ) -> None:
        old = put(store)
        store.delete_definitions([old.id])
        new = put(store, replace(old, revision=None))
        assert store.fire_definitions([firing(old, START)]).done == set()
        assert instances(store, new) == []

    def test_a_revision_of_the_old_one_conflicts_with_the_new_one(
        self, store: Store
    ) -> None:
        old = put(store)
        store.delete_definitions([old.id])
        put(store, replace(old, revision=None))
        with pytest.raises(ConflictError):
            put(store, replace(old, name="other"))

    def test_no_instance_of_the_old_one_joins_the_new_one(self, store: Store) -> None:
        new = definition()
        history = ended(store, new)
        store.delete_definitions([new.id])
        put(store, new)
        assert instances(store, new) == []
        assert store.get_instance(history.id).state is State.COMPLETED

    def test_no_fire_time_of_the_old_one_blocks_the_new_one(self, store: Store) -> None:
        new = definition()
        history = ended(store, new)
        store.delete_definitions([new.id])
        [instance] = fire(store, put(store, new))
        assert times([instance]) == [START]
        assert instance.id != history.id
        assert ids(claim(store)) == [instance.id]

    def test_no_pause_of_the_new_one_touches_the_old_ones_history(
        self, store: Store
    ) -> None:
        new = definition()
        history = ended(store, new)
        store.delete_definitions([new.id])
        put(store, new)
        store.pause_definitions([new.id])
        store.delete_definitions([new.id])
        assert store.get_instance(history.id).state is State.COMPLETED

    def test_a_run_of_the_old_one_says_nothing_to_the_new_one(
        self, store: Store
    ) -> None:
        new = definition(trigger=WAITING)
        instance = running(store, new)
        store.delete_definitions([new.id])
        put(store, replace(new, next_fire_time=None))
        assert not finish(store, instance, next_fire_time=START + HOUR)
        kept = store.get_definition(new.id)
        assert (kept.next_fire_time, kept.completed_at) == (None, None)

    def test_what_the_old_one_ran_has_ended(self, store: Store) -> None:
        instance = running(store)
        store.delete_definitions([instance.definition.id])
        put(store, replace(instance.definition, revision=None))
        assert cancel(store, instance) == {}
        assert store.get_instance(instance.id).state is State.CANCELLED

    def test_other_definitions_lose_nothing(self, store: Store) -> None:
        gone, kept = pending(store), pending(store)
        store.delete_definitions([gone.definition.id])
        assert ids(claim(store)) == [kept.id]


@dataclass(frozen=True)
class PassingTrigger(Trigger):
    """A trigger whose class this process can lose; it fires once a day.

    Attributes:
        data: Anything.
    """

    kind: ClassVar[str] = "go_scheduler.testing.passing"

    data: Mapping[str, JSON]

    def next_fire_time(self, after: datetime) -> datetime | None:
        """A day later."""
        return after + timedelta(days=1)


class UnknownTriggerTests:
    """Triggers that this process cannot load."""

    def test_an_unknown_trigger_keeps_its_kind_and_state(self, store: Store) -> None:
        state: Mapping[str, JSON] = {
            "text": TEXTS[2],
            "nested": [{"a": None}],
            "big": 2**70,
            "float": 0.1,
        }
        unknown = UnknownTrigger("from.another.node", state, "not here")
        new = put(store, definition(trigger=unknown))
        found = store.get_definition(new.id).trigger
        assert isinstance(found, UnknownTrigger)
        assert dump_trigger(found) == ("from.another.node", state)
        assert found.reason

    def test_an_unknown_trigger_survives_an_edit(self, store: Store) -> None:
        unknown = UnknownTrigger("from.another.node", {"a": 1}, "not here")
        read = put(store, definition(trigger=unknown))
        edited = put(store, replace(read, name="edited", next_fire_time=None))
        assert (edited.name, edited.revision) == ("edited", 2)
        assert edited.next_fire_time == START
        kept = store.get_definition(read.id)
        assert dump_trigger(kept.trigger) == ("from.another.node", {"a": 1})

    def test_an_instance_of_an_unknown_trigger_runs(self, store: Store) -> None:
        unknown = UnknownTrigger("from.another.node", {"a": 1}, "not here")
        instance = running(store, definition(trigger=unknown))
        assert isinstance(instance.definition.trigger, UnknownTrigger)
        assert finish(store, instance)

    def test_a_trigger_is_not_lost_with_its_class(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = PassingTrigger({"a": [1, "é"]})
        passing = put(store, definition(trigger=trigger))
        other = put(store, definition(START + SECOND))
        with monkeypatch.context() as patch:
            # As in a process that never imported the class.
            patch.delitem(base._kinds, PassingTrigger.kind)
            found = store.list_definitions(ids=[passing.id, other.id])
            assert {each.id for each in found} == {passing.id, other.id}
            first, second = due(store, ahead=HOUR, limit=10)
            assert dump_trigger(first.trigger) == dump_trigger(trigger)
            assert second == other
            put(store, replace(first, name="edited"))
            store.pause_definitions([passing.id])
            store.resume_definitions([passing.id])
        found_again = store.get_definition(passing.id)
        assert (found_again.trigger, found_again.name) == (trigger, "edited")
        assert found_again.trigger.next_fire_time(START) == START + 24 * HOUR


class OwnerTests:
    """A definition is of one set, or of none."""

    def test_sets_of_others_and_what_is_in_none_stay(self, store: Store) -> None:
        free = put(store)
        declare(store, ONE, owner=OTHER_APP)
        declare(store, TWO)
        assert declare(store).deleted == {TWO.id}
        assert owned(store, OTHER_APP) == [ONE.id]
        assert {each.id for each in store.list_definitions()} == {free.id, ONE.id}

    def test_an_id_of_another_owner_is_refused_with_all(self, store: Store) -> None:
        declare(store, ONE, owner=OTHER_APP)
        declare(store, TWO, version=1)
        for adopts in (False, True):
            with pytest.raises(ConfigurationError, match="the set of 'another app'"):
                declare(store, THREE, ONE, version=2, adopts=adopts)
        assert owned(store) == [TWO.id]
        assert owned(store, OTHER_APP) == [ONE.id]
        assert declare(store, TWO, version=1).outdated_by is None

    def test_what_its_set_has_paused_another_owner_may_take(self, store: Store) -> None:
        declare(store, ONE, TWO)
        declare(store, TWO, removed="pause")
        taken = declare(store, ONE, owner=OTHER_APP)
        assert taken.resumed == [ONE]
        assert kept_by_store(taken.definitions[0]) == (START, False, None, None, 3)
        assert taken.definitions[0].owner == OTHER_APP
        assert owned(store, OTHER_APP) == [ONE.id]
        assert declare(store).deleted == {TWO.id}
        with pytest.raises(ConfigurationError, match="the set of 'another app'"):
            declare(store, ONE)
        assert store.list_definitions() == [ONE]

    def test_what_is_paused_by_hand_is_taken_only_once_it_is_deleted(
        self, store: Store
    ) -> None:
        declare(store, ONE)
        store.pause_definitions([ONE.id], note="by hand")
        declare(store, removed="pause")
        with pytest.raises(ConfigurationError, match="or delete it, before 'another"):
            declare(store, ONE, owner=OTHER_APP)
        [again] = declare(store, ONE).definitions
        assert (again.paused, again.note) == (True, "by hand")
        store.delete_definitions([ONE.id])
        assert not declare(store, ONE, owner=OTHER_APP).definitions[0].paused

    def test_an_id_of_none_is_refused_unless_it_is_adopted(self, store: Store) -> None:
        put(store, ONE)
        with pytest.raises(ConfigurationError, match=r"no declared set: adopt=True"):
            declare(store, ONE, TWO)
        assert owned(store) == []
        assert store.list_definitions() == [ONE]
        [adopted, _] = declare(store, ONE, TWO, adopts=True).definitions
        assert (adopted.owner, adopted.revision) == (APP, 1)
        assert owned(store) == [ONE.id, TWO.id]
        assert declare(store).deleted == {ONE.id, TWO.id}

    def test_what_is_adopted_may_be_changed_by_that(self, store: Store) -> None:
        put(store, ONE)
        put(store, TWO)
        other = replace(TWO, trigger=IntervalTrigger(2 * HOUR, anchor=START))
        changed = declare(store, replace(ONE, name="b"), other, adopts=True)
        assert [each.owner for each in changed.definitions] == [APP, APP]
        assert [each.revision for each in changed.definitions] == [2, 2]
        assert owned(store) == [ONE.id, TWO.id]

    def test_a_put_keeps_the_owner_and_gives_none(self, store: Store) -> None:
        declare(store, ONE)
        for each in (
            ONE,
            replace(ONE, name="b", owner=OTHER_APP),
            replace(ONE, trigger=IntervalTrigger(2 * HOUR, anchor=START), owner=None),
        ):
            assert put(store, each).owner == APP
        assert put(store, replace(TWO, owner=OTHER_APP)).owner is None
        store.put_definitions([replace(THREE, owner=APP), definition(key=4)])
        assert owned(store) == [ONE.id]
        assert owned(store, OTHER_APP) == []

    def test_an_id_that_was_deleted_is_in_no_set_any_more(self, store: Store) -> None:
        declare(store, ONE)
        store.delete_definitions([ONE.id])
        assert owned(store) == []
        [again] = declare(store, ONE, owner=OTHER_APP).definitions
        assert (again.owner, owned(store)) == (OTHER_APP, [])
        assert again.revision is not None
        assert again.revision > 1
        assert declare(store).deleted == set()
