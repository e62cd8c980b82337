"""Store suite: slots are kept by what runs, and let go of by its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.stores.messages import RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    cancel,
    claim,
    claim_of,
    clean_up,
    finish,
    fire,
    ids,
    instances,
    put,
    release,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import (
    end_uncalled,
    excluding,
    fired,
    go,
    is_parked,
    pair,
    settled,
)
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class FreedSlotTests:
    """A slot is kept from a first start to the end, and then free."""

    @pytest.mark.parametrize("outcome", Outcome)
    def test_an_end_lets_go_of_the_slot(self, store: Store, outcome: Outcome) -> None:
        runs, parked = pair(store)
        assert finish(store, runs, outcome)
        unparked = settled(store).unparked
        assert unparked == [replace(parked, parked=False)]
        assert ids(go(store)) == [parked.id]

    def test_an_end_that_is_known_to_have_no_slot_lets_go_of_none(
        self, store: Store
    ) -> None:
        plain = running(store)
        end = RunOutcome(
            claim=claim_of(plain), outcome=Outcome.COMPLETED, has_slot=False
        )
        assert store.finish_instances([end]).done == {plain.id}

    def test_an_end_that_lets_go_of_no_slot_by_mistake_is_made_up_for(
        self, store: Store
    ) -> None:
        runs, parked = pair(store)
        end = RunOutcome(
            claim=claim_of(runs), outcome=Outcome.COMPLETED, has_slot=False
        )
        assert store.finish_instances([end]).done == {runs.id}
        assert ids(settled(store).unparked) == [parked.id]
        assert ids(go(store)) == [parked.id]

    def test_a_run_that_waits_for_a_retry_has_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store)
        assert finish(store, runs, None, retry_in=MINUTE)
        assert settled(store).unparked == []
        assert claim(store) == []
        clock.advance(MINUTE)
        [again] = go(store)
        assert (again.id, again.runs) == (runs.id, 2)
        assert finish(store, again)
        assert ids(settled(store).unparked) == [parked.id]

    def test_what_is_given_back_and_was_never_called_lets_go_of_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store)
        assert release(store, runs, HOUR)
        assert ids(settled(store).unparked) == [parked.id]
        assert ids(go(store)) == [parked.id]
        clock.advance(HOUR)
        assert go(store) == []
        assert is_parked(store, runs)

    def test_what_lets_go_of_its_slot_may_take_it_again(self, store: Store) -> None:
        runs, parked = pair(store)
        assert release(store, runs)
        assert ids(settled(store).unparked) == [parked.id]
        assert ids(go(store, node=OTHER_NODE)) == [runs.id]
        assert is_parked(store, parked)

    def test_what_is_given_back_and_ran_before_has_its_slot(self, store: Store) -> None:
        runs, _ = pair(store)
        assert finish(store, runs, None)
        [again] = go(store)
        assert release(store, again)
        assert settled(store).unparked == []
        assert ids(go(store, node=OTHER_NODE)) == [runs.id]

    def test_what_is_given_back_and_may_have_run_elsewhere_has_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, _ = pair(store)
        clock.advance(LEASE)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert release(store, taken)
        assert settled(store).unparked == []
        assert ids(go(store)) == [runs.id]

    def test_what_is_made_to_run_again_and_given_back_lets_go_of_its_slot(
        self, store: Store
    ) -> None:
        runs, parked = pair(store)
        finish(store, runs, Outcome.FAILED)
        store.reopen_instances([runs.id])
        [again] = go(store)
        assert (again.id, again.runs) == (runs.id, 1)
        assert release(store, again)
        assert ids(settled(store).unparked) == [parked.id]

    def test_what_was_given_back_before_its_start_has_none(self, store: Store) -> None:
        first, second = fired(store, excluding(), START, START + SECOND)
        [claimed] = claim(store)
        release(store, claimed, MINUTE)
        assert ids(go(store)) == [second.id]
        assert is_parked(store, first)

    def test_a_dead_nodes_run_is_taken_over_and_has_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, _ = pair(store)
        clock.advance(LEASE)
        assert settled(store).unparked == []
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert (taken.id, taken.state) == (runs.id, State.CLAIMED)
        [again] = start(store, taken)
        assert (again.attempt, again.runs) == (2, 2)
        assert settled(store).unparked == []

    def test_the_success_of_an_earlier_run_lets_go_of_the_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store)
        clock.advance(LEASE)
        claim(store, OTHER_NODE, lapsed=True)
        assert finish(store, runs)
        assert ids(settled(store).unparked) == [parked.id]

    def test_a_claim_that_is_lost_lets_go_of_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, _ = pair(store)
        clock.advance(LEASE)
        claim(store, OTHER_NODE, lapsed=True)
        assert not finish(store, runs, Outcome.FAILED)
        assert settled(store).unparked == []

    def test_cancelling_what_waits_for_a_retry_lets_go_of_its_slot(
        self, store: Store
    ) -> None:
        runs, parked = pair(store)
        finish(store, runs, None, retry_in=MINUTE)
        cancel(store, runs)
        assert ids(settled(store).unparked) == [parked.id]

    def test_a_run_that_is_asked_to_stop_has_its_slot(self, store: Store) -> None:
        runs, _ = pair(store)
        assert cancel(store, runs) == {runs.id: Cancelled.REQUESTED}
        assert settled(store).unparked == []

    def test_a_delete_lets_go_of_slots_and_of_what_is_parked(
        self, store: Store
    ) -> None:
        first = put(store, excluding(lock="a"))
        fire(store, first, START, START + SECOND)
        [runs] = go(store)
        [other] = fired(store, excluding(lock="a"), START + MINUTE)
        assert go(store) == []
        store.delete_definitions([first.id])
        assert ids(settled(store).unparked) == [other.id]
        assert ids(go(store)) == [other.id]
        assert store.get_instance(runs.id).state is State.CANCELLED

    def test_a_delete_leaves_the_slot_to_who_has_it(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        other = put(store, excluding(lock="a"))
        fire(store, other)
        go(store)
        store.delete_definitions([other.id])
        fired(store, excluding(lock="a"))
        assert settled(store).unparked == []
        assert go(store) == []

    def test_an_id_that_begins_another_life_finds_its_slot_free(
        self, store: Store
    ) -> None:
        old = put(store, excluding())
        fire(store, old)
        [runs] = go(store)
        store.delete_definitions([old.id])
        fired(store, replace(old, revision=None))
        [again] = go(store)
        assert again.id != runs.id

    def test_cleanup_leaves_slots_to_those_who_have_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, _ = pair(store)
        clock.advance(HOUR)
        clean_up(store)
        assert settled(store).unparked == []
        finish(store, runs)
        clean_up(store)
        assert len(settled(store).unparked) == 1

    def test_a_pause_takes_the_slot_of_what_never_ran(self, store: Store) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        assert end_uncalled(store, runs)
        store.pause_definitions([given.id])
        assert ids(instances(store, given)) == [runs.id]
        assert ids(settled(store).unparked) == [other.id]
        assert ids(go(store)) == [other.id]
        store.resume_definitions([given.id])
        assert go(store) == []
        assert is_parked(store, runs)

    def test_another_trigger_removes_what_never_ran_and_its_slot(
        self, store: Store
    ) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        assert end_uncalled(store, runs)
        put(store, replace(given, trigger=IntervalTrigger(MINUTE), revision=None))
        assert ids(settled(store).unparked) == [other.id]
