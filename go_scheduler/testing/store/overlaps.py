"""Store suite: what is due while another one has its slot waits, or is skipped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, RunOutcome
from go_scheduler.stores.slots import MOST_BUFFERED
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    at_once,
    claim_of,
    definition,
    finish,
    fire,
    ids,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.slots import (
    ALL,
    NOTHING,
    excluding,
    fired,
    go,
    pair,
    settled,
)

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class OverlapTests:
    """What is due and parked is judged by the overlap of its definition."""

    def test_skip_is_decided_when_it_is_due_and_not_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store, Overlap.SKIP)
        clock.advance(SECOND - TICK)
        assert settled(store).skipped == []
        assert finish(store, runs)
        assert ids(settled(store).unparked) == [parked.id]
        assert ids(go(store)) == [parked.id]

    def test_skip_ends_what_is_due_while_another_one_runs(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store, Overlap.SKIP)
        clock.advance(SECOND)
        [skipped] = settled(store).skipped
        assert skipped == store.get_instance(parked.id)
        assert (skipped.state, skipped.parked) == (State.SKIPPED, False)
        assert skipped.completed_at == START + SECOND
        assert skipped.skipped is not None
        assert skipped.skipped.reason.startswith("another instance of its definition")
        assert skipped.skipped.count == 1
        assert skipped.skipped.first == skipped.skipped.last == START + SECOND
        assert store.get_instance(runs.id) == runs
        assert finish(store, runs)
        assert settled(store) == NOTHING

    def test_skip_waits_for_a_lock_of_another_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        fired(store, excluding(Overlap.ALLOW, lock="a"))
        [runs] = go(store)
        waits, second = fired(
            store, excluding(Overlap.SKIP, lock="a"), START + SECOND, START + MINUTE
        )
        assert go(store) == []
        clock.advance(SECOND)
        assert settled(store).skipped == []
        clock.advance(MINUTE)
        # One of its own waits already.
        assert ids(settled(store).skipped) == [second.id]
        finish(store, runs)
        assert ids(settled(store).unparked) == [waits.id]

    def test_buffer_one_lets_one_wait_and_skips_the_next(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(4)]
        _, second, third, fourth = fired(store, excluding(Overlap.BUFFER_ONE), *times)
        [runs] = go(store)
        clock.advance(MINUTE)
        assert ids(settled(store).skipped) == [third.id, fourth.id]
        finish(store, runs)
        assert ids(settled(store).unparked) == [second.id]

    def test_buffer_one_skips_what_is_due_later_as_well(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(3)]
        _, _, third = fired(store, excluding(Overlap.BUFFER_ONE), *times)
        go(store)
        clock.advance(SECOND)
        assert settled(store).skipped == []
        clock.advance(SECOND)
        assert ids(settled(store).skipped) == [third.id]

    def test_buffer_all_lets_all_wait_in_their_turn(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(4)]
        made = fired(store, excluding(Overlap.BUFFER_ALL), *times)
        clock.advance(MINUTE)
        for each in made:
            [runs] = go(store)
            assert settled(store).skipped == []
            assert runs.id == each.id
            finish(store, runs)
            settled(store)

    def test_buffer_all_skips_what_is_too_many(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * TICK for number in range(MOST_BUFFERED + 3)]
        fired(store, excluding(Overlap.BUFFER_ALL), *times)
        go(store)
        clock.advance(MINUTE)
        skipped = [each.fire_time for each in settled(store).skipped]
        assert skipped == times[MOST_BUFFERED + 1 :]
        assert store.counts()[State.PENDING] == MOST_BUFFERED

    def test_replace_asks_what_runs_to_stop_and_runs_when_that_has_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store, Overlap.REPLACE)
        clock.advance(SECOND - TICK)
        assert settled(store).replaced == []
        clock.advance(TICK)
        found = settled(store)
        assert ids(found.replaced) == [runs.id]
        assert found.skipped == []
        assert store.get_instance(runs.id) == replace(runs, cancel_requested=True)
        assert settled(store).replaced == []
        finish(store, runs, Outcome.CANCELLED)
        assert ids(settled(store).unparked) == [parked.id]

    def test_replace_skips_what_waited_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(3)]
        _, second, third = fired(store, excluding(Overlap.REPLACE), *times)
        [runs] = go(store)
        clock.advance(SECOND)
        assert ids(settled(store).replaced) == [runs.id]
        clock.advance(SECOND)
        found = settled(store)
        assert ids(found.skipped) == [second.id]
        assert found.replaced == []
        finish(store, runs, Outcome.CANCELLED)
        assert ids(settled(store).unparked) == [third.id]

    def test_replace_of_several_that_are_due_keeps_the_last(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(4)]
        made = fired(store, excluding(Overlap.REPLACE), *times)
        [runs] = go(store)
        clock.advance(MINUTE)
        found = settled(store)
        assert set(ids(found.skipped)) == set(ids(made[1:3]))
        assert ids(found.replaced) == [runs.id]

    def test_replace_cancels_what_waits_for_a_retry(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = pair(store, Overlap.REPLACE)
        finish(store, runs, None, retry_in=HOUR)
        clock.advance(SECOND)
        found = settled(store)
        [replaced] = found.replaced
        assert (replaced.id, replaced.state) == (runs.id, State.CANCELLED)
        assert ids(found.unparked) == [parked.id]

    def test_replace_leaves_those_of_other_definitions_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        fired(store, excluding(Overlap.ALLOW, lock="a"))
        [runs] = go(store)
        fired(store, excluding(Overlap.REPLACE, lock="a"), START + SECOND)
        assert go(store) == []
        clock.advance(MINUTE)
        found = settled(store)
        assert (found.replaced, found.skipped) == ([], [])
        assert store.get_instance(runs.id) == runs

    def test_replace_only_asks_one_whose_trigger_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(Overlap.REPLACE, lock="a", trigger=WAITING))
        fire(store, given)
        [runs] = go(store)
        finish(store, runs, None, retry_in=2 * HOUR)
        store.add_instances(given.id, [Addition()])
        assert go(store) == []
        [replaced] = settled(store).replaced
        assert (replaced.id, replaced.state) == (runs.id, State.PENDING)
        assert replaced.cancel_requested

    def test_nothing_is_judged_beside_one_that_has_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        for _ in range(3):
            runs, _ = pair(store, Overlap.SKIP)
            end = RunOutcome(
                claim=claim_of(runs), outcome=Outcome.COMPLETED, has_slot=False
            )
            store.finish_instances([end])
        clock.advance(MINUTE)
        settle(store)
        for _ in range(3):
            assert not store.review_parked(limit=1).skipped

    def test_what_only_waits_for_a_lock_is_not_judged(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(4)]
        fired(store, excluding(Overlap.ALLOW, lock="a"), *times)
        go(store)
        clock.advance(MINUTE)
        found = settled(store)
        assert (found.skipped, found.replaced, found.unparked) == ([], [], [])
        assert found.parked

    def test_what_is_frozen_is_not_judged(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        finish(store, plain, None, retry_in=SECOND)
        fired(store, excluding(lock="a"))
        go(store)
        put(store, replace(given, overlap=Overlap.SKIP, lock="a", revision=None))
        store.pause_definitions([given.id])
        clock.advance(MINUTE)
        assert settled(store).skipped == []

    def test_no_more_are_judged_than_asked_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(5)]
        made = fired(store, excluding(Overlap.SKIP), *times)
        go(store)
        clock.advance(MINUTE)
        settle(store)
        skipped = store.review_parked(limit=2).skipped
        assert set(ids(skipped)) == set(ids(made[1:3]))

    def test_nobody_is_judged_twice_whoever_looks_at_the_same_moment(
        self, store: Store, clock: ManualClock
    ) -> None:
        times = [START + number * SECOND for number in range(6)]
        made = fired(store, excluding(Overlap.BUFFER_ONE), *times)
        go(store)
        clock.advance(MINUTE)
        settle(store)
        answers = at_once(*(4 * [lambda: store.review_parked(limit=ALL)]))
        skipped = [each.id for answer in answers for each in answer.skipped]  # type: ignore[attr-defined]
        skipped += ids(settled(store).skipped)
        assert sorted(skipped) == sorted(ids(made[2:]))
