"""Store suite: of instances that exclude each other one runs, the others wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Cancelled, Outcome, State, TaskDefinition, TaskInstance
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.rules import MOST_BUFFERED, slot_of
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    Rig,
    StoreTests,
    at_once,
    check,
    counts_by_state,
    definition,
    ids,
    task,
)
from go_scheduler.testing.clock import START, settle
from go_scheduler.triggers.simple import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID


ALL = 10_000
NOTHING = Reviewed(unparked=[], skipped=[], replaced=[])
EXCLUSIVE = [each for each in Overlap if each is not Overlap.ALLOW]


def excluding(overlap: Overlap = Overlap.BUFFER_ALL, **fields: Any) -> TaskDefinition:
    """A definition whose instances exclude each other."""
    return definition(overlap=overlap, **fields)


def go(rig: Rig) -> Sequence[TaskInstance]:
    """Claim and start all that is due within an hour; return what runs."""
    given = rig.claim(ahead=HOUR, limit=ALL)
    return [each for each in rig.start(*given) if each.state is State.RUNNING]


def started(rig: Rig, new: TaskDefinition) -> TaskInstance:
    """A new definition's one instance, which runs."""
    [made] = rig.fired(new)
    [runs] = go(rig)
    assert runs.id == made.id
    return runs


def settled(rig: Rig) -> Reviewed:
    """Call ``review_parked``; return its answer with the earliest due first."""
    settle(rig.store)
    found = rig.store.review_parked(limit=ALL)
    unparked, skipped, replaced = (
        sorted(each, key=attrgetter("due_at"))
        for each in (found.unparked, found.skipped, found.replaced)
    )
    return replace(found, unparked=unparked, skipped=skipped, replaced=replaced)


def is_parked(rig: Rig, instance: TaskInstance) -> bool:
    """Whether an instance is parked, as it is stored."""
    return rig.read(instance).parked


def due_in_turn(
    rig: Rig,
    overlap: Overlap = Overlap.BUFFER_ALL,
    count: int = 2,
    *,
    lock: str | None = None,
    step: timedelta = SECOND,
) -> list[TaskInstance]:
    """Instances of one definition, due one after another; the first one runs."""
    times = (START + number * step for number in range(count))
    first, *others = rig.fired(excluding(overlap, lock=lock), *times)
    [runs] = go(rig)
    assert runs.id == first.id
    return [runs, *(rig.read(each) for each in others)]


def lock_and_waiter(rig: Rig) -> tuple[TaskInstance, TaskInstance]:
    """An instance that holds a lock, and one of another definition that waits."""
    runs = started(rig, excluding(lock="a"))
    [other] = rig.fired(excluding(lock="a"), START - SECOND)
    assert go(rig) == []
    return runs, other


def pause_uncalled(rig: Rig, run: TaskInstance) -> None:
    """Record that a run was not called, and pause its definition."""
    assert rig.finish(run, None, started_at=None)
    rig.pause(run.definition)
    assert ids(rig.instances(run.definition)) == [run.id]


def edit_uncalled(rig: Rig, run: TaskInstance) -> None:
    """Record that a run was not called, and give its definition another trigger."""
    assert rig.finish(run, None, started_at=None)
    rig.edit(run.definition, trigger=IntervalTrigger(MINUTE), revision=None)


def cancel_retry(rig: Rig, run: TaskInstance) -> None:
    """Let a run fail, and cancel its instance while that waits for the retry."""
    assert rig.finish(run, None, retry_in=MINUTE)
    assert rig.cancel(run) == {run.id: Cancelled.CANCELLED}


def release_retry(rig: Rig, run: TaskInstance) -> None:
    """Let a run fail, claim its instance again and release it."""
    assert rig.finish(run, None)
    [again] = rig.claim(ahead=HOUR)
    assert rig.release(again, 2 * HOUR)


FREED: Mapping[str, Callable[[Rig, TaskInstance], object]] = {
    "was released before its first call": lambda rig, run: rig.release(run),
    "was cancelled while it waited for a retry": cancel_retry,
    "was deleted": lambda rig, run: rig.delete(run.definition),
    "was paused before its first call": pause_uncalled,
    "was edited before its first call": edit_uncalled,
    "ended, and its node knew of no slot": lambda rig, run: rig.finish(
        run, started_at=None, has_slot=False
    ),
}
"""How an instance loses its slot before it ends."""

KEPT: Mapping[str, Callable[[Rig, TaskInstance], object]] = {
    "waits for a retry": lambda rig, run: rig.finish(run, None, retry_in=2 * HOUR),
    "was released after an earlier run": release_retry,
    "is asked to stop": lambda rig, run: rig.cancel(run),
    "is paused while it runs": lambda rig, run: rig.pause(run.definition),
    "runs during a cleanup": lambda rig, _: rig.clean_up(),
}
"""What does not take the slot from an instance."""


def holder(rig: Rig, of: TaskDefinition) -> UUID | None:
    """The id of the instance that holds the slot of a definition."""
    slot = slot_of(of, fired=True)
    assert slot is not None
    found = rig.store.slot_holder(slot)
    assert found is None or found == rig.read(found)
    return None if found is None else found.id


class SlotTests(StoreTests):
    """An instance has its slot from its first start to its end."""

    def test_without_overlap_one_instance_starts(self, rig: Rig) -> None:
        for overlap in EXCLUSIVE:
            first, second = rig.fired(excluding(overlap), START, START + SECOND)
            assert ids(go(rig)) == [first.id], overlap
            parked = rig.read(second)
            assert parked == replace(second, parked=True, attempt=1), overlap
            assert parked.state is State.PENDING

    def test_with_overlap_and_no_lock_all_start(self, rig: Rig) -> None:
        rig.fired(excluding(Overlap.ALLOW), START - SECOND, START)
        assert [each.state for each in rig.claim()] == 2 * [State.RUNNING]
        assert settled(rig) == NOTHING

    def test_what_has_to_have_a_slot_is_started_by_no_claim(self, rig: Rig) -> None:
        rig.fired(excluding())
        [claimed] = rig.claim(lead=HOUR)
        check(claimed, state=State.CLAIMED, runs=0, expires_at=START + LEASE)

    def test_of_all_that_share_a_lock_one_starts(self, rig: Rig) -> None:
        without = excluding()
        # A lock named like a definition's id is not the slot of that definition.
        locks = ["a", "b", 'späte\t"Löhne", {a}\\', str(without.id)]
        for new in (without, *(excluding(Overlap.SKIP, lock=each) for each in locks)):
            rig.fired(new)
            rig.fired(excluding(Overlap.ALLOW, lock=new.lock or "a"))
        runs = go(rig)
        found = [each.definition.lock for each in runs if each.definition.lock]
        assert sorted(found) == sorted(locks)
        assert len(runs) == len(locks) + 1
        for each in runs:
            rig.check(each.definition, lock=each.definition.lock)
            rig.check(each.definition, overlap=each.definition.overlap)

    def test_of_many_the_one_whose_turn_it_is_starts(self, rig: Rig) -> None:
        made = rig.fired(excluding(lock="a"), *(START - n * SECOND for n in range(20)))
        latest_first = sorted(rig.claim(), key=attrgetter("due_at"), reverse=True)
        started = rig.start(*latest_first)
        assert len(started) == len(made)
        assert [each.due_at for each in started if not each.parked] == [made[0].due_at]

    def test_the_turn_is_by_priority_before_the_time(self, rig: Rig) -> None:
        late, early, first = (
            rig.fired(excluding(lock="a", priority=priority), at)[0]
            for priority, at in ((2, START), (2, START - SECOND), (0, START + SECOND))
        )
        for expected in (first, early, late):
            [runs] = go(rig)
            assert runs.id == expected.id
            rig.finish(runs)
            settled(rig)

    def test_of_those_due_together_the_turn_is_by_execute_at(self, rig: Rig) -> None:
        made = rig.fired(excluding(lock="a"), *(START - n * SECOND for n in range(6)))
        for each in rig.claim():
            assert rig.release(each, MINUTE)
        rig.advance(MINUTE)
        latest_first = sorted(rig.claim(), key=attrgetter("execute_at"), reverse=True)
        assert {each.due_at for each in latest_first} == {rig.now()}
        [runs] = [each for each in rig.start(*latest_first) if not each.parked]
        for before, following in pairwise(made):
            assert runs.id == before.id
            rig.finish(runs)
            assert ids(settled(rig).unparked) == [following.id]
            [runs] = go(rig)

    def test_a_lost_claim_takes_no_slot(self, rig: Rig) -> None:
        rig.fired(excluding(lock="a"))
        [given] = rig.claim()
        rig.cancel(given)
        assert rig.start(given) == []
        [other] = rig.fired(excluding(lock="a"))
        assert ids(go(rig)) == [other.id]

    def test_a_batch_may_mix_starts_with_and_without_slots(self, rig: Rig) -> None:
        plain = rig.pending(definition(START + SECOND))
        first, second = rig.fired(excluding(), START, START + SECOND)
        given = rig.claim(ahead=MINUTE)
        found = {each.id: each.parked for each in rig.start(*given)}
        assert found == {plain.id: False, first.id: False, second.id: True}

    def test_a_start_in_a_slot_holds_as_long_as_any_other(self, rig: Rig) -> None:
        rig.fired(excluding(expire_after=SECOND))
        given = rig.claim()
        rig.advance(MINUTE)
        [runs] = rig.start(*given)
        assert (runs.runs, runs.started_at) == (1, START + MINUTE)
        assert runs.expires_at == START + MINUTE + SECOND

    def test_concurrent_starts_take_a_slot_once(self, rig: Rig) -> None:
        for _ in range(8):
            rig.fired(excluding(Overlap.ALLOW, lock="a"))
            rig.fired(excluding(Overlap.ALLOW, lock="b"))
        claims = rig.claim()
        answers = at_once(*(partial(rig.start, *claims[n::4]) for n in range(4)))
        started = [each for answer in answers for each in answer if not each.parked]
        assert {each.definition.lock for each in started} == {"a", "b"}
        assert len(started) == 2
        assert counts_by_state(rig.store)[State.RUNNING] == 2

    def test_it_is_who_runs_or_waits_for_a_retry_until_the_end(self, rig: Rig) -> None:
        of = rig.put(excluding())
        assert holder(rig, of) is None
        assert rig.store.slot_holder("lock nobody's") is None
        first, second = rig.fire(of, START, START + SECOND)
        [runs] = go(rig)
        assert is_parked(rig, second)
        assert holder(rig, of) == runs.id == first.id
        rig.finish(runs, None)
        assert holder(rig, of) == runs.id
        [runs] = go(rig)
        rig.finish(runs)
        assert holder(rig, of) is None

    def test_a_lock_is_had_by_an_instance_of_any_definition(self, rig: Rig) -> None:
        runs, other = lock_and_waiter(rig)
        for each in (runs, other):
            assert holder(rig, each.definition) == runs.id

    def test_an_end_lets_go_of_the_slot(self, rig: Rig) -> None:
        for outcome in Outcome:
            runs, parked = due_in_turn(rig)
            assert rig.finish(runs, outcome)
            unparked = settled(rig).unparked
            assert unparked == [replace(parked, parked=False)], outcome
            [goes_on] = go(rig)
            assert (goes_on.id, goes_on.attempt) == (parked.id, 2), outcome

    def test_a_slot_is_free_without_its_instance_or_its_call(self, rig: Rig) -> None:
        for how, let_go in FREED.items():
            runs, other = lock_and_waiter(rig)
            let_go(rig, runs)
            assert ids(settled(rig).unparked) == [other.id], f"the holder {how}"
            assert ids(go(rig)) == [other.id], f"the holder {how}"
            rig.delete(runs.definition, other.definition)

    def test_an_instance_has_its_slot_until_it_has_ended(self, rig: Rig) -> None:
        for how, keep in KEPT.items():
            runs, other = lock_and_waiter(rig)
            keep(rig, runs)
            assert settled(rig).unparked == [], f"the holder {how}"
            assert go(rig) == [], f"the holder {how}"
            rig.delete(runs.definition, other.definition)

    def test_what_is_taken_over_has_its_slot(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig)
        rig.advance(LEASE)
        assert settled(rig).unparked == []
        [taken] = rig.take_over()
        assert (taken.id, taken.state) == (runs.id, State.CLAIMED)
        # The first node can only report a success now.
        assert not rig.finish(runs, Outcome.FAILED)
        [again] = rig.start(taken)
        assert (again.attempt, again.runs) == (2, 2)
        assert rig.release(again)
        assert settled(rig).unparked == []
        assert rig.finish(runs)
        assert ids(settled(rig).unparked) == [parked.id]

    def test_a_delete_leaves_the_slot_to_who_has_it(self, rig: Rig) -> None:
        _, other = lock_and_waiter(rig)
        rig.delete(other.definition)
        rig.fired(excluding(lock="a"))
        assert settled(rig).unparked == []
        assert go(rig) == []

    def test_an_id_that_begins_another_life_finds_its_slot_free(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig)
        assert rig.delete(runs.definition)
        assert rig.read(runs).state is State.CANCELLED
        with pytest.raises(TaskInstanceNotFoundError):
            rig.read(parked)
        [again] = rig.fired(replace(runs.definition, revision=None), START)
        assert ids(go(rig)) == [again.id]


STAYS = {
    Overlap.SKIP: (),
    Overlap.BUFFER_ONE: (1,),
    Overlap.REPLACE: (3,),
    Overlap.BUFFER_ALL: (1, 2, 3),
}
"""Four instances are due, the first runs: which of the others are not skipped."""


class ReviewTests(StoreTests):
    """``review_parked`` decides what a parked instance does."""

    def test_what_is_parked_is_pending_and_is_claimed_by_nobody(self, rig: Rig) -> None:
        runs, _ = due_in_turn(rig)
        rig.advance(HOUR)
        assert counts_by_state(rig.store)[State.PENDING] == 1
        settle(rig.store)
        assert not rig.store.list_due_queues(apart_from=[])
        assert ids(rig.take_over()) == [runs.id]
        assert rig.take_over() == []

    def test_a_free_slot_may_unpark_several(self, rig: Rig) -> None:
        runs, second, third = due_in_turn(rig, count=3)
        rig.finish(runs)
        for each in (second, third):
            assert ids(settled(rig).unparked) == [each.id]
        assert ids(go(rig)) == [second.id]

    def test_a_review_goes_on_where_the_last_one_ended(self, rig: Rig) -> None:
        for lock in "abcde":
            rig.fired(excluding(lock=lock), START, START + SECOND)
        rig.fired(excluding(Overlap.SKIP), *(START + n * SECOND for n in range(6)))
        for each in go(rig):
            if each.definition.lock is not None:
                rig.finish(each)
        rig.advance(MINUTE)
        counts: Counter[str] = Counter()
        more = True
        while more:
            settle(rig.store)
            found = rig.store.review_parked(limit=2)
            page = {"unparked": len(found.unparked), "skipped": len(found.skipped)}
            assert max(page.values()) <= 2
            counts.update(page)
            more = found.more
        assert counts == {"unparked": 5, "skipped": 5}

    def test_cancelling_what_is_parked_ends_it(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig)
        _, frozen = lock_and_waiter(rig)
        rig.pause(frozen.definition)
        for each in (parked, frozen):
            assert rig.cancel(each) == {each.id: Cancelled.CANCELLED}
            rig.check(each, state=State.CANCELLED, parked=False)
        rig.finish(runs)
        assert settled(rig).unparked == []

    def test_a_pause_freezes_what_is_parked_and_keeps_slots(self, rig: Rig) -> None:
        runs = started(rig, excluding(lock="a"))
        retried, _ = rig.fired(excluding(lock="b"), START, START + SECOND)
        [second] = go(rig)
        assert second.id == retried.id
        rig.finish(second, None, retry_in=MINUTE)
        ids_of_both = [runs.definition.id, retried.definition.id]
        rig.store.pause_definitions(ids_of_both)
        rig.finish(runs)
        rig.advance(HOUR)
        assert settled(rig).unparked == []
        assert go(rig) == []
        [other] = rig.fired(excluding(lock="b"), START + MINUTE)
        assert go(rig) == []
        rig.store.resume_definitions(ids_of_both)
        assert ids(go(rig)) == [second.id]
        assert is_parked(rig, other)

    def test_what_meets_a_run_is_skipped_or_waits(self, rig: Rig) -> None:
        for overlap, stays in STAYS.items():
            runs, *others = made = due_in_turn(rig, overlap, 4, step=TICK)
            rig.advance(SECOND)
            found = settled(rig)
            waits = [made[number].id for number in stays]
            skipped = [each.id for each in others if each.id not in waits]
            assert ids(found.skipped) == skipped, overlap
            assert ids(found.replaced) == [runs.id] * (overlap is Overlap.REPLACE)
            assert settled(rig) == replace(NOTHING, parked=bool(waits)), overlap
            rig.finish(runs)
            assert ids(settled(rig).unparked) == waits[:1], overlap
            rig.delete(runs.definition)

    def test_it_is_decided_when_it_is_due_and_not_before(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig, Overlap.SKIP)
        rig.advance(SECOND - TICK)
        assert settled(rig).skipped == []
        assert rig.finish(runs)
        assert ids(settled(rig).unparked) == [parked.id]
        assert ids(go(rig)) == [parked.id]

    def test_what_is_skipped_ends_and_says_why(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig, Overlap.SKIP)
        rig.advance(SECOND)
        [skipped] = settled(rig).skipped
        assert skipped == rig.read(parked)
        check(skipped, state=State.SKIPPED, parked=False, completed_at=START + SECOND)
        assert skipped.skipped is not None
        assert skipped.skipped.reason.startswith("another instance of its definition")
        assert skipped.skipped.count == 1
        assert skipped.skipped.first == skipped.skipped.last == START + SECOND
        assert rig.read(runs) == runs

    def test_while_another_has_the_lock_one_waits(self, rig: Rig) -> None:
        for overlap, stays in (
            (Overlap.SKIP, 0),
            (Overlap.BUFFER_ONE, 0),
            (Overlap.REPLACE, 1),
        ):
            runs = started(rig, excluding(Overlap.ALLOW, lock="a"))
            of = excluding(overlap, lock="a")
            made = rig.fired(of, rig.now(), rig.now() + SECOND)
            assert go(rig) == []
            rig.advance(SECOND)
            found = settled(rig)
            assert ids(found.skipped) == [made[1 - stays].id], overlap
            assert found.replaced == []
            assert rig.read(runs) == runs
            rig.finish(runs)
            assert ids(settled(rig).unparked) == [made[stays].id], overlap
            rig.delete(of)

    def test_buffer_all_skips_what_is_too_many(self, rig: Rig) -> None:
        times = [START + number * TICK for number in range(MOST_BUFFERED + 3)]
        rig.fired(excluding(Overlap.BUFFER_ALL), *times)
        go(rig)
        rig.advance(MINUTE)
        skipped = [each.fire_time for each in settled(rig).skipped]
        assert skipped == times[MOST_BUFFERED + 1 :]
        assert counts_by_state(rig.store)[State.PENDING] == MOST_BUFFERED

    def test_replace_stops_a_run_and_follows_it(self, rig: Rig) -> None:
        runs, second, third = due_in_turn(rig, Overlap.REPLACE, 3)
        rig.advance(SECOND - TICK)
        assert settled(rig).replaced == []
        rig.advance(TICK)
        found = settled(rig)
        assert (ids(found.replaced), found.skipped) == ([runs.id], [])
        assert rig.read(runs) == replace(runs, cancel_requested=True)
        rig.advance(SECOND)
        # The one that waited is skipped for the next one.
        found = settled(rig)
        assert (found.replaced, ids(found.skipped)) == ([], [second.id])
        rig.finish(runs, Outcome.CANCELLED)
        assert ids(settled(rig).unparked) == [third.id]

    def test_replace_cancels_what_waits_for_a_retry(self, rig: Rig) -> None:
        runs, parked = due_in_turn(rig, Overlap.REPLACE)
        rig.finish(runs, None, retry_in=HOUR)
        rig.advance(SECOND)
        found = settled(rig)
        [replaced] = found.replaced
        assert (replaced.id, replaced.state) == (runs.id, State.CANCELLED)
        assert ids(found.unparked) == [parked.id]

    def test_replace_only_asks_one_whose_trigger_waits(self, rig: Rig) -> None:
        new = excluding(Overlap.REPLACE, lock="a", trigger=WAITING)
        runs = started(rig, new)
        rig.finish(runs, None, retry_in=2 * HOUR)
        rig.add(new)
        assert go(rig) == []
        [replaced] = settled(rig).replaced
        check(replaced, id=runs.id, state=State.PENDING, cancel_requested=True)

    def test_what_only_waits_for_a_lock_is_not_judged(self, rig: Rig) -> None:
        due_in_turn(rig, Overlap.ALLOW, 4, lock="a")
        rig.advance(MINUTE)
        assert settled(rig) == replace(NOTHING, parked=True)

    def test_what_waits_in_several_slots_is_judged_at_once(self, rig: Rig) -> None:
        parked = [due_in_turn(rig, Overlap.SKIP)[1] for _ in range(3)]
        rig.advance(MINUTE)
        assert sorted(ids(settled(rig).skipped)) == sorted(ids(parked))

    def test_what_is_frozen_is_not_judged(self, rig: Rig) -> None:
        plain = rig.waiting_for_retry(retry_in=SECOND)
        rig.fired(excluding(lock="a"))
        go(rig)
        rig.edit(plain.definition, overlap=Overlap.SKIP, lock="a", revision=None)
        rig.pause(plain.definition)
        rig.advance(MINUTE)
        assert settled(rig).skipped == []

    def test_concurrent_reviews_judge_each_once(self, rig: Rig) -> None:
        made = due_in_turn(rig, Overlap.BUFFER_ONE, 6)
        rig.advance(MINUTE)
        settle(rig.store)
        answers = at_once(*(4 * [lambda: rig.store.review_parked(limit=ALL)]))
        skipped = [each.id for answer in answers for each in answer.skipped]
        skipped += ids(settled(rig).skipped)
        assert sorted(skipped) == sorted(ids(made[2:]))

    def test_a_review_long_after_the_end_decides_the_same(self, rig: Rig) -> None:
        for overlap, stays in STAYS.items():
            for lock in (None, "a"):
                # The last ones are parked before they are due.
                made = due_in_turn(rig, overlap, 4, lock=lock, step=TICK)
                runs, *others = made
                rig.advance(SECOND)
                assert rig.finish(runs)
                rig.advance(SECOND)
                found = settled(rig)
                remain = [made[number].id for number in stays]
                skipped = [each.id for each in others if each.id not in remain]
                assert ids(found.skipped) == skipped, overlap
                assert found.replaced == []
                assert ids(found.unparked) == ids(go(rig)) == remain[:1], overlap
                rig.delete(runs.definition)

    def test_what_is_yet_to_be_judged_does_not_go_on(self, rig: Rig) -> None:
        runs, *others = due_in_turn(rig, Overlap.SKIP, 4, step=TICK)
        rig.advance(SECOND)
        rig.finish(runs)
        settle(rig.store)
        skipped: list[UUID] = []
        # A call may find nothing at the end of its round.
        for _ in range(6):
            found = rig.store.review_parked(limit=1)
            assert not found.unparked
            skipped += ids(found.skipped)
        assert skipped == ids(others)
        assert settled(rig) == NOTHING

    def test_what_met_one_that_was_given_back_goes_on(self, rig: Rig) -> None:
        of = rig.put(task(overlap=Overlap.SKIP))
        added = {rig.add(of).id, rig.add(of).id}
        [run] = go(rig)
        rig.release(run, delay=HOUR)
        [free] = rig.store.review_parked(limit=ALL).unparked
        assert {free.id, run.id} == added

    def test_a_run_that_ended_in_time_skips_nothing(self, rig: Rig) -> None:
        in_time, goes_on = due_in_turn(rig, Overlap.SKIP)
        too_late, met = due_in_turn(rig, Overlap.SKIP)
        for run, later in ((in_time, SECOND - TICK), (too_late, TICK)):
            rig.advance(later)
            rig.finish(run)
        assert rig.now() == met.due_at
        rig.advance(MINUTE)
        found = settled(rig)
        assert (ids(found.skipped), ids(found.unparked)) == ([met.id], [goes_on.id])

    def test_an_ended_run_of_another_skips_nothing(self, rig: Rig) -> None:
        runs = started(rig, excluding(Overlap.ALLOW, lock="a"))
        [waits] = rig.fired(excluding(Overlap.SKIP, lock="a"))
        assert go(rig) == []
        rig.advance(SECOND)
        rig.finish(runs)
        found = settled(rig)
        assert (found.skipped, ids(found.unparked)) == ([], [waits.id])

    def test_what_met_a_run_is_judged_while_another_has_the_lock(
        self, rig: Rig
    ) -> None:
        runs, second, third = due_in_turn(rig, Overlap.REPLACE, 3, lock="a", step=TICK)
        rig.advance(SECOND)
        rig.finish(runs)
        other = started(rig, excluding(Overlap.ALLOW, lock="a"))
        found = settled(rig)
        assert (ids(found.skipped), found.replaced) == ([second.id], [])
        rig.finish(other)
        assert ids(settled(rig).unparked) == [third.id]
