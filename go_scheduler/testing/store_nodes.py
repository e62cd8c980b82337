"""Store suite: what a node has claimed, and when nodes were in contact."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import NodeContact, State
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    claimant,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    ids,
    passed_on,
    pending,
    release,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class ListClaimedTests:
    """``list_claimed``."""

    def test_what_a_node_has_claimed_is_listed_in_the_order_of_ids(
        self, store: Store
    ) -> None:
        mine = [claimed(store), running(store), running(store)]
        ended(store)
        pending(store)
        found = store.list_claimed(NODE)
        assert found == sorted(mine, key=lambda each: each.id.int)
        assert store.list_claimed(OTHER_NODE) == []

    def test_what_another_node_took_over_is_that_nodes(
        self, store: Store, clock: ManualClock
    ) -> None:
        _, second = passed_on(store, clock)
        assert store.list_claimed(NODE) == []
        assert store.list_claimed(OTHER_NODE) == [second]

    def test_what_was_given_back_or_ended_is_nobodys(self, store: Store) -> None:
        released, over = running(store), running(store)
        assert release(store, released)
        assert finish(store, over)
        assert store.list_claimed(NODE) == []

    def test_pages_of_what_was_claimed_miss_nothing(self, store: Store) -> None:
        for _ in range(5):
            running(store)
        found: list[TaskInstance] = []
        after = None
        while page := store.list_claimed(NODE, after=after, limit=2):
            assert len(page) <= 2
            found += page
            after = page[-1]
        assert ids(found) == ids(store.list_claimed(NODE))
        assert len(found) == 5


class LapsedForTests:
    """``claim_instances``, where claims are taken over that lapsed long ago."""

    def test_a_claim_is_taken_over_that_has_lapsed_so_long_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(LEASE + MINUTE)
        assert self.taken_over(store, lapsed=MINUTE + TICK) == []
        [again] = self.taken_over(store, lapsed=MINUTE)
        assert (again.id, again.attempt) == (instance.id, 2)

    def test_a_claim_that_lapsed_later_is_taken_over_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        early = running(store)
        clock.advance(LEASE)
        late = running(store, definition(clock.now()))
        clock.advance(LEASE)
        assert ids(self.taken_over(store, lapsed=LEASE)) == [early.id]
        clock.advance(SECOND)
        assert ids(self.taken_over(store, lapsed=SECOND)) == [late.id]

    def test_a_long_wait_hides_nothing_from_a_short_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        for _ in range(3):
            clock.advance(HOUR)
            assert self.taken_over(store, lapsed=timedelta(days=1)) == []
        assert ids(self.taken_over(store, lapsed=ZERO)) == [instance.id]

    def test_a_long_wait_ends(self, store: Store, clock: ManualClock) -> None:
        instance = running(store)
        clock.advance(LEASE)
        for _ in range(3):
            assert self.taken_over(store, lapsed=3 * HOUR) == []
            clock.advance(HOUR)
        assert ids(self.taken_over(store, lapsed=3 * HOUR)) == [instance.id]

    @staticmethod
    def taken_over(store: Store, *, lapsed: timedelta) -> list[TaskInstance]:
        """Claim for the other node."""
        settle(store)
        taken = store.claim_instances(
            claimant(OTHER_NODE), ahead=ZERO, lead=ZERO, limit=10, lapsed=lapsed
        )
        assert all(each.state is State.RUNNING for each in taken)
        return list(taken)


class ContactTests:
    """``note_contact`` and ``list_contacts``."""

    def test_a_contact_is_listed_as_it_was_noted(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(NODE, unbroken=ZERO)
        clock.advance(MINUTE)
        store.note_contact(OTHER_NODE, unbroken=SECOND + TICK)
        assert self.contacts(store) == {
            NODE: NodeContact(node=NODE, since=START, until=START),
            OTHER_NODE: NodeContact(
                node=OTHER_NODE,
                since=START + MINUTE - SECOND - TICK,
                until=START + MINUTE,
            ),
        }

    def test_a_contact_replaces_the_one_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(NODE, unbroken=MINUTE)
        clock.advance(HOUR)
        store.note_contact(NODE, unbroken=SECOND)
        noted = NodeContact(node=NODE, since=START + HOUR - SECOND, until=START + HOUR)
        assert self.contacts(store) == {NODE: noted}

    def test_only_nodes_seen_lately_are_listed(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(NODE, unbroken=ZERO)
        clock.advance(MINUTE)
        assert set(self.contacts(store, within=MINUTE)) == {NODE}
        assert self.contacts(store, within=MINUTE - TICK) == {}

    def test_contacts_are_kept_for_an_hour_and_deleted_uncounted(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(NODE, unbroken=ZERO)
        clock.advance(HOUR)
        store.note_contact(OTHER_NODE, unbroken=ZERO)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store)) == {NODE, OTHER_NODE}
        clock.advance(TICK)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store, within=HOUR + TICK)) == {OTHER_NODE}

    @staticmethod
    def contacts(
        store: Store, *, within: timedelta = HOUR
    ) -> dict[object, NodeContact]:
        """The contacts of the last while, by node."""
        return {each.node: each for each in store.list_contacts(within=within)}
