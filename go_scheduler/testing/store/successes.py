"""Store suite: the first success of an instance wins, of whichever attempt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Outcome, State
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    WAITING,
    at_once,
    cancel,
    claim,
    clean_up,
    definition,
    finish,
    fire,
    passed_on,
    pending,
    put,
    release,
    renew,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.asked_again import finished

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
