"""Store suite: claims are given back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, State
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    TICK,
    claim,
    claim_of,
    claimed,
    definition,
    ended,
    finish,
    ids,
    pending,
    release,
    running,
    stale_claim_of,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
