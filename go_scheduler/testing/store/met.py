"""Store suite: what is due is judged by what had its slot, though that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import MINUTE, SECOND, TICK, finish, ids
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.slots import (
    NOTHING,
    excluding,
    fired,
    go,
    pair,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class MetTests:
    """What was parked behind one of its own, which had its slot when it was due."""

    @pytest.mark.parametrize("lock", [None, "a"])
    @pytest.mark.parametrize(
        ("overlap", "stays"),
        [
            (Overlap.SKIP, ()),
            (Overlap.BUFFER_ONE, (1,)),
            (Overlap.REPLACE, (3,)),
            (Overlap.BUFFER_ALL, (1, 2, 3)),
        ],
    )
    def test_how_soon_anybody_looks_after_an_end_decides_nothing(
        self,
        store: Store,
        clock: ManualClock,
        overlap: Overlap,
        stays: Sequence[int],
        lock: str | None,
    ) -> None:
        times = [START + number * TICK for number in range(4)]
        made = fired(store, excluding(overlap, lock=lock), *times)
        # The last ones are parked before they are due.
        [runs] = go(store)
        clock.advance(SECOND)
        assert finish(store, runs)
        clock.advance(SECOND)
        found = settled(store)
        expected = [each.id for each in made[1:]]
        remain = [made[number].id for number in stays]
        assert ids(found.skipped) == [each for each in expected if each not in remain]
        assert found.replaced == []
        assert ids(found.unparked) == remain[:1]
        assert ids(go(store)) == remain[:1]

    def test_what_is_yet_to_be_judged_does_not_go_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * TICK for number in range(4)]
        made = fired(store, excluding(Overlap.SKIP), *times)
        [runs] = go(store)
        clock.advance(SECOND)
        finish(store, runs)
        settle(store)
        skipped: list[UUID] = []
        # A look that ends where the last one began finds nothing.
        for _ in range(6):
            found = store.review_parked(limit=1)
            assert not found.unparked
            skipped += ids(found.skipped)
        assert skipped == ids(made[1:])
        assert settled(store) == NOTHING

    def test_one_of_its_own_that_ended_before_it_was_due_skips_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store, Overlap.SKIP)
        clock.advance(SECOND - TICK)
        finish(store, runs)
        clock.advance(MINUTE)
        found = settled(store)
        assert (found.skipped, ids(found.unparked)) == ([], [parked.id])

    def test_one_of_another_definition_that_has_ended_skips_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        fired(store, excluding(Overlap.ALLOW, lock="a"))
        [runs] = go(store)
        [waits] = fired(store, excluding(Overlap.SKIP, lock="a"))
        assert go(store) == []
        clock.advance(SECOND)
        finish(store, runs)
        found = settled(store)
        assert (found.skipped, ids(found.unparked)) == ([], [waits.id])

    def test_what_met_one_of_its_own_is_judged_though_another_has_the_lock(
        self, store: Store, clock: ManualClock
    ) -> None:
        own = excluding(Overlap.REPLACE, lock="a")
        _, second, third = fired(store, own, START, START + TICK, START + 2 * TICK)
        [runs] = go(store)
        clock.advance(SECOND)
        finish(store, runs)
        fired(store, excluding(Overlap.ALLOW, lock="a"))
        [other] = go(store)
        found = settled(store)
        assert (ids(found.skipped), found.replaced) == ([second.id], [])
        finish(store, other)
        assert ids(settled(store).unparked) == [third.id]
