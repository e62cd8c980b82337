"""Store suite: a paused definition starts nothing, loses nothing, and goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Cancelled, Pause, State
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
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

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger


def pause(store: Store, read: TaskDefinition) -> TaskDefinition:
    """Pause one definition and return it as stored."""
    [stored] = store.pause_definitions([read.id])
    return stored


class PauseTests:
    """``pause_definitions``."""

    def test_a_pause_is_kept_with_its_note(self, store: Store) -> None:
        new = put(store)
        [paused] = store.pause_definitions([new.id], note="why")
        for found in (paused, store.get_definition(new.id)):
            assert found == new
            assert (found.paused, found.note, found.revision) == (True, "why", 2)

    def test_a_pause_answers_those_that_exist(self, store: Store) -> None:
        one, other = put(store), put(store)
        paused = store.pause_definitions([one.id, NOBODY, other.id])
        assert sorted(ids(paused)) == sorted([one.id, other.id])
        assert store.pause_definitions([NOBODY]) == []

    def test_a_second_pause_only_takes_the_note(self, store: Store) -> None:
        new = put(store)
        [first] = store.pause_definitions([new.id], note="first")
        [second] = store.pause_definitions([new.id], note="second")
        assert second.note == "second"
        assert second.paused
        assert second.revision == first.revision
        assert second.next_fire_time == first.next_fire_time

    def test_it_is_kept_since_when_a_definition_is_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store)
        assert new.paused_at is None
        clock.advance(HOUR)
        since = store.now()
        paused = pause(store, new)
        clock.advance(HOUR)
        [again] = store.pause_definitions([new.id], note="another")
        edited = put(store, replace(again, name="other"))
        moved = put(store, replace(edited, trigger=WAITING))
        found = store.get_definition(new.id)
        for each in (paused, again, edited, moved, found):
            assert each.paused_at == since
        [resumed] = store.resume_definitions([new.id])
        for each in (resumed, store.get_definition(new.id)):
            assert each.paused_at is None

    def test_the_last_pause_is_kept_whatever_is_edited_since(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store)
        assert new.last_pause is None
        store.pause_definitions([new.id], note="why")
        clock.advance(HOUR)
        [resumed] = store.resume_definitions([new.id])
        pause = Pause(since=START, until=START + HOUR, note="why")
        assert resumed.last_pause == pause
        assert store.get_definition(new.id).last_pause == pause
        assert [each.last_pause for each in due(store)] == [pause]
        other = Pause(since=START, until=START)
        edited = put(store, replace(resumed, name="other", last_pause=other))
        moved = put(store, replace(edited, trigger=HOURLY, last_pause=None))
        for each in (edited, moved, store.get_definition(new.id)):
            assert each.last_pause == pause
        copy = put(store, replace(moved, id=uuid4()))
        assert copy.last_pause is None
        store.pause_definitions([new.id])
        [again] = store.resume_definitions([new.id])
        assert again.last_pause == Pause(since=START + HOUR, until=START + HOUR)

    def test_since_when_a_definition_is_paused_is_not_the_users_to_say(
        self, store: Store, clock: ManualClock
    ) -> None:
        clock.advance(HOUR)
        now, other = store.now(), START - HOUR
        paused = put(store, replace(definition(), paused=True, paused_at=other))
        running = put(store, replace(definition(), paused_at=other))
        for found in (paused, store.get_definition(paused.id)):
            assert found.paused_at == now
        for found in (running, store.get_definition(running.id)):
            assert found.paused_at is None
        edited = put(store, replace(running, name="other", paused_at=other))
        assert edited.paused_at is None

    def test_a_new_definition_may_be_paused(self, store: Store) -> None:
        new = put(store, replace(definition(), paused=True, note="why"))
        assert (new.paused, new.note, new.revision) == (True, "why", 1)
        assert new.next_fire_time == START
        assert store.get_definition(new.id).paused
        assert due(store) == []
        assert store.fire_definitions([firing(new)]).done == set()
        [resumed] = store.resume_definitions([new.id])
        assert (resumed.paused, resumed.note, resumed.revision) == (False, None, 2)
        assert ids(due(store)) == [new.id]

    def test_a_new_definition_that_is_not_paused_has_no_note(
        self, store: Store
    ) -> None:
        new = put(store, replace(definition(), note="why"))
        assert (new.paused, new.note) == (False, None)

    def test_an_edit_neither_pauses_nor_resumes(self, store: Store) -> None:
        new = put(store)
        edited = put(store, replace(new, name="other", paused=True, note="why"))
        assert (edited.paused, edited.note) == (False, None)
        pause(store, edited)
        again = put(store, replace(new, trigger=WAITING, revision=None))
        assert again.paused

    def test_a_paused_definition_is_not_due(self, store: Store) -> None:
        new = put(store)
        pause(store, new)
        assert due(store, ahead=HOUR, limit=10) == []

    def test_a_paused_definition_does_not_fire(self, store: Store) -> None:
        paused = pause(store, put(store))
        assert store.fire_definitions([firing(paused)]).done == set()
        assert instances(store, paused) == []
        assert store.get_definition(paused.id).next_fire_time == START

    def test_what_was_read_before_the_pause_does_not_fire(self, store: Store) -> None:
        read = put(store)
        pause(store, read)
        assert store.fire_definitions([firing(read)]).done == set()

    def test_what_is_pending_and_still_to_come_is_removed(self, store: Store) -> None:
        instance = pending(store, definition(START + SECOND))
        pause(store, instance.definition)
        assert claim(store, ahead=HOUR) == []
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_what_is_claimed_and_still_to_come_is_removed(self, store: Store) -> None:
        instance = claimed(store)
        pause(store, instance.definition)
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_the_next_fire_time_goes_back_to_the_earliest_that_was_removed(
        self, store: Store
    ) -> None:
        read = put(store)
        later = START + HOUR
        fire(store, read, START + 2 * HOUR, later, next_fire_time=START + 3 * HOUR)
        assert pause(store, read).next_fire_time == later

    def test_the_next_fire_time_goes_back_over_a_claimed_one(
        self, store: Store
    ) -> None:
        read = put(store, definition(START + SECOND))
        later = START + HOUR
        fire(store, read, START + SECOND, later, next_fire_time=START + 2 * HOUR)
        claim(store, ahead=SECOND)
        assert pause(store, read).next_fire_time == START + SECOND

    def test_the_next_fire_time_stays_where_nothing_was_removed(
        self, store: Store
    ) -> None:
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        claim(store)
        assert pause(store, read).next_fire_time == START + HOUR

    def test_a_completed_definition_with_a_removed_instance_is_live_again(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND))
        paused = pause(store, instance.definition)
        assert (paused.next_fire_time, paused.completed_at) == (START + SECOND, None)

    def test_a_completed_definition_without_one_stays_completed(
        self, store: Store
    ) -> None:
        instance = ended(store)
        paused = pause(store, instance.definition)
        assert (paused.next_fire_time, paused.completed_at) == (None, START)

    def test_a_definition_whose_trigger_waits_goes_back_as_well(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND, trigger=WAITING))
        assert pause(store, instance.definition).next_fire_time == START + SECOND

    @pytest.mark.parametrize("begun", ["started", "cancelled"])
    def test_the_next_fire_time_goes_back_over_nothing_that_has_begun(
        self, store: Store, begun: str
    ) -> None:
        read = put(store)
        step = [START + number * SECOND for number in (1, 2, 3)]
        fire(store, read, *step, next_fire_time=START + HOUR)
        first, second, third = claim(store, ahead=HOUR)
        if begun == "started":
            start(store, second)
        else:
            cancel(store, second)
        assert pause(store, read).next_fire_time == third.fire_time
        assert ids(instances(store, read)) == [first.id, second.id]
        assert store.get_instance(first.id).state is State.PENDING
        assert claim(store, ahead=HOUR) == []

    def test_running_instances_go_on(self, store: Store) -> None:
        instance = running(store)
        pause(store, instance.definition)
        assert renew(store, instance) == {instance.id: False}
        assert ids(start(store, instance)) == [instance.id]
        assert finish(store, instance)

    def test_what_has_ended_stays(self, store: Store) -> None:
        instance = ended(store)
        pause(store, instance.definition)
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_a_pause_holds_nothing_of_others(self, store: Store) -> None:
        frozen, free = (waiting_for_retry(store, retry_in=HOUR) for _ in range(2))
        pause(store, frozen.definition)
        assert ids(claim(store, ahead=HOUR)) == [free.id]


class FrozenTests:
    """What has passed, and has not ended, is frozen by a pause."""

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_what_has_passed_and_not_started_is_frozen(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = pending(store, definition(trigger=trigger))
        paused = pause(store, instance.definition)
        assert paused.next_fire_time is None
        assert paused.completed_at == instance.definition.completed_at
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_what_has_passed_and_is_claimed_is_frozen(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store, definition(START + SECOND))
        clock.advance(SECOND)
        pause(store, instance.definition)
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_no_fire_time_that_has_passed_fires_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        # The first one is to run after the second one, as by a jitter.
        later = firing(read, START, START + SECOND, next_fire_time=START + HOUR)
        execute_times = (START + MINUTE, START + SECOND)
        store.fire_definitions([replace(later, execute_times=execute_times)])
        clock.advance(SECOND)
        [second] = claim(store)
        assert finish(store, second)
        assert clean_up(store) == 1
        assert pause(store, read).next_fire_time == START + HOUR
        assert times(instances(store, read)) == [START]

    def test_what_waits_for_a_retry_is_frozen(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_a_claimed_retry_does_not_start(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        pause(store, instance.definition)
        assert start(store, instance) == []
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_what_is_given_back_meanwhile_is_frozen(self, store: Store) -> None:
        instance = running(store)
        pause(store, instance.definition)
        assert release(store, instance)
        assert claim(store, ahead=HOUR) == []
        found = store.get_instance(instance.id)
        assert (found.state, found.runs) == (State.PENDING, 0)

    def test_what_fails_meanwhile_is_frozen(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        assert finish(store, instance, None, retry_in=SECOND)
        clock.advance(HOUR)
        assert claim(store, lapsed=True) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_a_run_that_lapses_meanwhile_does_not_start_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        assert finish(store, instance)

    def test_what_is_frozen_can_be_cancelled(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        answer = cancel(store, instance)
        assert answer == {instance.id: Cancelled.CANCELLED}
        store.resume_definitions([instance.definition.id])
        assert claim(store) == []

    def test_what_is_frozen_goes_with_its_definition(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        store.delete_definitions([instance.definition.id])
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_what_is_frozen_stays_frozen_when_the_definition_is_edited(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store)
        paused = pause(store, instance.definition)
        put(store, replace(paused, queue="other"))
        assert claim(store, queues=["default", "other"], ahead=HOUR) == []

    def test_what_is_frozen_goes_to_the_new_queue(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        paused = pause(store, instance.definition)
        put(store, replace(paused, queue="other"))
        store.resume_definitions([paused.id])
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]


class ResumeTests:
    """``resume_definitions``."""

    def test_the_pause_and_its_note_go(self, store: Store) -> None:
        new = put(store)
        store.pause_definitions([new.id], note="why")
        [resumed] = store.resume_definitions([new.id])
        for found in (resumed, store.get_definition(new.id)):
            assert found == new
            assert (found.paused, found.note, found.revision) == (False, None, 3)

    def test_a_resume_answers_those_that_exist(self, store: Store) -> None:
        one, other = put(store), put(store)
        store.pause_definitions([one.id])
        resumed = store.resume_definitions([one.id, NOBODY, other.id])
        assert sorted(ids(resumed)) == sorted([one.id, other.id])
        assert store.resume_definitions([NOBODY]) == []

    def test_a_definition_that_is_not_paused_stays_as_it_is(self, store: Store) -> None:
        new = put(store)
        [resumed] = store.resume_definitions([new.id])
        assert (resumed.paused, resumed.revision) == (False, 1)

    def test_what_was_removed_at_the_pause_fires_after_it(self, store: Store) -> None:
        old = pending(store, definition(START + SECOND))
        pause(store, old.definition)
        [resumed] = store.resume_definitions([old.definition.id])
        assert ids(due(store, ahead=HOUR, limit=10)) == [resumed.id]
        assert times(fire(store, resumed)) == [START + SECOND]

    def test_what_had_passed_at_the_pause_goes_on(self, store: Store) -> None:
        instance = pending(store)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_what_waited_for_a_retry_is_claimable(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_a_claimed_retry_is_claimable(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store, OTHER_NODE, ahead=SECOND)) == [instance.id]

    def test_what_was_given_back_meanwhile_is_claimable(self, store: Store) -> None:
        instance = running(store)
        pause(store, instance.definition)
        release(store, instance)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_what_failed_meanwhile_is_claimable_when_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        finish(store, instance, None, retry_in=SECOND)
        store.resume_definitions([instance.definition.id])
        assert claim(store) == []
        clock.advance(SECOND)
        assert ids(claim(store)) == [instance.id]

    def test_what_lapsed_meanwhile_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(LEASE)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [instance.id]

    def test_what_lapsed_meanwhile_lapses_at_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(HOUR)
        store.resume_definitions([instance.definition.id])
        assert store.get_instance(instance.id).expires_at == store.now()

    def test_what_lapsed_before_the_pause_lapses_at_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert store.get_instance(instance.id).expires_at == store.now()

    def test_a_claim_that_holds_at_the_resume_holds_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(SECOND)
        store.resume_definitions([instance.definition.id])
        found = store.get_instance(instance.id)
        assert found.expires_at == instance.expires_at

    def test_a_paused_definition_that_ran_on_keeps_what_it_ran(
        self, store: Store
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        finish(store, instance)
        store.resume_definitions([instance.definition.id])
        assert times(instances(store, instance.definition)) == [START]
        assert claim(store, ahead=HOUR) == []
