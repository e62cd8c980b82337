"""Store suite: claims lapse, and others take them over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Outcome, State
from go_scheduler.stores.messages import Renewal
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    TICK,
    claim,
    claim_of,
    claimed,
    definition,
    finish,
    ids,
    passed_on,
    pending,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class LapsedTests:
    """``claim_instances``, where a claim has lapsed."""

    def test_a_lapsed_claim_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        clock.advance(LEASE)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        now = START + LEASE
        assert second == replace(
            first,
            claimed_by=OTHER_NODE,
            attempt=2,
            runs=2,
            started_at=now,
            expires_at=now + LEASE,
        )
        assert store.get_instance(first.id) == second

    def test_a_claim_has_not_lapsed_before_it_expires(
        self, store: Store, clock: ManualClock
    ) -> None:
        running(store)
        clock.advance(LEASE - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []

    def test_a_lapsed_claim_is_left_alone_unless_asked_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        running(store)
        clock.advance(HOUR)
        assert claim(store, OTHER_NODE, ahead=HOUR, lapsed=False) == []

    def test_a_lapsed_claim_that_never_started_is_started(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = claimed(store, definition(START + SECOND))
        clock.advance(SECOND + LEASE)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert second.id == first.id
        assert (second.attempt, second.runs) == (2, 1)
        assert second.started_at == START + SECOND + LEASE

    def test_a_claim_that_lapsed_before_it_was_due_is_not_started_early(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = claimed(store, definition(START + HOUR))
        store.renew_claims([Renewal(claim=claim_of(first), lease=SECOND)])
        clock.advance(SECOND)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert second == replace(
            first, claimed_by=OTHER_NODE, attempt=2, expires_at=START + HOUR + LEASE
        )
        assert second.state is State.CLAIMED

    def test_a_node_may_take_over_its_own_lapsed_claim(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        clock.advance(LEASE)
        [second] = claim(store, lapsed=True)
        assert (second.id, second.attempt) == (first.id, 2)

    def test_a_run_that_hangs_lapses_after_expire_after(
        self, store: Store, clock: ManualClock
    ) -> None:
        running(store, definition(expire_after=SECOND))
        clock.advance(SECOND)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert second.expires_at == START + 2 * SECOND

    def test_lapsed_claims_come_first(self, store: Store, clock: ManualClock) -> None:
        late = running(store)
        clock.advance(LEASE)
        earlier = pending(store, definition(START - HOUR))
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [late.id, earlier.id]

    def test_lapsed_claims_count_towards_the_limit(
        self, store: Store, clock: ManualClock
    ) -> None:
        late = running(store)
        clock.advance(LEASE)
        other = pending(store)
        assert ids(claim(store, OTHER_NODE, limit=1, lapsed=True)) == [late.id]
        assert ids(claim(store, OTHER_NODE, limit=1, lapsed=True)) == [other.id]

    def test_a_lapsed_claim_in_another_queue_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        running(store)
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, queues=["other"], lapsed=True) == []

    def test_a_renewed_claim_lapses_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(LEASE - TICK)
        renew(store, instance)
        clock.advance(LEASE - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [instance.id]

    def test_a_lapsed_claim_that_nobody_took_is_still_its_owners(
        self, store: Store, clock: ManualClock
    ) -> None:
        held, run = claimed(store), running(store)
        clock.advance(HOUR)
        assert ids(start(store, held)) == [held.id]
        assert renew(store, run) == {run.id: False}
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(HOUR)
        assert finish(store, run)
        assert release(store, held)

    def test_the_owner_before_cannot_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = claimed(store)
        clock.advance(HOUR)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert start(store, first) == []
        assert store.get_instance(first.id) == second

    def test_the_owner_before_cannot_renew(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        clock.advance(SECOND)
        assert renew(store, first) == {}
        assert store.get_instance(first.id) == second

    @pytest.mark.parametrize(
        "outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.SKIPPED, None]
    )
    def test_the_owner_before_cannot_fail(
        self, store: Store, clock: ManualClock, outcome: Outcome | None
    ) -> None:
        first, second = passed_on(store, clock)
        assert not finish(store, first, outcome, error="late", hung=True)
        assert store.get_instance(first.id) == second

    def test_the_owner_before_cannot_release(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert not release(store, first, MINUTE)
        assert store.get_instance(first.id) == second

    def test_the_owner_before_cannot_fail_what_the_next_one_gave_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert release(store, second)
        assert not finish(store, first, Outcome.FAILED)
        assert not finish(store, first, None)
        assert store.get_instance(first.id).state is State.PENDING
