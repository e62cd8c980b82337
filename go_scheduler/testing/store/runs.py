"""Store suite: runs end, or are repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.stores.messages import Claim, RunOutcome
from go_scheduler.testing.builders import (
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    claim,
    claim_of,
    claimed,
    definition,
    finish,
    ids,
    pending,
    release,
    renew,
    running,
    stale_claim_of,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
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
