"""Store suite: definitions that are due are found, and each fire time is made once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    TICK,
    WAITING,
    claim,
    definition,
    due,
    ended,
    fire,
    firing,
    ids,
    instances,
    put,
    running,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
SKIPPED = Skipped(first=START - 2 * HOUR, last=START - HOUR, count=2, reason="too late")


class FireTests:
    """``fire_definitions``."""

    def test_each_fire_time_becomes_a_pending_instance(self, store: Store) -> None:
        read = put(store)
        made = fire(store, read, START, START + HOUR)
        assert times(made) == [START, START + HOUR]
        for instance in made:
            assert instance.state is State.PENDING
            assert instance.execute_at == instance.due_at == instance.fire_time
            assert (instance.attempt, instance.runs) == (0, 0)
            assert instance.claimed_by is None
            assert instance.expires_at is None
            assert instance.started_at is None
            assert instance.completed_at is None
            assert instance.error is None
            assert instance.skipped is None
            assert not instance.cancel_requested
            assert instance.definition == read

    def test_an_instance_is_due_when_its_firing_says(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        step = Firing(
            definition=read,
            fire_times=(START, START + HOUR),
            execute_times=(START + MINUTE + TICK, START + HOUR),
        )
        assert store.fire_definitions([step]).done == {read.id}
        first, second = instances(store, read)
        assert (first.fire_time, first.execute_at) == (START, START + MINUTE + TICK)
        assert first.due_at == first.execute_at
        assert second.fire_time == second.execute_at == START + HOUR
        clock.advance(MINUTE)
        assert claim(store, ahead=ZERO) == []
        clock.advance(TICK)
        assert ids(claim(store, ahead=ZERO)) == [first.id]

    def test_an_instance_is_in_its_definitions_queue(self, store: Store) -> None:
        [instance] = fire(store, put(store, definition(queue="other")))
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_the_definition_moves_on_and_keeps_its_revision(self, store: Store) -> None:
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        stored = store.get_definition(read.id)
        assert stored == read
        assert stored.next_fire_time == START + HOUR
        assert stored.completed_at is None
        assert stored.revision == 1

    def test_a_definition_without_a_next_fire_time_is_completed(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(MINUTE)
        fire(store, read)
        stored = store.get_definition(read.id)
        assert stored.next_fire_time is None
        assert stored.completed_at == START + MINUTE

    def test_a_definition_whose_trigger_waits_is_not_completed(
        self, store: Store
    ) -> None:
        read = put(store, definition(trigger=WAITING))
        fire(store, read)
        stored = store.get_definition(read.id)
        assert (stored.next_fire_time, stored.completed_at) == (None, None)

    def test_a_firing_without_fire_times_only_moves_the_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(START + HOUR))
        for earlier_or_later in (START + MINUTE, START + 2 * HOUR):
            step = Firing(
                definition=store.get_definition(read.id),
                fire_times=(),
                next_fire_time=earlier_or_later,
            )
            assert store.fire_definitions([step]).done == {read.id}
            moved = store.get_definition(read.id)
            assert moved.next_fire_time == earlier_or_later
            assert (moved.revision, moved.completed_at) == (read.revision, None)
        assert store.fire_definitions([step]).done == set()
        assert instances(store, read) == []
        clock.advance(2 * HOUR)
        assert due(store) == [read]

    def test_firing_nothing_wins_nothing(self, store: Store) -> None:
        assert store.fire_definitions([]).done == set()

    def test_the_same_firing_wins_once(self, store: Store) -> None:
        step = firing(put(store), next_fire_time=START + HOUR)
        assert store.fire_definitions([step]).done == {step.definition.id}
        assert store.fire_definitions([step]).done == set()
        assert times(instances(store, step.definition)) == [START]
        assert store.get_definition(step.definition.id).next_fire_time == START + HOUR

    def test_the_same_firing_does_not_win_on_a_completed_definition(
        self, store: Store
    ) -> None:
        step = firing(put(store))
        assert store.fire_definitions([step]).done == {step.definition.id}
        assert store.fire_definitions([step]).done == set()
        assert times(instances(store, step.definition)) == [START]

    def test_a_firing_of_another_next_fire_time_changes_nothing(
        self, store: Store
    ) -> None:
        read = put(store)
        other = replace(read, next_fire_time=START + TICK)
        assert store.fire_definitions([firing(other)]).done == set()
        assert instances(store, read) == []
        assert store.get_definition(read.id).next_fire_time == START

    def test_a_firing_of_another_revision_changes_nothing(self, store: Store) -> None:
        read = put(store)
        put(store, replace(read, name="edited"))
        assert store.fire_definitions([firing(read)]).done == set()
        assert instances(store, read) == []
        assert store.get_definition(read.id).next_fire_time == START

    def test_a_firing_read_before_a_pause_and_a_resume_changes_nothing(
        self, store: Store
    ) -> None:
        read = put(store)
        store.pause_definitions([read.id])
        store.resume_definitions([read.id])
        assert store.fire_definitions([firing(read)]).done == set()
        assert instances(store, read) == []

    def test_a_firing_of_an_unknown_definition_changes_nothing(
        self, store: Store
    ) -> None:
        read = replace(put(store), id=NOBODY)
        assert store.fire_definitions([firing(read)]).done == set()
        assert store.list_instances() == []

    def test_one_firing_that_loses_costs_only_itself(self, store: Store) -> None:
        first, stale, last = put(store), put(store), put(store)
        put(store, replace(stale, name="edited"))
        steps = [firing(first), firing(stale), firing(last)]
        assert store.fire_definitions(steps).done == {first.id, last.id}
        assert [len(instances(store, each)) for each in (first, stale, last)] == [
            1,
            0,
            1,
        ]

    def test_different_definitions_may_have_the_same_fire_time(
        self, store: Store
    ) -> None:
        one, other = put(store), put(store)
        assert times([*fire(store, one), *fire(store, other)]) == [START, START]

    def test_a_fire_time_that_has_its_instance_gets_no_second_one(
        self, store: Store
    ) -> None:
        first = running(store)
        again = put(store, replace(first.definition, trigger=EVERY_TWO_HOURS))
        made = fire(store, again, START, START + HOUR, next_fire_time=START + 2 * HOUR)
        assert times(made) == [START, START + HOUR]
        assert made[0].id == first.id
        assert store.get_definition(again.id).next_fire_time == START + 2 * HOUR

    def test_a_fire_time_whose_instance_has_ended_gets_no_second_one(
        self, store: Store
    ) -> None:
        first = ended(store)
        again = put(store, replace(first.definition, trigger=EVERY_TWO_HOURS))
        assert ids(fire(store, again)) == [first.id]
        assert store.get_instance(first.id).state is State.COMPLETED

    def test_a_fire_time_within_a_microsecond_is_another_one(
        self, store: Store
    ) -> None:
        made = fire(store, put(store), START, START + TICK)
        assert times(made) == [START, START + TICK]


class SkipTests:
    """``fire_definitions``, where fire times are skipped."""

    def test_skipped_fire_times_become_one_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(SKIPPED.first))
        clock.advance(MINUTE)
        step = firing(read, START, skipped=SKIPPED, next_fire_time=START + HOUR)
        assert store.fire_definitions([step]).done == {read.id}
        record, instance = instances(store, read)
        assert (record.fire_time, record.skipped) == (None, SKIPPED)
        assert record.execute_at == SKIPPED.first
        assert record.outcome is Outcome.SKIPPED
        assert record.completed_at == START + MINUTE
        assert (instance.fire_time, instance.skipped) == (START, None)
        assert store.get_instance(record.id) == record

    def test_skipped_fire_times_alone_move_the_definition_on(
        self, store: Store
    ) -> None:
        read = put(store, definition(SKIPPED.first))
        step = firing(read, skipped=SKIPPED, next_fire_time=START)
        assert store.fire_definitions([step]).done == {read.id}
        assert store.get_definition(read.id).next_fire_time == START
        [record] = instances(store, read)
        assert record.skipped == SKIPPED

    def test_a_record_of_skipped_ones_is_never_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.fire_definitions([firing(put(store), skipped=SKIPPED)])
        clock.advance(HOUR)
        assert claim(store, ahead=HOUR, lapsed=True) == []

    def test_a_record_of_skipped_ones_takes_no_fire_time(self, store: Store) -> None:
        read = put(store, definition(SKIPPED.first))
        later = START + HOUR
        store.fire_definitions([firing(read, skipped=SKIPPED, next_fire_time=later)])
        again = put(store, replace(read, trigger=EVERY_TWO_HOURS, revision=None))
        made = fire(store, again, SKIPPED.first)
        assert [each.skipped for each in made if each.fire_time is None] == [SKIPPED]
        assert [each.fire_time for each in made if each.skipped is None] == [
            SKIPPED.first
        ]

    def test_a_taken_fire_time_may_be_within_a_record_of_skipped_ones(
        self, store: Store
    ) -> None:
        first = ended(store, definition(SKIPPED.first))
        again = put(store, replace(first.definition, trigger=EVERY_TWO_HOURS))
        assert store.fire_definitions([firing(again, skipped=SKIPPED)]).done == {
            again.id
        }
        found = {each.id: each.skipped for each in instances(store, again)}
        assert found.pop(first.id) is None
        assert list(found.values()) == [SKIPPED]

    def test_any_number_of_records_may_begin_at_the_same_time(
        self, store: Store
    ) -> None:
        read = put(store, definition(SKIPPED.first))
        for _ in range(2):
            step = firing(read, skipped=SKIPPED, next_fire_time=read.next_fire_time)
            assert store.fire_definitions([step]).done == {read.id}
        assert [each.skipped for each in instances(store, read)] == [SKIPPED, SKIPPED]

    def test_a_record_of_skipped_ones_is_not_open(self, store: Store) -> None:
        read = put(store, definition(SKIPPED.first, trigger=WAITING))
        step = firing(read, skipped=SKIPPED, next_fire_time=START)
        assert store.fire_definitions([step]).done == {read.id}
        moved = store.get_definition(read.id)
        assert times(fire(store, moved)) == [None, START]
