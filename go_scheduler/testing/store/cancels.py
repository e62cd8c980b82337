"""Store suite: instances are cancelled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.testing.builders import (
    HOUR,
    NOBODY,
    OTHER_NODE,
    SECOND,
    WAITING,
    cancel,
    claim,
    claimed,
    ended,
    finish,
    fire,
    ids,
    pending,
    put,
    renew,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
