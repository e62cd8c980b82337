"""Store suite: what a delete takes, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import (
    ConflictError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, State
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
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

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
