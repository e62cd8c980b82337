"""Store suite: one instance of those that exclude each other runs, the others wait."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
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
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.testing.store.additions import started_all
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
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
    """Claim and start all that is due within an hour; answer what runs."""
    given = claim(store, node, queues=[queue], ahead=HOUR, limit=ALL)
    started = store.start_instances(claimant(node), [claim_of(each) for each in given])
    return [each for each in started.done if each.state is State.RUNNING]


def settled(store: Store) -> Reviewed:
    """The answer of ``review_parked``, each part with the earliest due first."""
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


def due_in_turn(
    store: Store,
    overlap: Overlap = Overlap.BUFFER_ALL,
    count: int = 2,
    *,
    lock: str | None = None,
    step: timedelta = SECOND,
) -> list[TaskInstance]:
    """Instances of one definition, one due after another: the first runs."""
    times = (START + number * step for number in range(count))
    first, *others = fired(store, excluding(overlap, lock=lock), *times)
    [runs] = go(store)
    assert runs.id == first.id
    return [runs, *(store.get_instance(each.id) for each in others)]


def lock_and_waiter(store: Store) -> tuple[TaskInstance, TaskInstance]:
    """An instance that has a lock, and one of another definition that waits for it."""
    fired(store, excluding(lock="a"))
    [runs] = go(store)
    [other] = fired(store, excluding(lock="a"), START - SECOND)
    assert go(store) == []
    return runs, other


def end(store: Store, run: TaskInstance, **fields: Any) -> None:
    """Record the end of a run whose handler was not called."""
    outcome = RunOutcome(claim=claim_of(run), **fields)
    assert store.finish_instances([outcome]).done == {run.id}


def pause_uncalled(store: Store, run: TaskInstance) -> None:
    """Record that a run was not called, and pause its definition."""
    end(store, run)
    store.pause_definitions([run.definition.id])
    assert ids(instances(store, run.definition)) == [run.id]


def edit_uncalled(store: Store, run: TaskInstance) -> None:
    """Record that a run was not called, and give its definition another trigger."""
    end(store, run)
    new = replace(run.definition, trigger=IntervalTrigger(MINUTE), revision=None)
    put(store, new)


def cancel_retry(store: Store, run: TaskInstance) -> None:
    """Let a run fail, and cancel its instance while that waits for the retry."""
    assert finish(store, run, None, retry_in=MINUTE)
    assert cancel(store, run) == {run.id: Cancelled.CANCELLED}


def release_retry(store: Store, run: TaskInstance) -> None:
    """Let a run fail, and give its instance back when that is claimed again."""
    assert finish(store, run, None)
    [again] = claim(store, ahead=HOUR)
    assert release(store, again, 2 * HOUR)


FREED: Mapping[str, Callable[[Store, TaskInstance], object]] = {
    "has been given back, and was never called": release,
    "was cancelled while it waited for a retry": cancel_retry,
    "was deleted": lambda store, run: store.delete_definitions([run.definition.id]),
    "was paused, and never called": pause_uncalled,
    "was edited, and never called": edit_uncalled,
    "has ended, and its node knew of no slot": partial(
        end, outcome=Outcome.COMPLETED, has_slot=False
    ),
}
"""How an instance loses its slot before it ends."""

KEPT: Mapping[str, Callable[[Store, TaskInstance], object]] = {
    "waits for a retry": partial(finish, outcome=None, retry_in=2 * HOUR),
    "has been given back, and ran before": release_retry,
    "is asked to stop": cancel,
    "has been paused while it runs": lambda store, run: store.pause_definitions(
        [run.definition.id]
    ),
    "runs during a cleanup": lambda store, _: clean_up(store),
}
"""What does not take the slot from an instance."""


class SlotTests:
    """``start_instances`` takes slots."""

    def test_of_a_definition_that_allows_no_overlap_one_instance_starts(
        self, store: Store
    ) -> None:
        for overlap in EXCLUSIVE:
            first, second = fired(store, excluding(overlap), START, START + SECOND)
            assert ids(go(store)) == [first.id], overlap
            parked = store.get_instance(second.id)
            assert parked == replace(second, parked=True, attempt=1), overlap
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
        without = excluding()
        # A lock named like a definition's id is not the slot of that definition.
        locks = ["a", "b", 'späte\t"Löhne", {a}\\', str(without.id)]
        for new in (without, *(excluding(Overlap.SKIP, lock=each) for each in locks)):
            fired(store, new)
            fired(store, excluding(Overlap.ALLOW, lock=new.lock or "a"))
        runs = go(store)
        found = [each.definition.lock for each in runs if each.definition.lock]
        assert sorted(found) == sorted(locks)
        assert len(runs) == len(locks) + 1
        for each in runs:
            read = store.get_definition(each.definition.id)
            assert (read.lock, read.overlap) == (
                each.definition.lock,
                each.definition.overlap,
            )

    def test_of_many_the_one_whose_turn_it_is_starts(self, store: Store) -> None:
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


def holder(store: Store, of: TaskDefinition) -> UUID | None:
    """Which instance has the slot of a definition."""
    slot = slot_of(of, fired=True)
    assert slot is not None
    found = store.slot_holder(slot)
    assert found is None or found == store.get_instance(found.id)
    return None if found is None else found.id


class SlotHolderTests:
    """``slot_holder``."""

    def test_it_is_who_runs_or_waits_for_a_retry_until_the_end(
        self, store: Store
    ) -> None:
        of = put(store, excluding())
        assert holder(store, of) is None
        assert store.slot_holder("lock nobody's") is None
        first, second = fire(store, of, START, START + SECOND)
        [runs] = go(store)
        assert is_parked(store, second)
        assert holder(store, of) == runs.id == first.id
        finish(store, runs, None)
        assert holder(store, of) == runs.id
        [runs] = go(store)
        finish(store, runs)
        assert holder(store, of) is None

    def test_a_lock_is_had_by_an_instance_of_any_definition(self, store: Store) -> None:
        runs, other = lock_and_waiter(store)
        for each in (runs, other):
            assert holder(store, each.definition) == runs.id


class FreedSlotTests:
    """An instance has its slot from its first start to its end."""

    def test_an_end_lets_go_of_the_slot(self, store: Store) -> None:
        for outcome in Outcome:
            runs, parked = due_in_turn(store)
            assert finish(store, runs, outcome)
            unparked = settled(store).unparked
            assert unparked == [replace(parked, parked=False)], outcome
            [goes_on] = go(store)
            assert (goes_on.id, goes_on.attempt) == (parked.id, 2), outcome

    def test_a_slot_is_free_once_its_instance_is_gone_or_was_never_called(
        self, store: Store
    ) -> None:
        for how, let_go in FREED.items():
            runs, other = lock_and_waiter(store)
            let_go(store, runs)
            assert ids(settled(store).unparked) == [other.id], f"its holder {how}"
            assert ids(go(store)) == [other.id], f"its holder {how}"
            store.delete_definitions([runs.definition.id, other.definition.id])

    def test_an_instance_has_its_slot_until_it_has_ended(self, store: Store) -> None:
        for how, keep in KEPT.items():
            runs, other = lock_and_waiter(store)
            keep(store, runs)
            assert settled(store).unparked == [], f"its holder {how}"
            assert go(store) == [], f"its holder {how}"
            store.delete_definitions([runs.definition.id, other.definition.id])

    def test_a_run_that_waits_for_a_retry_has_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store)
        assert finish(store, runs, None, retry_in=MINUTE)
        assert settled(store).unparked == []
        assert claim(store) == []
        clock.advance(MINUTE)
        [again] = go(store)
        assert (again.id, again.runs) == (runs.id, 2)
        assert finish(store, again)
        assert ids(settled(store).unparked) == [parked.id]

    def test_what_is_taken_over_has_its_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store)
        clock.advance(LEASE)
        assert settled(store).unparked == []
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert (taken.id, taken.state) == (runs.id, State.CLAIMED)
        # The first node can only report a success now.
        assert not finish(store, runs, Outcome.FAILED)
        [again] = start(store, taken)
        assert (again.attempt, again.runs) == (2, 2)
        assert release(store, again)
        assert settled(store).unparked == []
        assert finish(store, runs)
        assert ids(settled(store).unparked) == [parked.id]

    def test_a_delete_leaves_the_slot_to_who_has_it(self, store: Store) -> None:
        _, other = lock_and_waiter(store)
        store.delete_definitions([other.definition.id])
        fired(store, excluding(lock="a"))
        assert settled(store).unparked == []
        assert go(store) == []

    def test_an_id_that_begins_another_life_finds_its_slot_free(
        self, store: Store
    ) -> None:
        runs, parked = due_in_turn(store)
        assert store.delete_definitions([runs.definition.id])
        assert store.get_instance(runs.id).state is State.CANCELLED
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(parked.id)
        [again] = fired(store, replace(runs.definition, revision=None), START)
        assert ids(go(store)) == [again.id]


class ParkedTests:
    """A parked instance cannot be claimed until its slot is free."""

    def test_what_is_parked_is_pending_and_is_claimed_by_nobody(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, _ = due_in_turn(store)
        clock.advance(HOUR)
        assert store.counts()[State.PENDING] == 1
        settle(store)
        assert not store.list_due_queues(apart_from=[])
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [runs.id]
        assert claim(store, OTHER_NODE, lapsed=True) == []

    def test_one_of_several_goes_on_when_a_slot_is_free(self, store: Store) -> None:
        runs, *parked = due_in_turn(store, count=4)
        while parked:
            assert settled(store).unparked == []
            assert finish(store, runs)
            following = parked.pop(0)
            assert ids(settled(store).unparked) == [following.id]
            [runs] = go(store)
            assert runs.id == following.id
        assert finish(store, runs)
        assert settled(store) == NOTHING

    def test_while_nobody_takes_the_slot_the_next_one_may_go_on_too(
        self, store: Store
    ) -> None:
        runs, second, third = due_in_turn(store, count=3)
        finish(store, runs)
        assert ids(settled(store).unparked) == [second.id]
        assert ids(settled(store).unparked) == [third.id]
        assert ids(go(store)) == [second.id]

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
            assert max(len(found.unparked), len(found.skipped)) <= 2
            unparked += ids(found.unparked)
            skipped += ids(found.skipped)
            more = found.more
        assert (len(unparked), len(skipped)) == (5, 5)

    def test_cancelling_what_is_parked_ends_it(self, store: Store) -> None:
        runs, parked = due_in_turn(store)
        _, frozen = lock_and_waiter(store)
        store.pause_definitions([frozen.definition.id])
        for each in (parked, frozen):
            assert cancel(store, each) == {each.id: Cancelled.CANCELLED}
            found = store.get_instance(each.id)
            assert (found.state, found.parked) == (State.CANCELLED, False)
        finish(store, runs)
        assert settled(store).unparked == []

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


STAYS = {
    Overlap.SKIP: (),
    Overlap.BUFFER_ONE: (1,),
    Overlap.REPLACE: (3,),
    Overlap.BUFFER_ALL: (1, 2, 3),
}
"""Four instances are due, the first runs: which of the others are not skipped."""


class OverlapTests:
    """``review_parked`` decides by the overlap of the definition."""

    def test_what_is_due_while_one_of_its_own_runs_is_skipped_or_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        for overlap, stays in STAYS.items():
            runs, *others = made = due_in_turn(store, overlap, 4, step=TICK)
            clock.advance(SECOND)
            found = settled(store)
            waits = [made[number].id for number in stays]
            skipped = [each.id for each in others if each.id not in waits]
            assert ids(found.skipped) == skipped, overlap
            assert ids(found.replaced) == [runs.id] * (overlap is Overlap.REPLACE)
            assert settled(store) == replace(NOTHING, parked=bool(waits)), overlap
            finish(store, runs)
            assert ids(settled(store).unparked) == waits[:1], overlap
            store.delete_definitions([runs.definition.id])

    def test_it_is_decided_when_it_is_due_and_not_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store, Overlap.SKIP)
        clock.advance(SECOND - TICK)
        assert settled(store).skipped == []
        assert finish(store, runs)
        assert ids(settled(store).unparked) == [parked.id]
        assert ids(go(store)) == [parked.id]

    def test_what_is_skipped_ends_and_says_why(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store, Overlap.SKIP)
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

    def test_beside_a_lock_of_another_definition_one_of_its_own_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        for overlap, stays in (
            (Overlap.SKIP, 0),
            (Overlap.BUFFER_ONE, 0),
            (Overlap.REPLACE, 1),
        ):
            fired(store, excluding(Overlap.ALLOW, lock="a"))
            [runs] = go(store)
            of = excluding(overlap, lock="a")
            made = fired(store, of, clock.now(), clock.now() + SECOND)
            assert go(store) == []
            clock.advance(SECOND)
            found = settled(store)
            assert ids(found.skipped) == [made[1 - stays].id], overlap
            assert found.replaced == []
            assert store.get_instance(runs.id) == runs
            finish(store, runs)
            assert ids(settled(store).unparked) == [made[stays].id], overlap
            store.delete_definitions([of.id])

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
        runs, second, third = due_in_turn(store, Overlap.REPLACE, 3)
        clock.advance(SECOND - TICK)
        assert settled(store).replaced == []
        clock.advance(TICK)
        found = settled(store)
        assert (ids(found.replaced), found.skipped) == ([runs.id], [])
        assert store.get_instance(runs.id) == replace(runs, cancel_requested=True)
        clock.advance(SECOND)
        # The one that waited is skipped for the next one.
        found = settled(store)
        assert (found.replaced, ids(found.skipped)) == ([], [second.id])
        finish(store, runs, Outcome.CANCELLED)
        assert ids(settled(store).unparked) == [third.id]

    def test_replace_cancels_what_waits_for_a_retry(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store, Overlap.REPLACE)
        finish(store, runs, None, retry_in=HOUR)
        clock.advance(SECOND)
        found = settled(store)
        [replaced] = found.replaced
        assert (replaced.id, replaced.state) == (runs.id, State.CANCELLED)
        assert ids(found.unparked) == [parked.id]

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

    def test_what_only_waits_for_a_lock_is_not_judged(
        self, store: Store, clock: ManualClock
    ) -> None:
        due_in_turn(store, Overlap.ALLOW, 4, lock="a")
        clock.advance(MINUTE)
        assert settled(store) == replace(NOTHING, parked=True)

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

    def test_nobody_is_judged_twice_whoever_looks_at_the_same_moment(
        self, store: Store, clock: ManualClock
    ) -> None:
        made = due_in_turn(store, Overlap.BUFFER_ONE, 6)
        clock.advance(MINUTE)
        settle(store)
        answers = at_once(*(4 * [lambda: store.review_parked(limit=ALL)]))
        skipped = [each.id for answer in answers for each in answer.skipped]  # type: ignore[attr-defined]
        skipped += ids(settled(store).skipped)
        assert sorted(skipped) == sorted(ids(made[2:]))


class MetTests:
    """``review_parked``, where the run that had the slot has ended by now."""

    def test_how_soon_anybody_looks_after_an_end_decides_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        for overlap, stays in STAYS.items():
            for lock in (None, "a"):
                # The last ones are parked before they are due.
                runs, *others = made = due_in_turn(
                    store, overlap, 4, lock=lock, step=TICK
                )
                clock.advance(SECOND)
                assert finish(store, runs)
                clock.advance(SECOND)
                found = settled(store)
                remain = [made[number].id for number in stays]
                skipped = [each.id for each in others if each.id not in remain]
                assert ids(found.skipped) == skipped, overlap
                assert found.replaced == []
                assert ids(found.unparked) == ids(go(store)) == remain[:1], overlap
                store.delete_definitions([runs.definition.id])

    def test_what_is_yet_to_be_judged_does_not_go_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, *others = due_in_turn(store, Overlap.SKIP, 4, step=TICK)
        clock.advance(SECOND)
        finish(store, runs)
        settle(store)
        skipped: list[UUID] = []
        # A call may find nothing at the end of its round.
        for _ in range(6):
            found = store.review_parked(limit=1)
            assert not found.unparked
            skipped += ids(found.skipped)
        assert skipped == ids(others)
        assert settled(store) == NOTHING

    def test_one_of_its_own_that_ended_before_it_was_due_skips_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        runs, parked = due_in_turn(store, Overlap.SKIP)
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
        runs, second, third = due_in_turn(
            store, Overlap.REPLACE, 3, lock="a", step=TICK
        )
        clock.advance(SECOND)
        finish(store, runs)
        fired(store, excluding(Overlap.ALLOW, lock="a"))
        [other] = go(store)
        found = settled(store)
        assert (ids(found.skipped), found.replaced) == ([second.id], [])
        finish(store, other)
        assert ids(settled(store).unparked) == [third.id]
