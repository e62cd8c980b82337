"""Store suite: fire times that have passed get instances that they did not have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, Skipped, State, TaskInstance
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    MINUTE,
    NOBODY,
    WAITING,
    YEAR,
    at_once,
    cancel,
    claim,
    clean_up,
    definition,
    finish,
    fire,
    firing,
    ids,
    instances,
    kept_by_store,
    put,
    start,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import backfilled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

PAST = [START - number * HOUR for number in (3, 2, 1)]
MANY = [START - number * MINUTE for number in range(1200, 0, -1)]


def backfill(
    store: Store,
    of: TaskDefinition,
    *fire_times: datetime,
    overlap: Overlap = Overlap.ALLOW,
) -> Sequence[datetime]:
    """Give fire times their instances."""
    return store.backfill_instances(of, fire_times, overlap=overlap)


def skipped_one(store: Store, of: TaskDefinition, at: datetime) -> TaskInstance:
    """An instance that was made for a fire time, due later, and has been skipped."""
    step = firing(of, at, next_fire_time=START + HOUR)
    step = replace(step, execute_times=(at + MINUTE,))
    assert store.fire_definitions([step]).done
    [run] = claim(store)
    assert finish(store, run, Outcome.SKIPPED, error="too late")
    return store.get_instance(run.id)


class BackfillTests:
    """``backfill_instances``."""

    def test_each_fire_time_gets_an_instance(self, store: Store) -> None:
        of = put(store, definition(START + HOUR, trigger=HOURLY, queue="slow"))
        assert backfill(store, of) == []
        assert backfill(store, of, *PAST) == PAST
        found = instances(store, of)
        assert times(found) == PAST
        for each, at in zip(found, PAST, strict=True):
            assert each == TaskInstance(
                id=each.id,
                definition=of,
                fire_time=at,
                execute_at=at,
                due_at=at,
                backfilled=Overlap.ALLOW,
                created_at=START,
            )
        assert kept_by_store(store.get_definition(of.id)) == kept_by_store(of)
        claimed = claim(store, queues=["slow"])
        assert times(claimed) == PAST
        assert {each.backfilled for each in claimed} == {Overlap.ALLOW}

    def test_no_backfill_makes_a_second_instance(self, store: Store) -> None:
        of = put(store, definition(PAST[1], trigger=HOURLY))
        assert backfill(store, of, PAST[0]) == [PAST[0]]
        # Nor does the schedule make a second one.
        there = fire(store, of, *PAST[:2], next_fire_time=START)
        assert backfill(store, of, *PAST) == [PAST[2]]
        assert backfill(store, of, *PAST) == []
        found = instances(store, of)
        assert times(found) == PAST
        overlaps = [each.backfilled for each in found]
        assert overlaps == [Overlap.ALLOW, None, Overlap.ALLOW]
        assert found[:2] == there
        outcomes = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)
        for run, outcome in zip(claim(store), outcomes, strict=True):
            assert finish(store, run, outcome)
        ended = instances(store, of)
        assert backfill(store, of, *PAST, overlap=Overlap.SKIP) == []
        assert instances(store, of) == ended

    def test_what_cleanup_has_deleted_is_not_known(
        self, store: Store, clock: ManualClock
    ) -> None:
        completed = put(store)
        goes_on = put(store, definition(START + YEAR))
        fire(store, completed)
        backfill(store, goes_on, START)
        for run in claim(store):
            assert finish(store, run)
        clock.advance(MINUTE)
        assert clean_up(store, limit=2) == 2
        for of in (completed, goes_on):
            assert backfill(store, of, START) == [START]
        assert clean_up(store) == 0
        assert len(claim(store)) == 2

    def test_one_that_was_skipped_is_overruled_once(self, store: Store) -> None:
        of = put(store, definition(PAST[1], trigger=HOURLY))
        before = skipped_one(store, of, PAST[1])
        assert backfill(store, of, *PAST[:2]) == PAST[:2]
        again = store.get_instance(before.id)
        assert again.state is State.PENDING
        assert (again.skipped, again.outcome, again.completed_at) == (None,) * 3
        assert (again.started_at, again.claimed_by, again.ended_attempt) == (None,) * 3
        assert again.execute_at == again.due_at == PAST[1] + MINUTE
        assert (again.runs, again.attempt) == (0, before.attempt)
        assert again.backfilled is Overlap.ALLOW
        runs = claim(store)
        assert times(runs) == PAST[:2]
        assert finish(store, runs[1], Outcome.SKIPPED, error="too late")
        assert backfill(store, of, PAST[1]) == []
        assert store.counts()[State.SKIPPED] == 1

    def test_what_is_recorded_as_skipped_is_overruled(self, store: Store) -> None:
        of = put(store, definition(PAST[0], trigger=HOURLY))
        skipped = Skipped(first=PAST[0], last=PAST[2], count=3, reason="late")
        step = firing(of, skipped=skipped, next_fire_time=START)
        assert store.fire_definitions([step]).done
        assert backfill(store, of, *PAST) == PAST
        assert backfill(store, of, *PAST) == []
        made = [each for each in instances(store, of) if each.skipped is None]
        assert times(made) == PAST

    def test_neither_an_edit_nor_a_pause_removes_one(self, store: Store) -> None:
        of = put(store, definition(PAST[1], trigger=HOURLY))
        skipped_one(store, of, PAST[1])
        backfill(store, of, *PAST[:2])
        later = START + HOUR
        put(store, replace(of, trigger=WAITING, next_fire_time=later))
        [paused] = store.pause_definitions([of.id])
        assert paused.next_fire_time == later
        assert backfill(store, paused, PAST[2]) == [PAST[2]]
        assert times(instances(store, of)) == PAST
        assert claim(store) == []
        store.resume_definitions([of.id])
        assert times(claim(store)) == PAST

    def test_a_trigger_that_waits_does_not_wait_for_its_end(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, *PAST)
        done, failed = claim(store, limit=2)
        assert finish(store, failed, Outcome.FAILED, error="late")
        of = put(store, replace(of, trigger=WAITING, next_fire_time=START))
        fire(store, of)
        [cancelled] = [each for each in instances(store, of) if each.attempt == 0][:1]
        later = START + HOUR
        assert cancel(store, cancelled, next_fire_time=later)
        assert store.reopen_instances([failed.id]) == {failed.id}
        runs = {each.fire_time: each for each in claim(store)}
        for each in (done, runs[failed.fire_time]):
            assert finish(store, each, next_fire_time=later)
        assert store.get_definition(of.id).next_fire_time is None
        assert finish(store, runs[START], next_fire_time=later)
        assert store.get_definition(of.id).next_fire_time == later

    def test_a_definition_gone_or_changed_is_an_error(self, store: Store) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            backfill(store, replace(definition(), id=NOBODY, revision=1), START)
        of = put(store, definition(START, trigger=HOURLY))
        put(store, replace(of, name="other"))
        with pytest.raises(ConflictError) as raised:
            backfill(store, of, *PAST)
        assert raised.value.expected == of.revision
        assert store.list_instances() == []

    def test_many_are_made_at_once(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        assert backfill(store, of, *MANY) == MANY
        claimed = claim(store, limit=len(MANY))
        assert sorted(times(claimed)) == MANY  # type: ignore[type-var]

    def test_of_many_at_the_same_moment_each_is_made_once(self, store: Store) -> None:
        of = put(store, definition(PAST[0], trigger=HOURLY))
        wanted = [PAST[0] + number * MINUTE for number in range(60)]
        fill = partial(backfilled, store, of, wanted)
        fill_backwards = partial(backfilled, store, of, wanted[::-1])
        answers = at_once(fill, fill_backwards, fill, fill_backwards)
        made = [each for answer in answers for each in answer]  # type: ignore[attr-defined]
        assert sorted(made) == wanted
        assert times(instances(store, of)) == wanted

    def test_beside_a_firing_each_is_made_once(self, store: Store) -> None:
        for number in range(10):
            of = put(store, definition(PAST[0], trigger=HOURLY, key=number + 1))
            fire_all = partial(
                store.fire_definitions, [firing(of, *PAST, next_fire_time=START)]
            )
            at_once(partial(backfill, store, of, *PAST), fire_all)
            # If it was busy, it is fired later, as loops do.
            fire_all()
            assert times(instances(store, of)) == PAST
            assert store.get_definition(of.id).next_fire_time == START
            store.delete_definitions([of.id])


class BackfillOverlapTests:
    """By what backfilled instances exclude each other."""

    def started(self, store: Store) -> list[TaskInstance]:
        """What starts of all that can be claimed."""
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

    def test_by_skip_only_the_first_runs(self, store: Store) -> None:
        of = put(store, definition(START, trigger=HOURLY))
        backfill(store, of, *PAST, overlap=Overlap.SKIP)
        [run] = self.started(store)
        settled = store.review_parked(limit=10)
        assert set(times(settled.skipped)) == set(PAST[1:])
        assert backfill(store, of, *PAST, overlap=Overlap.ALLOW) == []
        assert run.fire_time == PAST[0]

    def test_they_keep_no_fire_time_from_waiting(self, store: Store) -> None:
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
        for overlap in (Overlap.SKIP, Overlap.ALLOW):
            put(store, replace(of, overlap=overlap, revision=None))
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

    @pytest.mark.parametrize("again", [False, True])
    def test_the_overlap_given_and_the_lock_of_the_definition_say_how_many_run(
        self, store: Store, again: bool
    ) -> None:
        for number, (overlap, lock, together) in enumerate(
            (
                (Overlap.ALLOW, None, 3),
                (Overlap.ALLOW, "one", 1),
                (Overlap.BUFFER_ALL, None, 1),
                (Overlap.SKIP, "one", 1),
            )
        ):
            case = f"backfilled with {overlap}, the lock is {lock}"
            new = definition(START, trigger=HOURLY, key=number)
            of = put(store, replace(new, overlap=Overlap.SKIP, lock="another"))
            if again:
                for fire_time in PAST:
                    backfill(store, of, fire_time, overlap=overlap)
                    [run] = self.started(store)
                    assert finish(store, run, Outcome.FAILED, error="no")
            of = put(store, replace(of, lock=lock, revision=None))
            backfill(store, of, *PAST, overlap=overlap)
            failed = {*ids(instances(store, of))} if again else set()
            assert store.reopen_instances(failed) == failed
            assert len(self.started(store)) == together, case
            assert not (again and store.review_parked(limit=10).skipped), case
            store.delete_definitions([of.id])
