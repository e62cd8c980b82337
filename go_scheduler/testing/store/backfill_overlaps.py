"""Store suite: what is backfilled excludes others by an overlap of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    claim,
    definition,
    finish,
    fire,
    ids,
    instances,
    put,
    start,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.backfills import PAST, backfill

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class BackfillOverlapTests:
    """By what backfilled instances exclude each other."""

    def started(self, store: Store) -> list[TaskInstance]:
        """What starts of all that can be claimed."""
        settle(store)
        found = claim(store)
        return [each for each in start(store, *found) if not each.parked]

    def test_they_run_one_after_another(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, *PAST, overlap=Overlap.BUFFER_ALL)
        for fire_time in PAST:
            [run] = self.started(store)
            assert run.fire_time == fire_time
            assert not store.review_parked(limit=10).skipped
            assert finish(store, run)
            store.review_parked(limit=10)
        assert store.counts()[State.COMPLETED] == 3

    def test_they_run_beside_each_other_whatever_the_definition_says(
        self, store: Store
    ) -> None:
        new = definition(START, trigger=HOURLY)
        of = put(store, replace(new, overlap=Overlap.SKIP))
        backfill(store, of, *PAST, overlap=Overlap.ALLOW)
        assert len(self.started(store)) == 3

    def test_they_share_the_lock_of_their_definition(self, store: Store) -> None:
        of = put(store, replace(definition(START, trigger=HOURLY), lock="one"))
        backfill(store, of, *PAST, overlap=Overlap.ALLOW)
        [run] = self.started(store)
        store.review_parked(limit=10)
        assert store.counts()[State.SKIPPED] == 0
        assert run.fire_time == PAST[0]

    def test_by_skip_only_the_first_runs(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, *PAST, overlap=Overlap.SKIP)
        [run] = self.started(store)
        settled = store.review_parked(limit=10)
        assert set(times(settled.skipped)) == set(PAST[1:])
        assert backfill(store, of, *PAST, overlap=Overlap.ALLOW) == []
        assert run.fire_time == PAST[0]

    def test_what_waits_of_them_keeps_no_fire_time_from_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = replace(definition(START, trigger=HOURLY), overlap=Overlap.REPLACE)
        of = put(store, new)
        backfill(store, of, *PAST, overlap=Overlap.BUFFER_ALL)
        [first] = self.started(store)
        fire(store, of, START, next_fire_time=START + HOUR)
        self.started(store)
        assert not store.review_parked(limit=10).skipped
        waiting = [each for each in instances(store, of) if each.parked]
        assert times(waiting) == [*PAST[1:], START]
        assert store.get_instance(first.id).cancel_requested

    def test_an_edit_of_the_overlap_is_none_of_theirs(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, *PAST[:2], overlap=Overlap.BUFFER_ALL)
        fire(store, of, START, next_fire_time=START + HOUR)
        of = put(store, replace(of, overlap=Overlap.SKIP, revision=None))
        of = put(store, replace(of, overlap=Overlap.ALLOW, revision=None))
        assert sorted(times(self.started(store))) == [PAST[0], START]  # type: ignore[type-var]

    def test_an_edit_of_the_lock_is_theirs_too(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, PAST[0], PAST[1], overlap=Overlap.ALLOW)
        of = put(store, replace(of, lock="one", revision=None))
        backfill(store, of, PAST[2], overlap=Overlap.BUFFER_ONE)
        [run] = self.started(store)
        put(store, replace(of, lock=None, revision=None))
        # What has the lock keeps it; the others are without.
        assert times(self.started(store)) == PAST[1:]
        assert run.fire_time == PAST[0]

    @pytest.mark.parametrize(
        ("overlap", "lock", "together"),
        [
            (Overlap.ALLOW, None, 3),
            (Overlap.ALLOW, "one", 1),
            (Overlap.BUFFER_ALL, None, 1),
            (Overlap.SKIP, "one", 1),
        ],
    )
    def test_those_that_failed_exclude_the_same_again(
        self, store: Store, overlap: Overlap, lock: str | None, together: int
    ) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        of = put(store, replace(of, lock="another", revision=None))
        for fire_time in PAST:
            backfill(store, of, fire_time, overlap=overlap)
            [run] = self.started(store)
            assert finish(store, run, Outcome.FAILED, error="no")
        put(store, replace(of, lock=lock, revision=None))
        failed = instances(store, of)
        assert store.reopen_instances(ids(failed)) == set(ids(failed))
        assert len(self.started(store)) == together
        assert not store.review_parked(limit=10).skipped
