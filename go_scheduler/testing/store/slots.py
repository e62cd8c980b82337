"""Store suite: of instances that exclude each other one runs, and the others wait."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Reviewed, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NODE,
    SECOND,
    at_once,
    cancel,
    claim,
    claim_of,
    claimant,
    definition,
    finish,
    fire,
    ids,
    pending,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.asked_again import started_all

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
