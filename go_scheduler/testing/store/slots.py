"""Store suite: of instances that exclude each other one runs, and the others wait."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Reviewed, RunOutcome
from go_scheduler.stores.rules import MOST_BUFFERED, slot_of
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
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
from go_scheduler.testing.store.additions import started_all
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

    def test_of_many_too_the_one_whose_turn_it_is_starts(self, store: Store) -> None:
        made = fired(
            store, excluding(lock="a"), *(START - n * SECOND for n in range(20))
        )
        latest_first = sorted(claim(store), key=attrgetter("due_at"), reverse=True)
        started = start(store, *latest_first)
        assert len(started) == len(made)
        assert [each.due_at for each in started if not each.parked] == [made[0].due_at]

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

    def test_nobody_gets_a_slot_twice_whoever_starts_at_the_same_moment(
        self, store: Store
    ) -> None:
        for _ in range(8):
            fired(store, excluding(Overlap.ALLOW, lock="a"))
            fired(store, excluding(Overlap.ALLOW, lock="b"))
        claims = [claim_of(each) for each in claim(store)]

        def start_some(number: int) -> Sequence[TaskInstance]:
            return started_all(store, claims[number::4])

        answers = at_once(*(lambda n=n: start_some(n) for n in range(4)))
        started = [
            each.definition.lock
            for answer in answers
            for each in answer  # type: ignore[attr-defined]
            if not each.parked
        ]
        assert sorted(started) == ["a", "b"]
        assert store.counts()[State.RUNNING] == 2


def holder(store: Store, of: TaskDefinition) -> TaskInstance | None:
    """Which instance has the slot of a definition."""
    slot = slot_of(of, fired=True)
    assert slot is not None
    return store.slot_holder(slot)


class SlotHolderTests:
    """``slot_holder``."""

    def test_who_runs_has_the_slot_and_not_who_is_parked(self, store: Store) -> None:
        runs, parked = pair(store)
        assert holder(store, parked.definition) == store.get_instance(runs.id)

    def test_a_lock_is_had_by_an_instance_of_any_definition(self, store: Store) -> None:
        [first] = fired(store, excluding(lock="printer"), START)
        [second] = fired(store, excluding(lock="printer"), START + SECOND)
        go(store)
        for each in (first, second):
            found = holder(store, each.definition)
            assert found is not None
            assert (found.id, found.definition.id) == (first.id, first.definition.id)

    def test_who_waits_for_a_retry_has_it_still(self, store: Store) -> None:
        runs, _ = pair(store)
        finish(store, runs, None, retry_in=SECOND)
        found = holder(store, runs.definition)
        assert found is not None
        assert (found.id, found.runs) == (runs.id, 1)

    def test_nobody_has_it_after_the_end(self, store: Store) -> None:
        runs, _ = pair(store)
        finish(store, runs, Outcome.COMPLETED)
        assert holder(store, runs.definition) is None

    def test_a_slot_that_was_never_taken_has_nobody(self, store: Store) -> None:
        [first] = fired(store, excluding(), START)
        assert holder(store, first.definition) is None
        assert store.slot_holder("lock nobody's") is None


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
