"""Store suite: a paused definition starts nothing and loses nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Pause, State
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    NOBODY,
    SECOND,
    WAITING,
    cancel,
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
    renew,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
