"""Store suite: a resumed definition goes on with all that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    claim,
    definition,
    due,
    finish,
    fire,
    ids,
    instances,
    pending,
    put,
    release,
    running,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import pause

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class ResumeTests:
    """``resume_definitions``."""

    def test_the_pause_and_its_note_go(self, store: Store) -> None:
        new = put(store)
        store.pause_definitions([new.id], note="why")
        [resumed] = store.resume_definitions([new.id])
        for found in (resumed, store.get_definition(new.id)):
            assert found == new
            assert (found.paused, found.note, found.revision) == (False, None, 3)

    def test_a_resume_answers_those_that_exist(self, store: Store) -> None:
        one, other = put(store), put(store)
        store.pause_definitions([one.id])
        resumed = store.resume_definitions([one.id, NOBODY, other.id])
        assert sorted(ids(resumed)) == sorted([one.id, other.id])
        assert store.resume_definitions([NOBODY]) == []

    def test_a_definition_that_is_not_paused_stays_as_it_is(self, store: Store) -> None:
        new = put(store)
        [resumed] = store.resume_definitions([new.id])
        assert (resumed.paused, resumed.revision) == (False, 1)

    def test_what_was_removed_at_the_pause_fires_after_it(self, store: Store) -> None:
        old = pending(store, definition(START + SECOND))
        pause(store, old.definition)
        [resumed] = store.resume_definitions([old.definition.id])
        assert ids(due(store, ahead=HOUR, limit=10)) == [resumed.id]
        assert times(fire(store, resumed)) == [START + SECOND]

    def test_what_had_passed_at_the_pause_goes_on(self, store: Store) -> None:
        instance = pending(store)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_what_waited_for_a_retry_is_claimable(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_a_claimed_retry_is_claimable(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store, OTHER_NODE, ahead=SECOND)) == [instance.id]

    def test_what_was_given_back_meanwhile_is_claimable(self, store: Store) -> None:
        instance = running(store)
        pause(store, instance.definition)
        release(store, instance)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_what_failed_meanwhile_is_claimable_when_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        finish(store, instance, None, retry_in=SECOND)
        store.resume_definitions([instance.definition.id])
        assert claim(store) == []
        clock.advance(SECOND)
        assert ids(claim(store)) == [instance.id]

    def test_what_lapsed_meanwhile_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(LEASE)
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [instance.id]

    def test_what_lapsed_meanwhile_lapses_at_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(HOUR)
        store.resume_definitions([instance.definition.id])
        assert store.get_instance(instance.id).expires_at == store.now()

    def test_what_lapsed_before_the_pause_lapses_at_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        pause(store, instance.definition)
        store.resume_definitions([instance.definition.id])
        assert store.get_instance(instance.id).expires_at == store.now()

    def test_a_claim_that_holds_at_the_resume_holds_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(SECOND)
        store.resume_definitions([instance.definition.id])
        found = store.get_instance(instance.id)
        assert found.expires_at == instance.expires_at

    def test_a_paused_definition_that_ran_on_keeps_what_it_ran(
        self, store: Store
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        finish(store, instance)
        store.resume_definitions([instance.definition.id])
        assert times(instances(store, instance.definition)) == [START]
        assert claim(store, ahead=HOUR) == []
