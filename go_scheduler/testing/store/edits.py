"""Store suite: an edit reaches the instances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Skipped, State
from go_scheduler.stores.changes import EDITED
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    OTHER_NODE,
    SECOND,
    WAITING,
    claim,
    claimed,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    pending,
    put,
    release,
    renew,
    running,
    start,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)


class EditTests:
    """What ``put_definitions`` does to instances."""

    def test_whether_it_was_late_when_scheduled_is_kept_with_its_trigger(
        self, store: Store
    ) -> None:
        new = put(store, replace(definition(START), overdue=True))
        assert new.overdue
        assert store.get_definition(new.id).overdue
        edited = put(store, replace(new, name="other", overdue=False))
        assert edited.overdue
        [instance] = fire(store, edited)
        assert instance.definition.overdue
        assert store.get_definition(new.id).overdue
        other = replace(edited, trigger=EVERY_TWO_HOURS, overdue=False)
        assert not put(store, other).overdue
        assert not store.get_definition(new.id).overdue
        put(store, replace(other, trigger=HOURLY, overdue=True, revision=None))
        assert store.get_definition(new.id).overdue

    def test_unclaimed_instances_go_to_the_new_queue(self, store: Store) -> None:
        instance = pending(store)
        put(store, replace(instance.definition, queue="other"))
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_later_instances_are_in_the_new_queue(self, store: Store) -> None:
        changed = put(store, replace(put(store), queue="other"))
        [instance] = fire(store, changed)
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_what_has_ended_goes_to_no_queue(self, store: Store) -> None:
        ended = running(store)
        assert finish(store, ended)
        put(store, replace(ended.definition, queue="other"))
        assert claim(store, queues=["default", "other"]) == []
        assert store.get_instance(ended.id).state is State.COMPLETED

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_what_waits_for_a_retry_goes_to_the_new_queue(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = waiting_for_retry(store)
        put(store, replace(instance.definition, queue="other", trigger=trigger))
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_what_is_claimed_goes_to_the_new_queue(self, store: Store) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, queue="other"))
        assert not release(store, instance)
        assert claim(store, ahead=HOUR) == []
        assert ids(claim(store, queues=["other"], ahead=HOUR)) == [instance.id]

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_what_runs_goes_to_the_new_queue(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        instance = running(store)
        put(store, replace(instance.definition, queue="other", trigger=trigger))
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        [taken] = claim(store, OTHER_NODE, queues=["other"], lapsed=True)
        assert taken.id == instance.id

    def test_what_is_frozen_goes_to_the_new_queue_and_can_be_deleted(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store)
        [paused] = store.pause_definitions([instance.definition.id])
        put(store, replace(paused, queue="other"))
        assert claim(store, queues=["other"], ahead=HOUR) == []
        store.delete_definitions([paused.id])
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_a_claim_survives_another_value(self, store: Store) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, name="other"))
        assert ids(start(store, instance)) == [instance.id]

    def test_a_start_uses_the_latest_values(self, store: Store) -> None:
        instance = claimed(store)
        new = replace(
            instance.definition, name="b", metadata={"c": 2}, expire_after=SECOND
        )
        put(store, new)
        [started] = start(store, instance)
        assert started.definition == new
        assert started.metadata == {"c": 2}
        assert started.expires_at == instance.due_at + SECOND

    def test_a_claim_with_a_start_uses_the_latest_values(self, store: Store) -> None:
        instance = pending(store)
        put(store, replace(instance.definition, name="b", expire_after=SECOND))
        [started] = claim(store)
        assert started.definition.name == "b"
        assert started.expires_at == START + SECOND

    def test_another_value_moves_no_instance(self, store: Store) -> None:
        instance = pending(store, definition(START + SECOND))
        put(store, replace(instance.definition, name="b", next_fire_time=START + HOUR))
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_trigger_removes_what_is_pending_and_still_to_come(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND))
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert instances(store, instance.definition) == []
        assert claim(store, ahead=HOUR) == []

    def test_another_trigger_removes_what_is_claimed_and_not_started(
        self, store: Store
    ) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert not finish(store, instance)
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_another_trigger_skips_what_has_passed(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = pending(store, definition(trigger=trigger))
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert claim(store, ahead=HOUR) == []
        found = store.get_instance(instance.id)
        assert (found.state, found.completed_at) == (State.SKIPPED, START)
        assert found.skipped == Skipped.itself(START, EDITED)
        assert found.fire_time is None
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_trigger_skips_what_has_passed_and_is_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        clock.advance(SECOND)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert store.get_instance(instance.id).state is State.SKIPPED

    def test_another_trigger_skips_what_is_frozen_and_has_passed(
        self, store: Store
    ) -> None:
        instance = pending(store)
        [paused] = store.pause_definitions([instance.definition.id])
        put(store, replace(paused, trigger=EVERY_TWO_HOURS))
        assert store.get_instance(instance.id).state is State.SKIPPED
        store.resume_definitions([paused.id])
        assert claim(store) == []

    def test_another_trigger_leaves_what_runs(self, store: Store) -> None:
        instance = running(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert renew(store, instance) == {instance.id: False}
        assert finish(store, instance)

    def test_another_trigger_leaves_what_waits_for_a_retry(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(claim(store)) == [instance.id]

    def test_another_trigger_leaves_a_claimed_retry(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(start(store, instance)) == [instance.id]

    def test_another_trigger_leaves_what_has_ended(self, store: Store) -> None:
        instance = ended(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_jitter_has_what_is_still_to_come_made_anew(
        self, store: Store
    ) -> None:
        old = put(store)
        later = START + HOUR
        fire(store, old, later, next_fire_time=START + 2 * HOUR)
        stored = put(store, replace(old, next_fire_time=START, jitter=SECOND))
        assert instances(store, stored) == []
        found = store.get_definition(stored.id)
        for each in (stored, found):
            assert (each.jitter, each.next_fire_time) == (SECOND, later)
            assert each.revision == 2
        assert ids(due(store)) == [stored.id]
        assert times(fire(store, found)) == [later]

    def test_another_jitter_has_a_one_off_that_is_still_to_come_made_anew(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND))
        completed = store.get_definition(instance.definition.id)
        assert completed.completed_at is not None
        stored = put(store, replace(completed, jitter=SECOND))
        assert (stored.next_fire_time, stored.completed_at) == (START + SECOND, None)

    def test_another_jitter_leaves_what_has_passed(self, store: Store) -> None:
        old = put(store)
        later = START + HOUR
        fire(store, old, START, START + SECOND, next_fire_time=later)
        stored = put(store, replace(old, jitter=SECOND))
        assert stored.next_fire_time == START + SECOND
        assert times(claim(store)) == [START]

    def test_another_jitter_leaves_what_was_missed_to_be_caught_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        old = put(store)
        clock.advance(HOUR)
        later = clock.now() + HOUR
        stored = put(store, replace(old, next_fire_time=later, jitter=SECOND))
        assert stored.next_fire_time == START

    def test_another_jitter_goes_back_over_nothing_that_has_begun(
        self, store: Store
    ) -> None:
        old = put(store)
        step = [START + number * SECOND for number in (1, 2, 3)]
        fire(store, old, *step, next_fire_time=START + HOUR)
        _, second, third = claim(store, ahead=HOUR)
        start(store, second)
        stored = put(store, replace(old, jitter=SECOND))
        assert stored.next_fire_time == third.fire_time
        assert times(instances(store, stored)) == step[:2]

    def test_another_jitter_begins_no_second_life(self, store: Store) -> None:
        instance = ended(store)
        completed = store.get_definition(instance.definition.id)
        assert completed.completed_at is not None
        again = replace(completed, next_fire_time=START, jitter=SECOND)
        stored = put(store, again)
        assert (stored.jitter, stored.next_fire_time) == (SECOND, None)
        assert stored.completed_at == completed.completed_at

    def test_another_trigger_leaves_the_record_of_skipped_ones(
        self, store: Store
    ) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        stored = put(store)
        store.fire_definitions([firing(stored, skipped=skipped)])
        put(store, replace(stored, trigger=EVERY_TWO_HOURS))
        [record] = instances(store, stored)
        assert record.skipped == skipped

    def test_a_removed_instance_leaves_its_fire_time_free(self, store: Store) -> None:
        later = START + SECOND
        old = pending(store, definition(later))
        changed = put(store, replace(old.definition, trigger=EVERY_TWO_HOURS))
        [new] = fire(store, changed, later)
        assert new.fire_time == later
        assert new.id != old.id

    def test_an_instance_that_an_edit_skips_leaves_its_fire_time_free(
        self, store: Store
    ) -> None:
        old = pending(store)
        changed = put(store, replace(old.definition, trigger=EVERY_TWO_HOURS))
        fire(store, changed, START)
        [new] = claim(store)
        assert new.fire_time == START
        assert new.id != old.id
