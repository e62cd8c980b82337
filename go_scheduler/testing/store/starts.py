"""Store suite: a claim is started once, and holds as long as it is renewed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.models import State
from go_scheduler.stores.messages import Claim, Renewal
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    cancel,
    claim,
    claim_of,
    claimant,
    claimed,
    definition,
    ended,
    hand_on,
    ids,
    passed_on,
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
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
