"""Store suite: what becomes of slots when what their definition excludes is edited."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    SECOND,
    WAITING,
    claim,
    definition,
    finish,
    fire,
    ids,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import (
    excluding,
    fired,
    go,
    is_parked,
    settled,
)

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class SlotEditTests:
    """What becomes of slots when a definition's ``overlap`` or ``lock`` is another."""

    def test_what_is_parked_goes_by_the_new_lock(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        other = put(store, excluding(Overlap.ALLOW, lock="a"))
        [parked] = fire(store, other)
        assert go(store) == []
        put(store, replace(other, lock="b", revision=None))
        assert not is_parked(store, parked)
        assert ids(go(store)) == [parked.id]

    def test_what_is_parked_goes_on_when_nothing_is_excluded_any_more(
        self, store: Store
    ) -> None:
        given = put(store, excluding())
        _, second = fire(store, given, START, START + SECOND)
        go(store)
        put(store, replace(given, overlap=Overlap.ALLOW, revision=None))
        [claimed] = claim(store, lead=HOUR, ahead=HOUR)
        assert (claimed.id, claimed.state) == (second.id, State.RUNNING)

    def test_who_has_a_slot_keeps_it_until_its_end(self, store: Store) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        put(store, replace(given, lock="b", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        finish(store, runs)
        assert ids(settled(store).unparked) == [other.id]
        assert ids(go(store)) == [other.id]

    @pytest.mark.parametrize("lock", ["b", None])
    def test_what_waits_for_a_retry_lets_go_of_its_slot(
        self, store: Store, lock: str | None
    ) -> None:
        given = put(store, excluding(Overlap.ALLOW, lock="a"))
        fire(store, given)
        [runs] = go(store)
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        assert finish(store, runs, None)
        put(store, replace(given, lock=lock, revision=None))
        assert ids(settled(store).unparked) == [other.id]
        assert {*ids(go(store))} == {runs.id, other.id}

    def test_what_a_dead_node_ran_keeps_its_slot_until_its_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        go(store)
        clock.advance(LEASE)
        put(store, replace(given, lock="b", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        [taken] = claim(store, lapsed=True)
        start(store, taken)
        assert is_parked(store, other)
        finish(store, taken)
        assert ids(settled(store).unparked) == [other.id]

    def test_what_runs_without_a_slot_takes_one_when_it_runs_again(
        self, store: Store
    ) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        put(store, replace(given, lock="a", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert ids(go(store)) == [other.id]
        assert finish(store, plain, None)
        assert go(store) == []
        assert is_parked(store, plain)

    def test_what_is_claimed_goes_by_the_new_lock_at_its_start(
        self, store: Store
    ) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        given = put(store, definition(START + SECOND))
        fire(store, given)
        [claimed] = claim(store, ahead=HOUR)
        put(store, replace(given, lock="a", revision=None))
        [found] = start(store, claimed)
        assert found.parked

    def test_another_overlap_judges_what_is_parked_anew(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(Overlap.BUFFER_ALL))
        _, second = fire(store, given, START, START + SECOND)
        go(store)
        clock.advance(SECOND)
        assert settled(store).skipped == []
        put(store, replace(given, overlap=Overlap.SKIP, revision=None))
        go(store)
        assert ids(settled(store).skipped) == [second.id]

    def test_what_is_parked_and_frozen_stays_so_whatever_it_excludes(
        self, store: Store
    ) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        finish(store, plain, None)
        fired(store, excluding(lock="a"))
        put(store, replace(given, lock="a", revision=None))
        started = go(store)
        parked = plain if is_parked(store, plain) else started[0]
        store.pause_definitions([parked.definition.id])
        read = store.get_definition(parked.definition.id)
        put(store, replace(read, lock="b", revision=None))
        assert claim(store, ahead=HOUR) == []

    def test_a_trigger_that_waits_needs_no_slot_of_its_own(self, store: Store) -> None:
        given = put(store, excluding(Overlap.SKIP))
        fire(store, given, START + HOUR)
        put(store, replace(given, trigger=WAITING, revision=None))
        read = store.get_definition(given.id)
        [instance] = fire(store, read)
        [claimed] = claim(store)
        assert (claimed.id, claimed.state) == (instance.id, State.RUNNING)
