"""Store suite: runs end, are repeated, given back or cancelled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import Cancelled, Outcome, Skipped, State
from go_scheduler.stores.messages import Claim, Release, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    cancel,
    claim,
    claim_of,
    claimed,
    definition,
    due,
    ended,
    finish,
    fire,
    ids,
    pending,
    put,
    release,
    renew,
    running,
    stale_claim_of,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def run_once(store: Store, clock: ManualClock, number: int) -> TaskInstance:
    """Claim the one instance there is, start it, and let it fail."""
    [instance] = claim(store)
    assert (instance.attempt, instance.runs) == (number, number)
    assert finish(store, instance, None, retry_in=MINUTE, error=f"run {number}")
    clock.advance(MINUTE)
    return store.get_instance(instance.id)


class FinishTests:
    """``finish_instances``, where the instance ends."""

    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_a_finished_instance_ends_now_and_keeps_its_owner(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert finish(store, instance, outcome)
        found = store.get_instance(instance.id)
        assert (found.outcome, found.state.value) == (outcome, outcome.value)
        assert found.completed_at == START + SECOND
        assert (found.claimed_by, found.attempt, found.runs) == (NODE, 1, 1)
        assert found.ended_attempt == 1

    def test_a_finished_instance_is_finished_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        assert finish(store, instance)
        before = store.get_instance(instance.id)
        clock.advance(SECOND)
        assert not finish(store, instance, Outcome.FAILED, error="late")
        assert not finish(store, instance, None)
        assert not release(store, instance)
        assert renew(store, instance) == {}
        assert start(store, instance) == []
        assert store.get_instance(instance.id) == before

    def test_a_finished_instance_keeps_the_time_of_the_call(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        called = replace(instance, started_at=START + 7 * TICK)
        assert finish(store, called)
        assert store.get_instance(instance.id).started_at == START + 7 * TICK

    def test_a_run_that_was_not_called_is_not_counted(self, store: Store) -> None:
        instance = running(store)
        end = RunOutcome(claim=claim_of(instance), outcome=Outcome.CANCELLED)
        assert store.finish_instances([end]).done == {instance.id}
        found = store.get_instance(instance.id)
        assert (found.state, found.runs) == (State.CANCELLED, 0)
        assert found.started_at is None

    def test_what_was_claimed_and_not_started_may_end(self, store: Store) -> None:
        instance = claimed(store)
        assert finish(store, instance, Outcome.CANCELLED)
        found = store.get_instance(instance.id)
        assert (found.state, found.runs) == (State.CANCELLED, 0)

    def test_an_error_is_kept(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, error="line 1\nline 2")
        assert store.get_instance(instance.id).error == "line 1\nline 2"

    def test_a_skipped_instance_says_why_and_keeps_its_error(
        self, store: Store, clock: ManualClock
    ) -> None:
        pending(store)
        run_once(store, clock, 1)
        [instance] = claim(store)
        end = RunOutcome(
            claim=claim_of(instance), outcome=Outcome.SKIPPED, error='too "late"'
        )
        assert store.finish_instances([end]).done == {instance.id}
        found = store.get_instance(instance.id)
        assert (found.state, found.error) == (State.SKIPPED, "run 1")
        assert (found.runs, found.started_at) == (1, None)
        assert instance.fire_time is not None
        assert found.skipped == Skipped.itself(instance.fire_time, 'too "late"')

    def test_an_instance_that_ends_well_keeps_the_error_of_the_run_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        pending(store)
        run_once(store, clock, 1)
        [instance] = claim(store)
        assert finish(store, instance)
        found = store.get_instance(instance.id)
        assert (found.state, found.error) == (State.COMPLETED, "run 1")

    def test_only_current_claims_are_finished(self, store: Store) -> None:
        waiting_for_retry(store)
        [second] = claim(store)
        mine = running(store)
        claims = [stale_claim_of(second), Claim(instance_id=NOBODY, attempt=1)]
        outcomes = [
            RunOutcome(claim=each, outcome=Outcome.FAILED, error="stale")
            for each in (*claims, claim_of(mine))
        ]
        assert store.finish_instances(outcomes).done == {mine.id}
        assert store.get_instance(second.id) == second

    def test_what_nobody_has_claimed_is_not_finished(self, store: Store) -> None:
        instance = pending(store)
        for attempt in (0, 1):
            claimed = replace(instance, attempt=attempt)
            assert not finish(store, claimed)
            assert not finish(store, claimed, Outcome.FAILED)
        assert store.get_instance(instance.id) == instance

    def test_finishing_nothing_accepts_nothing(self, store: Store) -> None:
        assert store.finish_instances([]).done == set()

    def test_the_outcomes_of_a_batch_may_differ(self, store: Store) -> None:
        given = [running(store) for _ in range(3)]
        ends = [Outcome.COMPLETED, None, Outcome.FAILED]
        outcomes = [
            RunOutcome(claim=claim_of(each), started_at=START, outcome=end)
            for each, end in zip(given, ends, strict=True)
        ]
        assert store.finish_instances(outcomes).done == set(ids(given))
        states = [store.get_instance(each.id).state for each in given]
        assert states == [State.COMPLETED, State.PENDING, State.FAILED]


class RetryTests:
    """``finish_instances``, where the instance is to run again."""

    def test_a_retry_is_pending_again_and_due_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert finish(store, instance, None, retry_in=MINUTE, error="no")
        found = store.get_instance(instance.id)
        assert found.state is State.PENDING
        assert found.due_at == START + SECOND + MINUTE
        assert found.execute_at == START
        assert (found.claimed_by, found.started_at) == (None, None)
        assert (found.outcome, found.completed_at) == (None, None)
        assert (found.attempt, found.runs, found.error) == (1, 1, "no")
        assert found.ended_attempt is None

    def test_a_retry_without_delay_is_due_at_once(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, None)
        [again] = claim(store, OTHER_NODE)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 2)

    def test_each_start_counts_one_run(self, store: Store, clock: ManualClock) -> None:
        pending(store)
        for number in (1, 2, 3):
            found = run_once(store, clock, number)
            assert (found.runs, found.error) == (number, f"run {number}")

    def test_an_error_stays_until_another_is_given(
        self, store: Store, clock: ManualClock
    ) -> None:
        pending(store)
        run_once(store, clock, 1)
        [instance] = claim(store)
        assert finish(store, instance, None)
        assert store.get_instance(instance.id).error == "run 1"

    def test_hangs_are_counted_in_a_row(self, store: Store) -> None:
        pending(store)
        counted = []
        for hung in (True, True, False, True):
            [instance] = claim(store)
            counted.append(instance.hangs)
            assert finish(store, instance, None, hung=hung)
        assert counted == [0, 1, 2, 0]
        assert store.get_instance(instance.id).hangs == 1

    def test_the_last_hang_counts_and_another_end_keeps_the_count(
        self, store: Store
    ) -> None:
        for instance in (running(store), running(store)):
            assert finish(store, instance, None, hung=True)
        last, other = claim(store)
        assert finish(store, last, Outcome.FAILED, hung=True)
        assert finish(store, other, Outcome.COMPLETED)
        assert store.get_instance(last.id).hangs == 2
        assert store.get_instance(other.id).hangs == 1

    def test_a_hang_stays_counted_when_the_next_claim_is_given_back(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance, None, hung=True)
        [again] = claim(store)
        assert release(store, again)
        assert store.get_instance(instance.id).hangs == 1

    def test_a_retry_leaves_its_definition_alone(self, store: Store) -> None:
        instance = waiting_for_retry(store, definition(trigger=WAITING))
        found = store.get_definition(instance.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)


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


class ReleaseTests:
    """``release_instances``."""

    def test_what_was_not_started_is_as_it_was(self, store: Store) -> None:
        before = pending(store, definition(START + SECOND))
        [instance] = claim(store, ahead=HOUR)
        assert release(store, instance)
        found = store.get_instance(instance.id)
        assert found == replace(before, attempt=1)
        [again] = claim(store, OTHER_NODE, ahead=SECOND)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 0)

    def test_a_run_that_was_recorded_is_taken_off(self, store: Store) -> None:
        instance = running(store)
        assert release(store, instance)
        found = store.get_instance(instance.id)
        assert found.state is State.PENDING
        assert (found.runs, found.started_at, found.claimed_by) == (0, None, None)
        assert found.due_at == START
        [again] = claim(store, OTHER_NODE)
        assert (again.attempt, again.runs) == (2, 1)

    def test_only_the_run_given_back_is_taken_off(self, store: Store) -> None:
        waiting_for_retry(store)
        [instance] = claim(store)
        assert instance.runs == 2
        assert release(store, instance)
        assert store.get_instance(instance.id).runs == 1

    def test_what_had_run_and_was_not_started_keeps_its_runs(
        self, store: Store
    ) -> None:
        waiting_for_retry(store, retry_in=MINUTE)
        [instance] = claim(store, ahead=HOUR)
        assert release(store, instance)
        found = store.get_instance(instance.id)
        assert (found.runs, found.due_at) == (1, START + MINUTE)

    def test_what_never_ran_is_removed_by_another_pause(self, store: Store) -> None:
        [instance] = start(store, claimed(store, definition(START + SECOND)))
        assert release(store, instance)
        [paused] = store.pause_definitions([instance.definition.id])
        assert paused.next_fire_time == START + SECOND
        assert store.list_instances() == []

    def test_nobody_claims_it_before_its_delay_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert release(store, instance, MINUTE)
        found = store.get_instance(instance.id)
        assert found.due_at == START + SECOND + MINUTE
        assert found.execute_at == START
        assert claim(store, ahead=MINUTE - TICK) == []
        clock.advance(MINUTE)
        assert ids(claim(store)) == [instance.id]

    def test_a_delay_makes_nothing_due_earlier(self, store: Store) -> None:
        instance = claimed(store, definition(START + HOUR))
        assert release(store, instance, SECOND)
        assert store.get_instance(instance.id).due_at == START + HOUR
        assert claim(store, ahead=MINUTE) == []

    def test_only_current_claims_are_given_back(self, store: Store) -> None:
        waiting_for_retry(store)
        [second] = claim(store)
        over, mine = ended(store), running(store)
        claims = [
            stale_claim_of(second),
            claim_of(over),
            Claim(instance_id=NOBODY, attempt=1),
            claim_of(mine),
        ]
        releases = [Release(claim=each, delay=HOUR) for each in claims]
        assert store.release_instances(releases).done == {mine.id}
        assert store.get_instance(second.id) == second
        assert store.get_instance(over.id).state is State.COMPLETED

    def test_what_was_given_back_is_not_given_back_again(self, store: Store) -> None:
        instance = running(store)
        assert release(store, instance)
        assert not release(store, instance, HOUR)
        assert not finish(store, instance, Outcome.FAILED)
        assert store.get_instance(instance.id).due_at == START

    def test_each_has_a_delay_of_its_own(self, store: Store) -> None:
        delays = [ZERO, SECOND, MINUTE]
        given = [running(store) for _ in delays]
        store.release_instances(
            [
                Release(claim=claim_of(instance), delay=delay)
                for instance, delay in zip(given, delays, strict=True)
            ]
        )
        due = [store.get_instance(each.id).due_at for each in given]
        assert due == [START + delay for delay in delays]

    def test_releasing_nothing_accepts_nothing(self, store: Store) -> None:
        assert store.release_instances([]).done == set()


class CancelTests:
    """``cancel_instances``."""

    def test_what_is_pending_is_cancelled(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = pending(store)
        clock.advance(SECOND)
        assert cancel(store, instance) == {instance.id: Cancelled.CANCELLED}
        found = store.get_instance(instance.id)
        assert found.state is State.CANCELLED
        assert found.completed_at == START + SECOND
        assert claim(store) == []

    def test_what_is_claimed_and_not_started_is_cancelled(self, store: Store) -> None:
        instance = claimed(store)
        assert cancel(store, instance) == {instance.id: Cancelled.CANCELLED}
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert not finish(store, instance)
        assert store.get_instance(instance.id).state is State.CANCELLED

    def test_what_waits_for_a_retry_is_cancelled(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        assert cancel(store, instance) == {instance.id: Cancelled.CANCELLED}
        assert claim(store) == []

    def test_what_runs_is_asked_to_stop(self, store: Store) -> None:
        instance = running(store)
        assert cancel(store, instance) == {instance.id: Cancelled.REQUESTED}
        found = store.get_instance(instance.id)
        assert found == replace(instance, cancel_requested=True)
        assert found.state is State.RUNNING

    def test_what_runs_may_be_asked_again(self, store: Store) -> None:
        instance = running(store)
        for _ in range(2):
            assert cancel(store, instance) == {instance.id: Cancelled.REQUESTED}

    @pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.CANCELLED])
    def test_what_was_asked_to_stop_ends_as_its_owner_says(
        self, store: Store, outcome: Outcome
    ) -> None:
        instance = running(store)
        cancel(store, instance)
        assert finish(store, instance, outcome)
        assert store.get_instance(instance.id).outcome is outcome

    def test_what_has_ended_or_never_was_is_not_answered(self, store: Store) -> None:
        over, waiting = ended(store), pending(store)
        unknown = replace(waiting, id=NOBODY)
        answer = cancel(store, over, unknown, waiting)
        assert answer == {waiting.id: Cancelled.CANCELLED}
        assert store.get_instance(over.id) == over
        assert cancel(store, waiting) == {}

    def test_a_cancelled_fire_time_is_not_made_again(self, store: Store) -> None:
        instance = pending(store)
        cancel(store, instance)
        new = replace(instance.definition, trigger=WAITING, next_fire_time=START)
        assert ids(fire(store, put(store, new))) == [instance.id]

    def test_cancelling_nothing_answers_nothing(self, store: Store) -> None:
        assert store.cancel_instances({}) == {}
