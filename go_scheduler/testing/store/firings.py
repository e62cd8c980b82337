"""Store suite: definitions that are due are found, and each fire time is made once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import DefinitionState, Outcome, Skipped, State
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    cancel,
    claim,
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
    running,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, task
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
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


class WaitingTests:
    """``fire_definitions``, where the trigger waits for the end of the last run."""

    def test_it_does_not_fire_while_an_instance_is_pending(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        fire(store, read, next_fire_time=START + HOUR)
        self.assert_it_does_not_fire(store, store.get_definition(read.id))

    def test_it_does_not_fire_while_an_instance_is_claimed(self, store: Store) -> None:
        read = put(store, definition(START + SECOND, trigger=WAITING))
        fire(store, read, next_fire_time=START + HOUR)
        claim(store, ahead=MINUTE)
        self.assert_it_does_not_fire(store, store.get_definition(read.id))

    def test_it_does_not_fire_while_an_instance_runs(self, store: Store) -> None:
        self.assert_it_does_not_fire(store, self.edited_while_running(store))

    def test_it_does_not_fire_while_an_instance_waits_for_a_retry(
        self, store: Store
    ) -> None:
        read = self.edited_while_running(store)
        [instance] = instances(store, read)
        assert finish(store, instance, None, retry_in=HOUR)
        self.assert_it_does_not_fire(store, read)

    def test_it_does_not_fire_while_an_instance_has_lapsed(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = self.edited_while_running(store)
        clock.advance(HOUR)
        self.assert_it_does_not_fire(store, read)
        claim(store, OTHER_NODE, lapsed=True)
        self.assert_it_does_not_fire(store, read)

    def test_it_fires_when_the_instance_has_ended(self, store: Store) -> None:
        read = self.edited_while_running(store)
        [instance] = instances(store, read)
        assert finish(store, instance)
        assert times(fire(store, read)) == [START, START + HOUR]

    def test_it_fires_when_the_instance_has_been_cancelled(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        [instance] = fire(store, read, next_fire_time=START + HOUR)
        cancel(store, instance)
        moved = store.get_definition(read.id)
        assert times(fire(store, moved)) == [START, START + HOUR]

    @staticmethod
    def edited_while_running(store: Store) -> TaskDefinition:
        """A definition that waits and has a fire time although its instance runs."""
        instance = running(store, definition(trigger=WAITING))
        other = DelayTrigger(2 * HOUR)
        new = replace(instance.definition, trigger=other, next_fire_time=START + HOUR)
        return put(store, new)

    @staticmethod
    def assert_it_does_not_fire(store: Store, read: TaskDefinition) -> None:
        """A firing of it loses and changes nothing."""
        before = instances(store, read)
        assert store.fire_definitions([firing(read)]).done == set()
        assert instances(store, read) == before
        assert store.get_definition(read.id).next_fire_time == read.next_fire_time


class NextFireTimeTests:
    """``finish_instances`` and ``cancel_instances``, where the trigger waits."""

    def test_a_definition_that_waits_fires_after_the_end(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        assert finish(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, START + HOUR)
        assert (found.completed_at, found.revision) == (None, 1)
        assert due(store, ahead=HOUR, limit=10) == [found]
        assert len(fire(store, found)) == 2

    def test_a_definition_that_waits_is_completed_if_it_fires_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        clock.advance(SECOND)
        assert finish(store, instance)
        found = self.definition_of(store, instance, None)
        assert found.completed_at == START + SECOND

    def test_an_edit_during_the_run_does_not_stop_the_series(
        self, store: Store
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        put(store, replace(instance.definition, name="edited"))
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + HOUR)

    def test_a_pause_during_the_run_does_not_stop_the_series(
        self, store: Store
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        store.pause_definitions([instance.definition.id])
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + HOUR)
        assert due(store, ahead=HOUR, limit=10) == []
        [resumed] = store.resume_definitions([instance.definition.id])
        assert due(store, ahead=HOUR, limit=10) == [resumed]

    def test_a_next_fire_time_that_is_known_stays(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        fire(store, read, next_fire_time=START + MINUTE)
        [instance] = claim(store)
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + MINUTE)

    def test_a_definition_that_does_not_wait_takes_no_next_fire_time(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, None)
        assert found.completed_at == START

    def test_an_end_does_not_complete_a_definition_that_does_not_wait(
        self, store: Store
    ) -> None:
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        [instance] = claim(store)
        assert finish(store, instance)
        found = self.definition_of(store, instance, START + HOUR)
        assert found.completed_at is None

    def test_a_retry_sets_no_next_fire_time(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        assert finish(store, instance, None, next_fire_time=START + HOUR)
        self.definition_of(store, instance, None)

    def test_a_lost_claim_sets_no_next_fire_time(self, store: Store) -> None:
        waiting_for_retry(store, definition(trigger=WAITING))
        [second] = claim(store)
        stale = replace(second, attempt=1)
        assert not finish(store, stale, Outcome.FAILED, next_fire_time=START + HOUR)
        found = self.definition_of(store, second, None)
        assert found.completed_at is None

    def test_a_definition_that_waits_fires_after_a_cancelled_one(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(trigger=WAITING))
        cancel(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, START + HOUR)
        assert due(store, ahead=HOUR, limit=10) == [found]

    def test_a_definition_that_waits_is_completed_by_a_cancel_if_it_fires_no_more(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(trigger=WAITING))
        cancel(store, instance)
        assert self.definition_of(store, instance, None).completed_at == START

    def test_a_request_to_stop_sets_no_next_fire_time(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        cancel(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, None)
        assert found.completed_at is None

    @staticmethod
    def definition_of(
        store: Store, instance: TaskInstance, next_fire_time: datetime | None
    ) -> TaskDefinition:
        """An instance's definition as stored, which fires then."""
        found = store.get_definition(instance.definition.id)
        assert found.next_fire_time == next_fire_time
        return found


class OnDemandTests:
    """Definitions that fire only on demand."""

    def test_one_on_demand_is_active_and_never_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, task())
        clock.advance(YEAR)
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger()
            assert found.next_fire_time is None
            assert found.completed_at is None
            assert found.state is DefinitionState.ACTIVE
        assert due(store) == []
        assert ids(store.list_definitions(state=DefinitionState.ACTIVE)) == [new.id]

    def test_one_of_many_on_demand_is_active(self, store: Store) -> None:
        stored = store.put_definitions([task(), definition(), task()])
        assert {each.completed_at for each in stored} == {None}

    def test_one_on_demand_is_not_cleaned_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, task())
        add(store, new)
        [run] = claim(store)
        assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 1
        assert store.get_definition(new.id) == new
        assert instances(store, new) == []

    def test_one_that_does_not_last_is_completed_and_runs_when_asked(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, definition(None, trigger=OnDemandTrigger(lasting=False)))
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger(lasting=False)
            assert (found.completed_at, found.next_fire_time) == (START, None)
        added = add(store, new, at=START + YEAR)
        clock.advance(YEAR)
        assert clean_up(store) == 0
        [run] = claim(store)
        assert run.id == added.id
        assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 2
        assert store.list_definitions() == []

    def test_one_that_fired_becomes_one_on_demand(self, store: Store) -> None:
        old = put(store, definition(START + HOUR))
        fire(store, old)
        new = put(store, replace(task(), id=old.id))
        assert (new.next_fire_time, new.completed_at) == (None, None)
        assert instances(store, new) == []

    def test_one_on_demand_becomes_one_that_fires(self, store: Store) -> None:
        old = put(store, task())
        added = add(store, old)
        new = put(store, replace(definition(START), id=old.id))
        assert new.next_fire_time == START
        assert ids(due(store)) == [old.id]
        assert ids(instances(store, new)) == [added.id]

    def test_the_end_of_a_former_run_completes_no_one_on_demand(
        self, store: Store
    ) -> None:
        run = running(store, definition(trigger=WAITING))
        put(store, replace(task(), id=run.definition.id))
        assert finish(store, run, next_fire_time=START + HOUR)
        found = store.get_definition(run.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)
