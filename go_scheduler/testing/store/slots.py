"""Store suite: of instances that exclude each other one runs, and the others wait."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Reviewed, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    at_once,
    cancel,
    claim,
    claim_of,
    claimant,
    clean_up,
    definition,
    finish,
    fire,
    ids,
    instances,
    pending,
    put,
    release,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

ALL = 10_000
NOTHING = Reviewed(unparked=[], skipped=[], replaced=[])
EXCLUSIVE = [each for each in Overlap if each is not Overlap.ALLOW]


def excluding(
    overlap: Overlap = Overlap.BUFFER_ALL,
    *,
    lock: str | None = None,
    trigger: Trigger = HOURLY,
    key: int | None = None,
    queue: str = "default",
) -> TaskDefinition:
    """A definition whose instances exclude each other."""
    made = definition(trigger=trigger, key=key, queue=queue)
    return replace(made, overlap=overlap, lock=lock)


def fired(
    store: Store, new: TaskDefinition, *fire_times: datetime
) -> Sequence[TaskInstance]:
    """The instances of a new definition, in their order."""
    return fire(store, put(store, new), *fire_times)


def go(
    store: Store, *, node: UUID = NODE, queue: str = "default"
) -> Sequence[TaskInstance]:
    """What runs of all that a node claims and starts now, or soon."""
    given = claim(store, node, queues=[queue], ahead=HOUR, limit=ALL)
    started = store.start_instances(claimant(node), [claim_of(each) for each in given])
    return [each for each in started.done if each.state is State.RUNNING]


def settled(store: Store) -> Reviewed:
    """What comes of going over what is parked."""
    settle(store)
    found = store.review_parked(limit=ALL)
    return replace(
        found,
        unparked=earliest_first(found.unparked),
        skipped=earliest_first(found.skipped),
        replaced=earliest_first(found.replaced),
    )


def earliest_first(given: Sequence[TaskInstance]) -> list[TaskInstance]:
    """Instances in the order in which they are due."""
    return sorted(given, key=attrgetter("due_at"))


def is_parked(store: Store, instance: TaskInstance) -> bool:
    """Whether an instance is parked, as it is stored."""
    return store.get_instance(instance.id).parked


def pair(
    store: Store, overlap: Overlap = Overlap.BUFFER_ALL
) -> tuple[TaskInstance, TaskInstance]:
    """One that runs, and one of the same definition that is parked beside it."""
    _, second = fired(store, excluding(overlap), START, START + SECOND)
    [runs] = go(store)
    return runs, store.get_instance(second.id)


def end_uncalled(store: Store, instance: TaskInstance) -> bool:
    """Let a run be over that was never called, and is due again."""
    end = RunOutcome(claim=claim_of(instance))
    return store.finish_instances([end]).done == {instance.id}


class SlotTests:
    """Slots are taken by starts, kept, and let go of by ends."""

    @pytest.mark.parametrize("overlap", EXCLUSIVE)
    def test_of_a_definition_that_allows_no_overlap_one_instance_starts(
        self, store: Store, overlap: Overlap
    ) -> None:
        first, second = fired(store, excluding(overlap), START, START + SECOND)
        assert ids(go(store)) == [first.id]
        parked = store.get_instance(second.id)
        assert parked == replace(second, parked=True, attempt=1)
        assert parked.state is State.PENDING

    def test_without_overlap_and_lock_all_start_with_their_claim(
        self, store: Store
    ) -> None:
        fired(store, excluding(Overlap.ALLOW), START - SECOND, START)
        assert [each.state for each in claim(store)] == 2 * [State.RUNNING]
        assert settled(store) == NOTHING

    def test_what_has_to_have_a_slot_is_started_by_no_claim(self, store: Store) -> None:
        fired(store, excluding())
        [claimed] = claim(store, lead=HOUR)
        assert (claimed.state, claimed.runs) == (State.CLAIMED, 0)
        assert claimed.expires_at == START + LEASE

    def test_of_all_definitions_with_one_lock_one_instance_starts(
        self, store: Store
    ) -> None:
        for lock in ("a", "a", "a", "b"):
            fired(store, excluding(Overlap.ALLOW, lock=lock))
        locks = [each.definition.lock for each in go(store)]
        assert sorted(map(str, locks)) == ["a", "b"]

    def test_a_lock_may_have_any_name(self, store: Store) -> None:
        lock = 'späte\t"Löhne", {a}\\'
        fired(store, excluding(Overlap.SKIP, lock=lock))
        [runs] = go(store)
        assert (runs.definition.lock, runs.definition.overlap) == (lock, Overlap.SKIP)
        read = store.get_definition(runs.definition.id)
        assert (read.lock, read.overlap) == (lock, Overlap.SKIP)

    def test_a_lock_is_not_a_definition_of_the_same_id(self, store: Store) -> None:
        own = excluding()
        fired(store, own)
        fired(store, excluding(Overlap.ALLOW, lock=str(own.id)))
        assert len(go(store)) == 2

    def test_the_one_whose_turn_it_is_starts_first(self, store: Store) -> None:
        times = [START + number * SECOND for number in (2, 0, 1)]
        made = [fired(store, excluding(lock="a"), each)[0] for each in times]
        [runs] = go(store)
        assert runs.id == made[1].id

    def test_the_turn_is_by_priority_before_the_time(self, store: Store) -> None:
        late, early, first = (
            fired(store, replace(excluding(lock="a"), priority=priority), at)[0]
            for priority, at in ((2, START), (2, START - SECOND), (0, START + SECOND))
        )
        for expected in (first, early, late):
            [runs] = go(store)
            assert runs.id == expected.id
            finish(store, runs)
            settled(store)

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

    def test_a_second_start_of_the_holder_is_answered_alike(self, store: Store) -> None:
        runs, _ = pair(store)
        assert start(store, runs) == [runs]
        assert store.get_instance(runs.id) == runs

    def test_a_lost_claim_takes_no_slot(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        [given] = claim(store)
        cancel(store, given)
        assert start(store, given) == []
        [other] = fired(store, excluding(lock="a"))
        assert ids(go(store)) == [other.id]

    def test_starts_with_and_without_slots_are_answered_together(
        self, store: Store
    ) -> None:
        plain = pending(store, definition(START + SECOND))
        first, second = fired(store, excluding(), START, START + SECOND)
        given = claim(store, ahead=MINUTE)
        found = {each.id: each.parked for each in start(store, *given)}
        assert found == {plain.id: False, first.id: False, second.id: True}

    def test_a_start_in_a_slot_holds_as_long_as_any_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        fired(store, replace(excluding(), expire_after=SECOND))
        given = claim(store)
        clock.advance(MINUTE)
        [runs] = start(store, *given)
        assert (runs.runs, runs.started_at) == (1, START + MINUTE)
        assert runs.expires_at == START + MINUTE + SECOND

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

    def test_cancelling_what_is_parked_ends_it(self, store: Store) -> None:
        runs, parked = pair(store)
        assert cancel(store, parked) == {parked.id: Cancelled.CANCELLED}
        found = store.get_instance(parked.id)
        assert (found.state, found.parked) == (State.CANCELLED, False)
        finish(store, runs)
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

    def test_nobody_gets_a_slot_twice_whoever_starts_at_the_same_moment(
        self, store: Store
    ) -> None:
        for _ in range(8):
            fired(store, excluding(Overlap.ALLOW, lock="a"))
            fired(store, excluding(Overlap.ALLOW, lock="b"))
        claims = [claim_of(each) for each in claim(store)]

        def start_some(number: int) -> Sequence[TaskInstance]:
            return store.start_instances(claimant(), claims[number::4]).done

        answers = at_once(*(lambda n=n: start_some(n) for n in range(4)))
        started = [
            each.definition.lock
            for answer in answers
            for each in answer  # type: ignore[attr-defined]
            if not each.parked
        ]
        assert sorted(started) == ["a", "b"]
        assert store.counts()[State.RUNNING] == 2
