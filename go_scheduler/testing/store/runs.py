"""Store suite: runs end, are repeated, reopened, given back or cancelled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import (
    RUNS_KEPT,
    Cancelled,
    Outcome,
    RunEnd,
    Skipped,
    State,
    TaskRun,
)
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Claim, Release, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    at_once,
    cancel,
    claim,
    claim_of,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    hand_on,
    ids,
    passed_on,
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
from go_scheduler.testing.store.additions import add, finished
from go_scheduler.testing.store.slots import excluding, fired, go, is_parked, settled

if TYPE_CHECKING:
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


class SuccessTests:
    """``finish_instances``, where a run succeeds whose claim is not current."""

    def test_the_success_of_a_run_that_was_taken_over_ends_the_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        clock.advance(SECOND)
        assert finish(store, first)
        assert store.get_instance(first.id) == replace(
            second,
            outcome=Outcome.COMPLETED,
            completed_at=START + LEASE + SECOND,
            ended_attempt=1,
            started_at=START,
        )

    def test_the_run_begun_in_its_place_has_lost_its_claim(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert finish(store, first)
        before = store.get_instance(first.id)
        assert renew(store, second) == {}
        assert start(store, second) == []
        assert not release(store, second)
        assert not finish(store, second)
        assert not finish(store, second, Outcome.FAILED)
        assert not finish(store, second, None)
        assert claim(store, lapsed=True) == []
        assert store.get_instance(first.id) == before

    def test_a_success_ends_what_waits_for_a_retry(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        assert finish(store, first, None, hung=True, error="it hangs")
        assert finish(store, first)
        found = store.get_instance(first.id)
        assert (found.state, found.ended_attempt) == (State.COMPLETED, 1)
        assert (found.hangs, found.error) == (1, "it hangs")
        clock.advance(HOUR)
        assert claim(store, ahead=HOUR, lapsed=True) == []

    def test_a_success_ends_what_is_claimed_and_not_started(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        assert finish(store, first, None, retry_in=MINUTE)
        [second] = claim(store, OTHER_NODE, ahead=HOUR)
        assert finish(store, first)
        found = store.get_instance(first.id)
        assert (found.state, found.attempt, found.runs) == (State.COMPLETED, 2, 1)
        assert found.ended_attempt == 1
        assert start(store, second) == []
        clock.advance(HOUR)
        assert claim(store, lapsed=True) == []

    def test_a_success_ends_what_is_frozen(self, store: Store) -> None:
        first = waiting_for_retry(store)
        store.pause_definitions([first.definition.id])
        assert finish(store, first)
        store.resume_definitions([first.definition.id])
        assert claim(store) == []

    def test_a_success_makes_good_a_failure(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert finish(store, second, Outcome.FAILED, error="no")
        failed = store.get_instance(first.id)
        assert (failed.state, failed.ended_attempt) == (State.FAILED, 2)
        clock.advance(SECOND)
        assert finish(store, first)
        assert store.get_instance(first.id) == replace(
            failed,
            outcome=Outcome.COMPLETED,
            completed_at=START + LEASE + SECOND,
            ended_attempt=1,
            started_at=START,
        )
        assert store.counts()[State.FAILED] == 0
        assert store.counts()[State.COMPLETED] == 1

    def test_the_run_that_was_taken_for_failed_may_succeed_itself(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, hung=True)
        assert finish(store, instance)
        assert store.get_instance(instance.id).state is State.COMPLETED

    def test_the_first_of_several_successes_wins(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        clock.advance(LEASE)
        [third] = claim(store, lapsed=True)
        assert finish(store, second)
        assert not finish(store, first)
        assert not finish(store, third)
        assert not finish(store, second)
        assert store.get_instance(first.id).ended_attempt == 2

    @pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.SKIPPED])
    def test_what_has_ended_otherwise_takes_no_success(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        first, second = passed_on(store, clock)
        assert finish(store, second, outcome)
        before = store.get_instance(first.id)
        assert not finish(store, first)
        assert store.get_instance(first.id) == before

    def test_what_was_cancelled_while_it_waited_takes_no_success(
        self, store: Store
    ) -> None:
        first = waiting_for_retry(store)
        cancel(store, first)
        assert not finish(store, first)
        assert store.get_instance(first.id).ended_attempt is None

    def test_a_deleted_definition_takes_no_success(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        store.delete_definitions([first.definition.id])
        assert not finish(store, first)
        assert not finish(store, second)
        assert store.get_instance(first.id).state is State.CANCELLED

    def test_no_later_attempt_than_there_was_succeeds(
        self, store: Store, clock: ManualClock
    ) -> None:
        _, second = passed_on(store, clock)
        assert not finish(store, replace(second, attempt=3))
        assert store.get_instance(second.id) == second

    def test_two_runs_succeed_at_once_and_one_is_recorded(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        answers = at_once(
            partial(finished, store, first), partial(finished, store, second)
        )
        assert sorted(map(bool, answers)) == [False, True]
        winner = 1 if answers[0] else 2
        assert store.get_instance(first.id).ended_attempt == winner

    def test_a_failure_and_a_success_at_once_end_in_the_success(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        succeeded, _ = at_once(
            partial(finished, store, first),
            partial(finished, store, second, Outcome.FAILED),
        )
        assert succeeded
        assert store.get_instance(first.id).state is State.COMPLETED

    def test_a_success_moves_a_definition_on_that_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, _ = self.waiting(store, clock)
        assert finish(store, first, next_fire_time=START + HOUR)
        found = store.get_definition(first.definition.id)
        assert (found.next_fire_time, found.completed_at) == (START + HOUR, None)

    def test_a_success_leaves_the_next_fire_time_that_a_failure_has_set(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = self.waiting(store, clock)
        assert finish(store, second, Outcome.FAILED, next_fire_time=START + MINUTE)
        assert finish(store, first, next_fire_time=START + HOUR)
        found = store.get_definition(first.definition.id)
        assert found.next_fire_time == START + MINUTE

    def test_the_success_of_what_failed_moves_nothing_on_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = self.waiting(store, clock)
        assert finish(store, second, Outcome.FAILED, next_fire_time=START + MINUTE)
        fire(store, store.get_definition(first.definition.id))
        assert finish(store, first, next_fire_time=START + HOUR)
        found = store.get_definition(first.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)

    def test_what_has_succeeded_late_is_cleaned_up_from_then_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert finish(store, second, Outcome.FAILED)
        put(store, first.definition)
        clock.advance(HOUR)
        assert finish(store, first)
        assert clean_up(store, older_than=MINUTE, limit=10) == 0
        clock.advance(MINUTE)
        assert clean_up(store, older_than=MINUTE, limit=1) == 1
        assert store.list_instances() == []

    @staticmethod
    def waiting(store: Store, clock: ManualClock) -> tuple[TaskInstance, TaskInstance]:
        """As ``passed_on``, of a definition whose trigger waits."""
        pending(store, definition(trigger=WAITING))
        [first] = claim(store, NODE)
        clock.advance(LEASE)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        return first, second


def failed(store: Store, new: TaskDefinition | None = None) -> TaskInstance:
    """A new definition's one instance, which has failed, as the loops say it."""
    instance = running(store, new)
    assert finish(store, instance, Outcome.FAILED, error="no paper")
    return store.get_instance(instance.id)


def reopen(store: Store, *given: TaskInstance) -> set[object]:
    """Let instances run again, and tell which do."""
    return set(store.reopen_instances([each.id for each in given]))


def waiting_and_failed(store: Store) -> TaskInstance:
    """One that has failed, of a definition that waits and fires in an hour again."""
    instance = running(store, definition(trigger=WAITING))
    at = START + HOUR
    assert finish(store, instance, Outcome.FAILED, error="no", next_fire_time=at)
    return store.get_instance(instance.id)


class ReopenTests:
    """``reopen_instances``."""

    def test_what_has_failed_is_pending_again_as_if_it_had_never_run(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = waiting_for_retry(store)
        [again] = claim(store)
        assert finish(store, again, Outcome.FAILED, hung=True, error="no end")
        clock.advance(MINUTE)
        assert reopen(store, first) == {first.id}
        assert store.get_instance(first.id) == replace(
            first,
            definition=store.get_definition(first.definition.id),
            due_at=START + MINUTE,
            reopened_at=START + MINUTE,
            attempt=2,
            runs=0,
            hangs=0,
            claimed_by=None,
            expires_at=None,
            started_at=None,
            error="no end",
        )
        assert len(store.list_runs(first.id)) == 2

    def test_it_is_claimed_as_the_next_attempt_and_ends_like_any(
        self, store: Store
    ) -> None:
        instance = failed(store)
        reopen(store, instance)
        assert store.counts()[State.PENDING] == 1
        [again] = claim(store, OTHER_NODE)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 1)
        assert finish(store, again)
        assert store.get_instance(again.id).outcome is Outcome.COMPLETED
        assert reopen(store, again) == set()

    def test_whoever_claims_it_sees_when_it_was_reopened_at_each_of_its_runs(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = failed(store)
        assert instance.reopened_at is None
        clock.advance(MINUTE)
        reopen(store, instance)
        [again] = claim(store)
        assert again.reopened_at == START + MINUTE
        assert finish(store, again, None, error="no ink", retry_in=SECOND)
        clock.advance(SECOND)
        [again] = start(store, *claim(store, ahead=MINUTE))
        assert (again.runs, again.reopened_at) == (2, START + MINUTE)
        assert finish(store, again, Outcome.FAILED, error="no ink")
        assert reopen(store, again) == {again.id}
        found = store.get_instance(again.id)
        assert found.reopened_at == START + MINUTE + SECOND

    @pytest.mark.parametrize(
        "outcome", [Outcome.COMPLETED, Outcome.CANCELLED, Outcome.SKIPPED]
    )
    def test_what_has_ended_otherwise_stays_as_it_is(
        self, store: Store, outcome: Outcome
    ) -> None:
        instance = ended(store, outcome=outcome)
        assert reopen(store, instance) == set()
        assert store.get_instance(instance.id) == instance

    def test_what_has_not_ended_stays_as_it_is(self, store: Store) -> None:
        open = [waiting_for_retry(store, retry_in=HOUR), pending(store)]
        assert reopen(store, *open) == set()
        assert [store.get_instance(each.id) for each in open] == open

    def test_of_many_those_that_have_failed_run_again(self, store: Store) -> None:
        one, other, good = failed(store), failed(store), ended(store)
        unknown = replace(good, id=uuid4())
        assert reopen(store, one, other, good, unknown) == {one.id, other.id}
        assert reopen(store) == set()

    def test_a_definition_that_is_gone_runs_nothing_again(self, store: Store) -> None:
        instance = failed(store)
        store.delete_definitions([instance.definition.id])
        assert reopen(store, instance) == set()
        put(store, replace(instance.definition, revision=None))
        assert reopen(store, instance) == set()
        assert store.get_instance(instance.id).state is State.FAILED

    def test_a_paused_definition_keeps_it_until_it_is_resumed(
        self, store: Store
    ) -> None:
        instance = failed(store)
        store.pause_definitions([instance.definition.id])
        assert reopen(store, instance) == {instance.id}
        assert list(claim(store)) == []
        store.resume_definitions([instance.definition.id])
        [again] = claim(store)
        assert again.id == instance.id

    def test_it_follows_its_definition_as_it_is_now(self, store: Store) -> None:
        instance = failed(store)
        of = store.get_definition(instance.definition.id)
        put(store, replace(of, queue="other", priority=3, expire_after=SECOND))
        reopen(store, instance)
        assert list(claim(store)) == []
        other = pending(store, definition(START + SECOND, queue="other"))
        [first] = claim(store, queues=["other"], ahead=SECOND, limit=1)
        [again] = claim(store, queues=["other"])
        assert (first.id, again.id) == (other.id, instance.id)
        assert again.expires_at == START + SECOND

    @pytest.mark.parametrize("error", ["no paper", None])
    def test_neither_an_edit_nor_a_pause_serves_its_fire_time_anew(
        self, store: Store, error: str | None
    ) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, error=error)
        reopen(store, instance)
        [paused] = store.pause_definitions([instance.definition.id])
        assert paused.next_fire_time is None
        put(store, replace(paused, trigger=definition(START + HOUR).trigger))
        assert store.get_instance(instance.id).state is State.PENDING

    def test_a_definition_that_waits_does_so_until_it_has_ended(
        self, store: Store
    ) -> None:
        instance = waiting_and_failed(store)
        of = instance.definition.id
        assert store.get_definition(of).next_fire_time == START + HOUR
        assert reopen(store, instance) == {instance.id}
        assert store.get_definition(of).next_fire_time is None
        [again] = claim(store)
        assert finish(store, again, next_fire_time=START + 2 * HOUR)
        assert store.get_definition(of).next_fire_time == START + 2 * HOUR

    def test_one_that_waited_and_was_completed_is_so_again_when_it_ends(
        self, store: Store
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        assert finish(store, instance, Outcome.FAILED, error="no")
        of = instance.definition.id
        assert store.get_definition(of).completed_at == START
        reopen(store, instance)
        assert store.get_definition(of).completed_at is None
        [again] = claim(store)
        assert finish(store, again)
        assert store.get_definition(of).completed_at == START

    def test_a_definition_that_waits_never_has_two_open_instances(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = waiting_and_failed(store)
        clock.advance(HOUR)
        fire(store, store.get_definition(first.definition.id))
        assert reopen(store, first) == set()
        [second] = claim(store)
        at = START + 2 * HOUR
        assert finish(store, second, Outcome.FAILED, error="no", next_fire_time=at)
        # Of two the later one, and never both.
        assert reopen(store, first, second) == {second.id}
        assert reopen(store, first) == set()

    def test_one_that_was_made_by_hand_keeps_no_trigger_waiting(
        self, store: Store
    ) -> None:
        of = put(store, definition(trigger=WAITING))
        add(store, of)
        [by_hand] = claim(store)
        assert finish(store, by_hand, Outcome.FAILED, error="no")
        assert reopen(store, by_hand) == {by_hand.id}
        assert store.fire_definitions([firing(of)]).done == {of.id}
        again, fired = sorted(claim(store), key=lambda each: each.fire_time is not None)
        assert finish(store, fired, next_fire_time=START + HOUR)
        assert finish(store, again)
        stored = store.get_definition(of.id)
        assert store.fire_definitions([firing(stored)]).done == {of.id}

    def test_a_fire_that_was_read_before_does_not_win_any_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = waiting_and_failed(store)
        read = store.get_definition(instance.definition.id)
        clock.advance(HOUR)
        reopen(store, instance)
        assert store.fire_definitions([firing(read)]).done == set()

    def test_a_late_success_of_a_former_run_still_counts(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, error="no")
        reopen(store, instance)
        assert finish(store, instance)
        assert store.get_instance(instance.id).state is State.COMPLETED
        assert list(claim(store)) == []

    def test_a_former_claim_is_lost(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, error="no")
        reopen(store, instance)
        assert not finish(store, instance, None)
        assert store.renew_claims([]).done == {}
        assert claim_of(instance).attempt == 1

    def test_what_runs_again_is_not_cleaned_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = failed(store)
        reopen(store, instance)
        clock.advance(HOUR)
        assert clean_up(store) == 0
        assert store.get_instance(instance.id).state is State.PENDING

    def test_of_two_that_ask_at_once_one_is_told_that_it_runs_again(
        self, store: Store
    ) -> None:
        instance = failed(store)
        found = at_once(*[partial(reopen, store, instance)] * 2)
        assert sorted(len(each) for each in found) == [0, 1]  # type: ignore[arg-type]

    def test_what_runs_again_waits_for_its_slot_and_is_not_skipped(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, _ = fired(store, excluding(Overlap.SKIP), START, START + SECOND)
        [runs] = go(store)
        assert runs.id == first.id
        assert finish(store, runs, Outcome.FAILED, error="no paper")
        settled(store)
        [second] = go(store)
        assert reopen(store, first) == {first.id}
        assert list(go(store)) == []
        assert is_parked(store, first)
        clock.advance(MINUTE)
        assert settled(store).skipped == []
        assert finish(store, second)
        settled(store)
        [again] = go(store)
        assert again.id == first.id

    def test_the_trigger_that_waits_has_no_need_of_a_slot(self, store: Store) -> None:
        of = excluding(Overlap.SKIP, trigger=WAITING)
        [instance] = fired(store, of, START)
        [runs] = go(store)
        at = START + HOUR
        assert finish(store, runs, Outcome.FAILED, error="no", next_fire_time=at)
        assert reopen(store, instance) == {instance.id}
        [again] = claim(store)
        assert again.started_at == START


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

    def test_why_it_was_given_back_stands_there_until_it_is_claimed(
        self, store: Store
    ) -> None:
        instance = running(store)
        why = Release(claim=claim_of(instance), reason="no fuel, 'ÿ'")
        assert store.release_instances([why]).done == {instance.id}
        assert store.get_instance(instance.id).given_back == why.reason
        assert [each.given_back for each in store.list_instances()] == [why.reason]
        [again] = claim(store)
        assert again.given_back is None
        assert store.get_instance(instance.id).given_back is None
        assert finish(store, again, None, error="no")
        assert store.get_instance(instance.id).given_back is None

    def test_the_reason_is_that_of_the_last_time(self, store: Store) -> None:
        instance = claimed(store)
        reasons = "no fuel", None
        for each in reasons:
            given_back = Release(claim=claim_of(instance), reason=each)
            assert store.release_instances([given_back]).done == {instance.id}
            assert store.get_instance(instance.id).given_back == each
            [instance] = claim(store, ahead=HOUR)

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


def ends(store: Store, instance: TaskInstance) -> list[tuple[int, RunEnd]]:
    """Of each run that is kept its attempt, and how it ended."""
    return [(run.attempt, run.outcome) for run in store.list_runs(instance.id)]


def fail_again(store: Store, instance: TaskInstance, times: int) -> TaskInstance:
    """Let an instance that is running fail so often, and run again."""
    for _ in range(times):
        assert finish(store, instance, None, error=f"attempt {instance.attempt}")
        [instance] = claim(store)
    return instance


class HistoryTests:
    """``list_runs``, and what ``finish_instances`` and ``claim_instances`` keep."""

    def test_a_run_that_failed_is_kept_as_it_was(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert finish(store, instance, None, retry_in=HOUR, error="no paper")
        assert list(store.list_runs(instance.id)) == [
            TaskRun(
                instance_id=instance.id,
                attempt=1,
                node=NODE,
                started_at=START,
                ended_at=START + SECOND,
                outcome=RunEnd.FAILED,
                error="no paper",
            )
        ]

    @pytest.mark.parametrize(
        ("outcome", "hung", "end"),
        [
            (None, False, RunEnd.FAILED),
            (Outcome.FAILED, False, RunEnd.FAILED),
            (Outcome.CANCELLED, False, RunEnd.CANCELLED),
            (None, True, RunEnd.HUNG),
            (Outcome.FAILED, True, RunEnd.HUNG),
            (Outcome.CANCELLED, True, RunEnd.HUNG),
        ],
    )
    def test_it_is_kept_how_a_run_ended(
        self, store: Store, outcome: Outcome | None, hung: bool, end: RunEnd
    ) -> None:
        instance = running(store)
        assert finish(store, instance, outcome, hung=hung)
        assert ends(store, instance) == [(1, end)]

    def test_of_what_succeeds_nothing_is_kept_but_what_failed_before(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance)
        assert ends(store, instance) == []
        again = fail_again(store, running(store), 2)
        assert finish(store, again)
        assert ends(store, again) == [(1, RunEnd.FAILED), (2, RunEnd.FAILED)]

    def test_what_was_not_called_is_no_run(self, store: Store) -> None:
        instance = replace(claimed(store), started_at=None)
        assert finish(store, instance, Outcome.FAILED)
        assert ends(store, instance) == []

    def test_of_runs_that_end_together_those_are_kept_that_failed(
        self, store: Store
    ) -> None:
        good, bad = running(store), running(store)
        store.finish_instances(
            [
                RunOutcome(
                    claim=claim_of(each), started_at=each.started_at, outcome=outcome
                )
                for each, outcome in ((good, Outcome.COMPLETED), (bad, None))
            ]
        )
        assert ends(store, good) == []
        assert ends(store, bad) == [(1, RunEnd.FAILED)]

    def test_what_shows_a_lost_claim_is_not_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert not finish(store, first, None, error="late")
        assert [run.error for run in store.list_runs(second.id)] == [None]

    def test_a_run_whose_claim_was_taken_over_is_kept_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        [lost] = store.list_runs(first.id)
        assert (lost.attempt, lost.node, lost.outcome) == (1, NODE, RunEnd.LOST)
        assert (lost.started_at, lost.ended_at) == (START, START + LEASE)
        assert finish(store, second, None)
        assert [run.node for run in store.list_runs(first.id)] == [NODE, OTHER_NODE]

    def test_a_claim_that_lapsed_before_its_start_was_no_run(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        clock.advance(2 * LEASE)
        [again] = claim(store, OTHER_NODE, lapsed=True)
        assert again.id == instance.id
        assert ends(store, again) == []

    def test_what_was_handed_on_and_lapsed_is_lost_as_well(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        hand_on(store, instance, lease=HOUR)
        clock.advance(HOUR)
        claim(store, lapsed=True)
        assert ends(store, instance) == [(1, RunEnd.LOST)]

    def test_the_last_runs_are_kept(self, store: Store) -> None:
        instance = fail_again(store, running(store), RUNS_KEPT + 2)
        kept = store.list_runs(instance.id)
        assert [run.attempt for run in kept] == list(range(3, RUNS_KEPT + 3))
        assert kept[0].error == "attempt 3"

    def test_a_late_success_leaves_what_was_kept(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, hung=True)
        assert finish(store, instance)
        assert ends(store, instance) == [(1, RunEnd.HUNG)]

    def test_of_an_instance_that_is_not_there_nothing_is_kept(
        self, store: Store
    ) -> None:
        assert list(store.list_runs(uuid4())) == []

    @pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
    def test_runs_go_with_their_instance(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        gone = fail_again(store, running(store), 1)
        assert finish(store, gone, outcome)
        clock.advance(HOUR)
        kept = fail_again(store, running(store), 1)
        assert finish(store, kept, outcome)
        clean_up(store, older_than=SECOND)
        assert ends(store, gone) == []
        assert len(ends(store, kept)) >= 1

    def test_a_cancelled_run_goes_with_its_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.CANCELLED)
        clock.advance(HOUR)
        clean_up(store, older_than=SECOND)
        assert ends(store, instance) == []

    def test_runs_of_what_waits_go_with_a_deleted_definition(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store, retry_in=HOUR)
        store.delete_definitions([instance.definition.id])
        assert ends(store, instance) == []

    def test_runs_of_what_ran_outlive_a_deleted_definition_with_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = fail_again(store, running(store), 1)
        store.delete_definitions([instance.definition.id])
        assert ends(store, instance) == [(1, RunEnd.FAILED)]
        clock.advance(HOUR)
        clean_up(store, older_than=SECOND)
        assert ends(store, instance) == []


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
        assert found.state is State.CANCELLING
        assert store.list_instances(state=State.CANCELLING) == [found]
        assert store.list_instances(state=State.RUNNING) == []
        counts = store.counts()
        assert (counts[State.CANCELLING], counts[State.RUNNING]) == (1, 0)

    def test_what_was_asked_to_stop_stands_where_its_claim_does(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        cancel(store, instance)
        later = Release(claim=Claim.of(instance), delay=SECOND)
        assert store.release_instances([later]).done == {instance.id}
        assert store.get_instance(instance.id).state is State.PENDING
        [again] = claim(store, ahead=SECOND)
        assert (again.state, again.cancel_requested) == (State.CLAIMED, True)
        assert ids(start(store, again)) == [again.id]
        assert store.get_instance(again.id).state is State.CANCELLING
        clock.advance(HOUR)
        [lapsed] = claim(store, OTHER_NODE, lapsed=True)
        assert lapsed.state is State.CANCELLING
        assert store.counts()[State.CANCELLING] == 1
        assert finish(store, lapsed, Outcome.CANCELLED)
        assert store.counts() == {**dict.fromkeys(State, 0), State.CANCELLED: 1}

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

    def test_all_that_are_cancelled_together_are_answered(self, store: Store) -> None:
        found = pending(store), pending(store)
        assert cancel(store, *found) == {each.id: Cancelled.CANCELLED for each in found}
        assert claim(store) == []

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
