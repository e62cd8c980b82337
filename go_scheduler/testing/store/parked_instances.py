"""Store suite: what waits for a slot is parked, and goes on in its turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Cancelled, State
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    OTHER_NODE,
    SECOND,
    cancel,
    claim,
    definition,
    finish,
    fire,
    ids,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.slots import (
    NOTHING,
    excluding,
    fired,
    go,
    is_parked,
    pair,
    settled,
)

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class ParkedTests:
    """What is parked is nobody's, and goes on when its slot is free."""

    def test_what_is_parked_is_claimed_by_nobody(
        self, store: Store, clock: ManualClock
    ) -> None:
        _, parked = pair(store)
        clock.advance(HOUR)
        assert [each.id for each in claim(store, lapsed=True)] != [parked.id]
        assert parked.id not in ids(claim(store, OTHER_NODE, lapsed=True))

    def test_what_is_parked_is_counted_as_pending_and_its_queue_is_not_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        pair(store)
        clock.advance(HOUR)
        assert store.counts()[State.PENDING] == 1
        settle(store)
        assert not store.list_due_queues(apart_from=[])

    def test_one_of_several_goes_on_when_a_slot_is_free(self, store: Store) -> None:
        times = [START + number * SECOND for number in range(4)]
        made = fired(store, excluding(), *times)
        for number, each in enumerate(made):
            [runs] = go(store)
            assert runs.id == each.id
            assert settled(store).unparked == []
            assert finish(store, runs)
            assert ids(settled(store).unparked) == ids(made[number + 1 : number + 2])
        assert settled(store) == NOTHING

    def test_while_nobody_takes_the_slot_the_next_one_may_go_on_too(
        self, store: Store
    ) -> None:
        times = [START + number * SECOND for number in range(3)]
        _, second, third = fired(store, excluding(), *times)
        [runs] = go(store)
        finish(store, runs)
        assert ids(settled(store).unparked) == [second.id]
        assert ids(settled(store).unparked) == [third.id]
        assert ids(go(store)) == [second.id]

    def test_what_goes_on_is_due_when_it_was_and_claimable_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store)
        clock.advance(HOUR)
        finish(store, runs)
        settled(store)
        [claimed] = claim(store)
        assert (claimed.id, claimed.due_at) == (parked.id, START + SECOND)
        assert claimed.attempt == 2

    def test_no_more_slots_are_gone_over_than_asked_for(self, store: Store) -> None:
        for lock in "abc":
            fired(store, excluding(lock=lock), START, START + SECOND)
        for each in go(store):
            finish(store, each)
        settle(store)
        found = store.review_parked(limit=2)
        assert (len(found.unparked), found.more) == (2, True)

    def test_what_is_more_than_asked_for_is_gone_over_by_the_next_calls(
        self, store: Store, clock: ManualClock
    ) -> None:
        for lock in "abcde":
            fired(store, excluding(lock=lock), START, START + SECOND)
        fired(store, excluding(Overlap.SKIP), *(START + n * SECOND for n in range(6)))
        for each in go(store):
            if each.definition.lock is not None:
                finish(store, each)
        clock.advance(MINUTE)
        unparked, skipped = [], []
        more = True
        while more:
            settle(store)
            found = store.review_parked(limit=2)
            unparked += ids(found.unparked)
            skipped += ids(found.skipped)
            more = found.more
        assert (len(unparked), len(skipped)) == (5, 5)

    def test_cancelling_what_is_parked_ends_it(self, store: Store) -> None:
        runs, parked = pair(store)
        assert cancel(store, parked) == {parked.id: Cancelled.CANCELLED}
        found = store.get_instance(parked.id)
        assert (found.state, found.parked) == (State.CANCELLED, False)
        finish(store, runs)
        assert settled(store).unparked == []

    def test_what_is_parked_and_frozen_is_cancelled_too(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        [other] = fired(store, excluding(lock="a"), START)
        assert go(store) == []
        store.pause_definitions([other.definition.id])
        assert cancel(store, other) == {other.id: Cancelled.CANCELLED}
        found = store.get_instance(other.id)
        assert (found.state, found.parked) == (State.CANCELLED, False)

    def test_a_pause_freezes_what_is_parked_and_keeps_slots(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        retried, _ = fired(store, excluding(lock="b"), START, START + SECOND)
        [second] = go(store)
        assert second.id == retried.id
        finish(store, second, None, retry_in=MINUTE)
        ids_of_both = [given.id, retried.definition.id]
        store.pause_definitions(ids_of_both)
        finish(store, runs)
        clock.advance(HOUR)
        assert settled(store).unparked == []
        assert go(store) == []
        [other] = fired(store, excluding(lock="b"), START + MINUTE)
        assert go(store) == []
        store.resume_definitions(ids_of_both)
        assert ids(go(store)) == [second.id]
        assert is_parked(store, other)

    def test_what_ran_and_is_parked_is_frozen_by_a_pause(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        retried = put(store, definition())
        fire(store, retried)
        [plain] = go(store)
        finish(store, plain, None)
        store.put_definitions([replace(retried, lock="a", revision=None)])
        assert go(store) == []
        assert is_parked(store, plain)
        store.pause_definitions([retried.id])
        [holder] = [
            each
            for each in store.list_instances(state=State.RUNNING)
            if each.definition.lock == "a"
        ]
        finish(store, holder)
        assert settled(store).unparked == []
        store.resume_definitions([retried.id])
        assert claim(store, ahead=HOUR) == []
        assert ids(settled(store).unparked) == [plain.id]
        assert ids(go(store)) == [plain.id]
