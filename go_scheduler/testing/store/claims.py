"""Store suite: an instance is handed to one node, and to the next if that one dies.

A store need start nothing by the write that creates it: then all is claimed as ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Claim, Renewal
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
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
    claimant,
    claimed,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    hand_on,
    ids,
    instances,
    kept_by_store,
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
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import timedelta

    from go_scheduler.models import TaskDefinition, TaskInstance
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


_TURNS = 8


def waiting(
    store: Store, priority: int, count: int = _TURNS, *, queue: str = "default"
) -> TaskDefinition:
    """A definition of which so many are due, the earlier the greater its class."""
    new = replace(definition(START - HOUR, queue=queue), priority=priority)
    stored = put(store, new)
    first = START - (1 + priority) * MINUTE
    times = [first + number * (MINUTE / count) for number in range(count)]
    assert store.fire_definitions([firing(stored, *times)]).done
    return stored


def claimed_singly(
    store: Store, count: int = _TURNS, *, queues: Sequence[str] = ("default",)
) -> Counter[int]:
    """How many of each class come if they are claimed one by one."""
    claims = [claim(store, queues=queues, limit=1) for _ in range(count)]
    return Counter(each.definition.priority for [each] in claims)


class PriorityTests:
    """``claim_instances``, where instances are of several classes."""

    def test_of_what_is_due_a_smaller_class_comes_first_and_the_last_in_its_turn(
        self, store: Store
    ) -> None:
        waiting(store, 3)
        waiting(store, 0)
        taken = claimed_singly(store)
        assert taken[0] >= 6
        assert taken[3] >= 1

    def test_no_class_waits_for_ever(self, store: Store) -> None:
        for priority in (3, 1, 0):
            waiting(store, priority, _TURNS**2)
        assert set(claimed_singly(store, _TURNS**2)) == {0, 1, 3}

    def test_the_last_class_that_there_is_has_its_turn(self, store: Store) -> None:
        waiting(store, 1)
        waiting(store, 0)
        assert set(claimed_singly(store)) == {0, 1}

    def test_what_there_is_room_for_comes_whatever_its_class(
        self, store: Store
    ) -> None:
        given = [waiting(store, priority, 1) for priority in (1, 3, 0, 2)]
        found = claim(store)
        assert [each.definition.priority for each in found] == [3, 2, 1, 0]
        assert {each.definition.id for each in found} == {each.id for each in given}

    def test_a_smaller_class_comes_first_from_whichever_queue(
        self, store: Store
    ) -> None:
        waiting(store, 2)
        waiting(store, 0, queue="other")
        taken = claimed_singly(store, queues=["default", "other"])
        assert taken[0] >= 6

    def test_a_class_is_one_of_its_queue_alone(self, store: Store) -> None:
        waiting(store, 0, queue="other")
        given = waiting(store, 2, 1)
        [instance] = claim(store)
        assert instance.definition.id == given.id

    def test_what_has_lapsed_comes_before_all_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        last = running(store, replace(definition(), priority=3))
        clock.advance(LEASE)
        waiting(store, 0, 1)
        [taken] = claim(store, OTHER_NODE, lapsed=True, limit=1)
        assert taken.id == last.id

    def test_what_is_claimed_ahead_is_of_any_class(self, store: Store) -> None:
        first, last = (
            pending(store, replace(definition(START + MINUTE), priority=priority))
            for priority in (0, 3)
        )
        assert sorted(ids(claim(store, ahead=HOUR))) == sorted([first.id, last.id])

    def test_an_edit_moves_what_is_open_into_its_new_class(self, store: Store) -> None:
        first, last = waiting(store, 0), waiting(store, 3)
        put(store, replace(first, priority=3, revision=None))
        put(store, replace(last, priority=0, revision=None))
        claims = [claim(store, limit=1) for _ in range(_TURNS)]
        taken = Counter(each.definition.id for [each] in claims)
        assert taken[last.id] >= 6

    def test_what_is_claimed_stays_so_when_its_class_changes(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, priority=0))
        [started] = start(store, instance)
        assert started.definition.priority == 0
        clock.advance(HOUR)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert taken.id == instance.id

    def test_what_runs_waits_for_its_next_run_in_its_new_class(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        put(store, replace(instance.definition, priority=2))
        clock.advance(HOUR)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert (taken.id, taken.definition.priority) == (instance.id, 2)


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


class StartTests:
    """``start_instances``."""

    def test_a_start_ahead_of_time_begins_at_the_due_time(self, store: Store) -> None:
        given = claimed(store, definition(START + SECOND))
        [instance] = start(store, given)
        assert instance == replace(
            given, runs=1, started_at=START + SECOND, expires_at=START + SECOND + LEASE
        )
        assert instance.state is State.RUNNING
        assert store.get_instance(given.id) == instance

    def test_a_late_start_begins_now(self, store: Store, clock: ManualClock) -> None:
        given = claimed(store, definition(START + SECOND))
        clock.advance(MINUTE)
        [instance] = start(store, given)
        assert instance.started_at == START + MINUTE
        assert instance.expires_at == START + MINUTE + LEASE

    def test_a_start_of_a_retry_begins_when_it_is_due(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=MINUTE)
        [given] = claim(store, ahead=HOUR)
        [instance] = start(store, given)
        assert (instance.runs, instance.attempt) == (2, 2)
        assert instance.started_at == START + MINUTE
        assert instance.expires_at == START + MINUTE + LEASE
        assert instance.execute_at == START

    def test_a_start_holds_no_longer_than_the_definitions_expire_after(
        self, store: Store
    ) -> None:
        given = claimed(store, definition(START + SECOND, expire_after=MINUTE))
        node = claimant(lease=HOUR, expire_after=TICK)
        [instance] = store.start_instances(node, [claim_of(given)]).done
        assert instance.expires_at == START + SECOND + MINUTE

    def test_a_start_takes_the_nodes_expire_after_by_default(
        self, store: Store
    ) -> None:
        given = claimed(store, definition(START + SECOND))
        node = claimant(lease=HOUR, expire_after=MINUTE)
        [instance] = store.start_instances(node, [claim_of(given)]).done
        assert instance.expires_at == START + SECOND + MINUTE

    def test_a_start_holds_no_longer_than_the_lease(self, store: Store) -> None:
        given = claimed(store, definition(START + SECOND, expire_after=HOUR))
        node = claimant(lease=MINUTE, expire_after=HOUR)
        [instance] = store.start_instances(node, [claim_of(given)]).done
        assert instance.expires_at == START + SECOND + MINUTE

    def test_a_second_start_is_answered_alike_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        [first] = start(store, claimed(store))
        clock.advance(MINUTE)
        [second] = start(store, first)
        assert second == first
        assert store.get_instance(first.id) == first

    def test_what_was_started_with_its_claim_is_answered_alike(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        clock.advance(SECOND)
        [second] = start(store, first)
        assert second == first
        assert store.get_instance(first.id) == first

    def test_only_what_is_owned_is_answered(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost = claimed(store)
        clock.advance(HOUR)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        mine = claimed(store, definition(START + 2 * HOUR))
        unknown = replace(mine, id=NOBODY)
        assert ids(start(store, lost, unknown, mine)) == [mine.id]
        assert store.get_instance(lost.id) == taken

    def test_an_attempt_that_was_never_claimed_starts_nothing(
        self, store: Store
    ) -> None:
        given = pending(store, definition(START + MINUTE))
        assert start(store, given) == []
        assert start(store, replace(given, attempt=1)) == []
        assert store.get_instance(given.id) == given

    def test_a_cancelled_instance_does_not_start(self, store: Store) -> None:
        given = claimed(store)
        cancel(store, given)
        assert start(store, given) == []
        assert store.get_instance(given.id).state is State.CANCELLED

    def test_an_instance_given_back_does_not_start(self, store: Store) -> None:
        given = claimed(store)
        release(store, given)
        assert start(store, given) == []
        assert store.get_instance(given.id).runs == 0

    def test_the_answer_names_the_owner_whoever_starts_it(self, store: Store) -> None:
        given = claimed(store)
        [instance] = store.start_instances(claimant(OTHER_NODE), [claim_of(given)]).done
        assert instance.claimed_by == given.claimed_by
        assert store.get_instance(given.id) == instance

    def test_starting_nothing_starts_nothing(self, store: Store) -> None:
        assert store.start_instances(claimant(), []).done == []


class RenewTests:
    """``renew_claims``."""

    def test_a_renewed_claim_holds_for_its_lease_from_now(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert renew(store, instance) == {instance.id: False}
        expires_at = START + SECOND + LEASE
        expected = replace(instance, expires_at=expires_at)
        assert store.get_instance(instance.id) == expected

    def test_each_claim_has_a_lease_of_its_own(self, store: Store) -> None:
        leases = [SECOND, MINUTE, HOUR]
        given = [running(store) for _ in leases]
        store.renew_claims(
            [
                Renewal(claim=claim_of(instance), lease=lease)
                for instance, lease in zip(given, leases, strict=True)
            ]
        )
        held = [store.get_instance(each.id).expires_at for each in given]
        assert held == [START + lease for lease in leases]

    def test_a_claim_that_has_not_started_may_be_renewed(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        clock.advance(MINUTE)
        assert renew(store, instance) == {instance.id: False}
        found = store.get_instance(instance.id)
        assert (found.state, found.expires_at) == (
            State.CLAIMED,
            START + MINUTE + LEASE,
        )

    def test_a_run_that_is_asked_to_stop_is_told(self, store: Store) -> None:
        asked, other = running(store), running(store)
        cancel(store, asked)
        assert renew(store, asked, other) == {asked.id: True, other.id: False}

    def test_lost_claims_are_not_answered(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost, _ = passed_on(store, clock)
        over, mine = ended(store), running(store)
        unknown = replace(mine, id=NOBODY)
        assert renew(store, lost, over, unknown, mine) == {mine.id: False}

    def test_an_instance_that_has_ended_stays_as_it_is(
        self, store: Store, clock: ManualClock
    ) -> None:
        over = ended(store)
        clock.advance(SECOND)
        assert renew(store, over) == {}
        assert store.get_instance(over.id) == over

    def test_an_instance_given_back_is_not_renewed(self, store: Store) -> None:
        instance = claimed(store)
        release(store, instance)
        before = store.get_instance(instance.id)
        assert renew(store, instance) == {}
        assert store.get_instance(instance.id) == before

    def test_a_claim_of_a_past_attempt_is_not_renewed(self, store: Store) -> None:
        running_again = waiting_for_retry(store)
        [second] = claim(store)
        stale = Renewal(claim=stale_claim_of(second), lease=HOUR)
        assert store.renew_claims([stale]).done == {}
        assert store.get_instance(running_again.id) == second

    def test_a_claim_of_a_coming_attempt_is_not_renewed(self, store: Store) -> None:
        instance = running(store)
        coming = Claim(instance_id=instance.id, attempt=instance.attempt + 1)
        assert store.renew_claims([Renewal(claim=coming, lease=HOUR)]).done == {}
        assert store.get_instance(instance.id) == instance

    def test_what_is_handed_on_is_not_listed_for_its_node_any_more(
        self, store: Store
    ) -> None:
        instance, other = running(store), running(store)
        assert hand_on(store, instance, lease=HOUR) == {instance.id: False}
        assert ids(store.list_claimed(NODE)) == [other.id]
        expected = replace(instance, expires_at=START + HOUR)
        assert store.get_instance(instance.id) == expected

    def test_what_is_handed_on_lapses_no_sooner_by_a_renewal(
        self, store: Store
    ) -> None:
        instance = running(store)
        hand_on(store, instance, lease=HOUR)
        assert renew(store, instance) == {instance.id: False}
        assert store.get_instance(instance.id).expires_at == START + HOUR
        longer = Renewal(claim=claim_of(instance), lease=2 * HOUR)
        store.renew_claims([longer])
        assert store.get_instance(instance.id).expires_at == START + 2 * HOUR
        assert store.list_claimed(NODE) == []

    def test_handing_on_lets_no_claim_lapse_sooner(self, store: Store) -> None:
        instance = running(store)
        renew(store, instance)
        assert hand_on(store, instance, lease=SECOND) == {instance.id: False}
        assert store.get_instance(instance.id).expires_at == START + LEASE

    def test_what_is_handed_on_is_taken_over_when_it_lapses_and_is_that_nodes(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        hand_on(store, instance, lease=HOUR)
        clock.advance(HOUR - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert second.attempt == instance.attempt + 1
        assert store.list_claimed(OTHER_NODE) == [second]
        assert renew(store, second) == {second.id: False}
        assert store.get_instance(second.id).expires_at == START + HOUR + LEASE

    def test_what_is_handed_on_can_be_given_back_and_is_as_it_was(
        self, store: Store
    ) -> None:
        instance = running(store)
        hand_on(store, instance, lease=HOUR)
        assert release(store, instance)
        [second] = claim(store)
        assert second.id == instance.id
        assert store.list_claimed(NODE) == [second]

    def test_a_lost_claim_is_not_handed_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost, second = passed_on(store, clock)
        assert hand_on(store, lost, lease=HOUR) == {}
        assert store.get_instance(lost.id) == second
        assert store.list_claimed(second.claimed_by or NOBODY) == [second]

    def test_renewing_nothing_answers_nothing(self, store: Store) -> None:
        assert store.renew_claims([]).done == {}

    def test_an_id_is_no_claim(self, store: Store) -> None:
        nobodys = Renewal(claim=Claim(instance_id=UUID(int=7), attempt=1), lease=HOUR)
        assert store.renew_claims([nobodys]).done == {}


ONCE = definition(trigger=ExecuteOnceTrigger(START))
EXCLUDING = pytest.mark.parametrize(
    "excludes", [{"overlap": Overlap.SKIP}, {"lock": "one"}], ids=["overlap", "lock"]
)


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return replace(definition(None, trigger=OnDemandTrigger()), **fields)


def ids_of(additions: Sequence[Addition]) -> list[UUID]:
    """Their ids, in their order."""
    return [each.id for each in additions]


def add(
    store: Store,
    to: TaskDefinition,
    *additions: Addition,
    names: Collection[str] | None = None,
) -> Sequence[TaskInstance]:
    """Add for a node, which is to have what it may start."""
    return store.add_and_start(to.id, additions, claimant(), names=names)


def started(found: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """Those that came back as started; all that a node needs to run them is there."""
    mine = [each for each in found if each.claimed_by is not None]
    for each in mine:
        assert (each.state, each.claimed_by) == (State.RUNNING, NODE)
        assert (each.attempt, each.runs, each.started_at) == (1, 1, START)
        assert each.expires_at == START + LEASE
    return mine


class HandOverTests:
    """Definitions and instances are created for a node that runs what is due."""

    def test_what_is_added_and_due_is_started_or_left_to_claims(
        self, store: Store
    ) -> None:
        stored = put(store, task())
        additions = [Addition(payload={"number": each}) for each in range(3)]
        found = add(store, stored, *additions)
        assert ids(found) == ids_of(additions)
        assert [each.payload for each in found] == [each.payload for each in additions]
        assert {each.definition for each in found} == {stored}
        assert found == [store.get_instance(each.id) for each in found]
        mine, others = started(found), claim(store, OTHER_NODE)
        assert sorted([*ids(mine), *ids(others)]) == sorted(ids_of(additions))
        assert all(finish(store, each) for each in mine)

    def test_what_is_not_due_yet_is_not_started(self, store: Store) -> None:
        stored = put(store, task())
        later = [Addition(at=START + SECOND), Addition(delay=SECOND)]
        assert started(add(store, stored, *later)) == []
        assert len(claim(store, OTHER_NODE, ahead=SECOND)) == 2

    def test_what_starts_expires_by_its_definition(self, store: Store) -> None:
        stored = put(store, task(expire_after=SECOND))
        [found] = add(store, stored, Addition())
        assert found.expires_at in (None, START + SECOND)

    @EXCLUDING
    def test_what_has_to_have_a_slot_is_not_started(
        self, store: Store, excludes: dict[str, Any]
    ) -> None:
        stored = put(store, task(**excludes))
        assert started(add(store, stored, Addition())) == []
        assert len(claim(store, OTHER_NODE)) == 1

    def test_nothing_of_a_paused_definition_is_started(self, store: Store) -> None:
        stored = put(store, task())
        store.pause_definitions([stored.id])
        assert started(add(store, stored, Addition())) == []
        assert claim(store) == []
        store.resume_definitions([stored.id])
        assert len(claim(store)) == 1

    def test_nothing_of_a_queue_that_the_node_does_not_serve_is_started(
        self, store: Store
    ) -> None:
        stored = put(store, task(queue="other"))
        assert started(add(store, stored, Addition())) == []
        assert len(claim(store, queues=["other"])) == 1

    def test_nothing_is_started_that_has_another_name(self, store: Store) -> None:
        for name in ("send", None):
            stored = put(store, task(name=name))
            assert started(add(store, stored, Addition(), names=["report"])) == []
            assert len(claim(store, OTHER_NODE)) == 1

    def test_what_has_one_of_the_names_is_started_or_left(self, store: Store) -> None:
        stored = put(store, task(name="send"))
        found = add(store, stored, Addition(), names=["report", "send"])
        assert len([*started(found), *claim(store, OTHER_NODE)]) == 1

    def test_what_was_there_already_is_not_started(self, store: Store) -> None:
        stored = put(store, task())
        [first] = store.add_instances(stored.id, [Addition(key="one")])
        assert list(add(store, stored, Addition(key="one"))) == [first]
        [run] = claim(store, OTHER_NODE)
        [found] = add(store, stored, Addition(key="one"))
        assert (found.id, found.claimed_by) == (run.id, OTHER_NODE)
        assert finish(store, run)

    def test_adding_the_same_again_answers_as_the_first_time(
        self, store: Store
    ) -> None:
        stored = put(store, task())
        addition = Addition()
        assert add(store, stored, addition) == add(store, stored, addition)

    def test_nothing_is_added_to_what_does_not_exist(self, store: Store) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            store.add_and_start(NOBODY, [Addition()], claimant(), names=None)

    def test_a_new_definition_fires_and_starts_or_is_left_to_the_loops(
        self, store: Store
    ) -> None:
        found, instance = store.put_and_start(firing(ONCE), claimant())
        assert found == put(store, ONCE)
        assert (found.next_fire_time, found.completed_at) == (START, None)
        if instance is None:
            assert ids(due(store)) == [ONCE.id]
            return
        assert started([instance]) == [instance]
        assert instance == store.get_instance(instance.id)
        assert instance.definition == store.get_definition(ONCE.id)
        assert instance.definition.revision == found.revision
        assert instance.definition.completed_at == START
        assert (instance.fire_time, instance.due_at) == (START, START)
        assert due(store) == []
        assert claim(store) == []
        assert finish(store, instance)

    def test_one_that_goes_on_is_due_at_its_next_fire_time(self, store: Store) -> None:
        step = firing(definition(), next_fire_time=START + HOUR)
        found, instance = store.put_and_start(step, claimant())
        assert found.next_fire_time == START
        if instance is None:
            assert due(store) == [found]
            return
        stored = store.get_definition(found.id)
        assert (stored.next_fire_time, stored.completed_at) == (START + HOUR, None)
        assert instance.definition == stored
        assert kept_by_store(instance.definition) == kept_by_store(stored)
        assert due(store, ahead=HOUR) == [stored]

    def test_one_whose_trigger_waits_goes_on_when_its_run_ends(
        self, store: Store
    ) -> None:
        found, instance = store.put_and_start(
            firing(definition(trigger=WAITING)), claimant()
        )
        if instance is None:
            assert due(store) == [found]
            return
        assert instance.definition.completed_at is None
        assert finish(store, instance, next_fire_time=START + HOUR)
        assert store.get_definition(found.id).next_fire_time == START + HOUR

    def test_one_that_is_stored_already_is_put_and_not_started(
        self, store: Store
    ) -> None:
        stored = put(store, ONCE)
        assert store.put_and_start(firing(ONCE), claimant()) == (stored, None)
        assert ids(due(store)) == [ONCE.id]
        edited = replace(ONCE, name="another")
        found, instance = store.put_and_start(firing(edited), claimant())
        assert (found.name, instance) == ("another", None)
        assert instances(store, found) == []

    def test_one_of_another_revision_is_refused(self, store: Store) -> None:
        stored = put(store, ONCE)
        assert stored.revision is not None
        wrong = replace(ONCE, revision=stored.revision + 1)
        with pytest.raises(ConflictError):
            store.put_and_start(firing(wrong), claimant())

    def test_what_fires_is_started_or_left_to_claims(self, store: Store) -> None:
        on = definition()
        once, on = put(store, ONCE), put(store, on)
        steps = [firing(once), firing(on, next_fire_time=START + HOUR)]
        fired = store.fire_and_start(steps, claimant())
        assert (fired.done, fired.busy) == ({once.id, on.id}, set())
        assert due(store, ahead=SECOND) == []
        assert store.get_definition(once.id).completed_at == START
        assert store.get_definition(on.id).next_fire_time == START + HOUR
        mine, others = started(fired.started), claim(store, OTHER_NODE)
        found = {each.definition.id: each for each in [*mine, *others]}
        assert found.keys() == fired.done
        assert {each.fire_time for each in found.values()} == {START}
        for each in mine:
            assert each == store.get_instance(each.id)
            stored = store.get_definition(each.definition.id)
            assert each.definition == stored
            assert kept_by_store(each.definition) == kept_by_store(stored)
            assert finish(store, each)

    def test_what_fires_later_than_its_fire_time_starts_at_that(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, ONCE)
        clock.advance(HOUR)
        settle(store)
        at = START + SECOND
        step = replace(firing(stored), execute_times=(at,))
        for each in store.fire_and_start([step], claimant()).started:
            assert (each.fire_time, each.execute_at, each.due_at) == (START, at, at)
            assert each.started_at == START + HOUR
            assert each == store.get_instance(each.id)

    def test_what_has_fired_already_is_not_started(self, store: Store) -> None:
        first = put(store, definition())
        [run] = fire(store, first, next_fire_time=START + HOUR)
        fired = store.fire_and_start([firing(first)], claimant())
        assert (fired.done, list(fired.started)) == (set(), [])
        # Nor is the instance of a fire time that has one.
        [later] = due(store, ahead=HOUR)
        back = replace(firing(later, next_fire_time=START), fire_times=())
        assert store.fire_definitions([back]).done == {first.id}
        [again] = due(store)
        fired = store.fire_and_start([firing(again)], claimant())
        assert (fired.done, list(fired.started)) == ({first.id}, [])
        assert ids(instances(store, again)) == [run.id]

    def test_nothing_fires_of_what_does_not_exist(self, store: Store) -> None:
        fired = store.fire_and_start([firing(ONCE)], claimant())
        assert (fired.done, list(fired.started)) == (set(), [])

    def test_no_firings_start_nothing(self, store: Store) -> None:
        assert store.fire_and_start([], claimant()).done == set()

    def test_what_nobody_runs_after_its_start_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, task())
        [added] = add(store, stored, Addition())
        clock.advance(LEASE)
        [run] = claim(store, OTHER_NODE, lapsed=True)
        assert run.id == added.id
        assert finish(store, run)
