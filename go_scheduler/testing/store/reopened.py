"""Store suite: instances that have failed are made to run again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    OTHER_NODE,
    SECOND,
    WAITING,
    at_once,
    claim,
    claim_of,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    pending,
    put,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add
from go_scheduler.testing.store.slots import excluding, fired, go, is_parked, settled

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
