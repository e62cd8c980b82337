"""Store suite: an instance is handed to one node, and to the next if that one dies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome, State
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    claim,
    claimant,
    claimed,
    definition,
    ended,
    fire,
    ids,
    pending,
    put,
    release,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def claim_for(
    store: Store,
    *,
    lease: timedelta = LEASE,
    expire_after: timedelta = EXPIRE_AFTER,
    ahead: timedelta = ZERO,
) -> Sequence[TaskInstance]:
    """Claim for a node with a lease and an ``expire_after`` of its own."""
    node = claimant(lease=lease, expire_after=expire_after)
    settle(store)
    return store.claim_instances(node, ahead=ahead, lead=ZERO, limit=100, lapsed=None)


def claim_all(
    store: Store, *, limit: int, queues: Iterable[str] = ("default",)
) -> Sequence[Sequence[TaskInstance]]:
    """Claim again and again, until nothing comes."""
    pages = []
    while page := claim(store, queues=queues, ahead=HOUR, limit=limit):
        pages.append(page)
    return pages


def assert_each_once(store: Store, pages: Sequence[Sequence[TaskInstance]]) -> None:
    """All that is stored has been claimed, and nothing a second time."""
    claimed = [each.id for page in pages for each in page]
    assert sorted(claimed) == sorted(ids(store.list_instances()))


class ClaimTests:
    """``claim_instances``, where nobody has claimed the instance."""

    def test_an_instance_is_claimed_when_due_within_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = pending(store, definition(START + MINUTE))
        assert claim(store, ahead=MINUTE - TICK) == []
        clock.advance(TICK)
        assert ids(claim(store, ahead=MINUTE - TICK)) == [instance.id]

    def test_without_ahead_an_instance_is_claimed_when_it_is_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = pending(store, definition(START + MINUTE))
        clock.advance(MINUTE - TICK)
        assert claim(store) == []
        clock.advance(TICK)
        assert ids(claim(store)) == [instance.id]

    def test_an_instance_long_overdue_is_claimed(self, store: Store) -> None:
        instance = pending(store, definition(START - 1000 * HOUR))
        assert ids(claim(store)) == [instance.id]

    def test_a_claim_ahead_holds_for_a_lease_past_the_due_time(
        self, store: Store
    ) -> None:
        given = pending(store, definition(START + MINUTE))
        [instance] = claim(store, ahead=HOUR)
        assert instance == replace(
            given, claimed_by=NODE, attempt=1, expires_at=START + MINUTE + LEASE
        )
        assert instance.state is State.CLAIMED
        assert store.get_instance(instance.id) == instance

    def test_a_claim_of_what_is_due_is_started(self, store: Store) -> None:
        given = pending(store, definition(START - MINUTE))
        [instance] = claim(store)
        assert instance == replace(
            given,
            claimed_by=NODE,
            attempt=1,
            runs=1,
            started_at=START,
            expires_at=START + LEASE,
        )
        assert instance.state is State.RUNNING
        assert store.get_instance(instance.id) == instance

    def test_a_claimed_instance_is_not_claimed_again(self, store: Store) -> None:
        claimed(store)
        assert claim(store, OTHER_NODE, ahead=HOUR, lapsed=True) == []
        assert claim(store, ahead=HOUR, lapsed=True) == []

    def test_a_running_instance_is_not_claimed_again(self, store: Store) -> None:
        running(store)
        assert claim(store, OTHER_NODE, ahead=HOUR, lapsed=True) == []
        assert claim(store, ahead=HOUR, lapsed=True) == []

    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_an_instance_that_has_ended_is_not_claimed(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        ended(store, outcome=outcome)
        clock.advance(HOUR)
        assert claim(store, ahead=HOUR, lapsed=True) == []

    def test_a_node_gets_what_is_in_its_queues(self, store: Store) -> None:
        for number, queue in enumerate(["a", "b", "c", "A"]):
            pending(store, definition(START + number * TICK, queue=queue))
        given = claim(store, queues=["c", "a"], ahead=SECOND)
        assert [each.definition.queue for each in given] == ["a", "c"]

    def test_a_node_without_queues_gets_nothing(self, store: Store) -> None:
        pending(store)
        assert claim(store, queues=[], ahead=HOUR, lapsed=True) == []

    def test_the_earliest_due_come_first(self, store: Store) -> None:
        for number in (3, 1, 2):
            queue = "even" if number % 2 == 0 else "odd"
            pending(store, definition(START + number * SECOND, queue=queue))
        given = claim(store, queues=["even", "odd"], ahead=HOUR)
        due = [START + number * SECOND for number in (1, 2, 3)]
        assert [each.due_at for each in given] == due

    def test_at_most_limit_are_claimed_at_a_time_and_all_in_the_end(
        self, store: Store
    ) -> None:
        fire(store, put(store), *(START + n * SECOND for n in range(20)))
        pages = claim_all(store, limit=3)
        assert all(len(page) <= 3 for page in pages)
        assert_each_once(store, pages)

    def test_what_is_claimed_of_more_is_in_order(self, store: Store) -> None:
        fire(store, put(store), *(START - n * SECOND for n in range(20)))
        for page in claim_all(store, limit=7):
            due = [each.due_at for each in page]
            assert due == sorted(due)

    def test_what_is_new_is_not_behind_what_was_claimed_ahead(
        self, store: Store
    ) -> None:
        read = put(store)
        fire(store, read, *(START + n * SECOND for n in range(1, 4)))
        assert len(claim(store, ahead=HOUR, limit=2)) == 2
        new = pending(store, definition(START))
        assert new.id in ids(claim(store, ahead=HOUR, limit=10))

    def test_what_is_due_since_a_full_claim_ahead_is_in_the_next_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        fire(store, read, *(START + n * MINUTE for n in range(1, 4)))
        assert len(claim(store, ahead=HOUR, limit=2)) == 2
        new = pending(store, definition(START))
        clock.advance(SECOND)
        assert new.id in ids(claim(store, ahead=HOUR, limit=10))

    def test_the_limit_spans_all_queues(self, store: Store) -> None:
        for queue in ("a", "b"):
            made = (START + n * TICK for n in range(4))
            fire(store, put(store, definition(queue=queue)), *made)
        pages = claim_all(store, queues=("a", "b"), limit=3)
        assert all(len(page) <= 3 for page in pages)
        assert_each_once(store, pages)

    def test_of_few_that_are_due_all_are_claimed_at_once(self, store: Store) -> None:
        made = fire(store, put(store), *(START + n * SECOND for n in range(5)))
        assert ids(claim(store, ahead=HOUR, limit=5)) == ids(made)

    def test_what_is_due_within_lead_is_also_started(self, store: Store) -> None:
        pending(store, definition(START + SECOND))
        [instance] = claim(store, ahead=HOUR, lead=SECOND)
        assert (instance.state, instance.runs) == (State.RUNNING, 1)
        assert instance.started_at == START + SECOND
        assert instance.expires_at == START + SECOND + LEASE

    def test_what_is_due_after_lead_is_not_started(self, store: Store) -> None:
        pending(store, definition(START + SECOND))
        [instance] = claim(store, ahead=HOUR, lead=SECOND - TICK)
        assert (instance.state, instance.runs) == (State.CLAIMED, 0)
        assert instance.started_at is None

    def test_lead_claims_nothing_beyond_ahead(self, store: Store) -> None:
        pending(store, definition(START + MINUTE))
        assert claim(store, ahead=SECOND, lead=HOUR) == []

    def test_a_start_with_the_claim_holds_no_longer_than_expire_after(
        self, store: Store
    ) -> None:
        pending(store, definition(expire_after=SECOND))
        [instance] = claim_for(store)
        assert instance.expires_at == START + SECOND

    def test_a_start_with_the_claim_takes_the_nodes_expire_after_by_default(
        self, store: Store
    ) -> None:
        pending(store)
        [instance] = claim_for(store, expire_after=SECOND)
        assert instance.expires_at == START + SECOND

    def test_a_claim_without_a_start_holds_for_the_whole_lease(
        self, store: Store
    ) -> None:
        pending(store, definition(START + MINUTE, expire_after=SECOND))
        [instance] = claim_for(store, expire_after=SECOND, ahead=HOUR)
        assert instance.expires_at == START + MINUTE + LEASE

    def test_each_claim_raises_the_attempt_by_one(self, store: Store) -> None:
        pending(store)
        for attempt in (1, 2, 3):
            [instance] = claim(store)
            assert instance.attempt == attempt
            assert release(store, instance)

    def test_a_claimed_instance_comes_with_its_definition(self, store: Store) -> None:
        new = put(store, definition(name="a", metadata={"b": [2]}))
        fire(store, new)
        [instance] = claim(store)
        assert instance.definition == new
        assert instance.definition.revision == 1

    def test_a_retry_is_claimed_when_it_is_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = waiting_for_retry(store, retry_in=MINUTE)
        clock.advance(MINUTE - TICK)
        assert claim(store) == []
        clock.advance(TICK)
        [again] = claim(store)
        assert again.id == instance.id
        assert (again.attempt, again.runs) == (2, 2)
        assert again.execute_at == START
        assert again.started_at == START + MINUTE
