"""Store suite: fire times that have passed get instances that they did not have."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import (
    ConflictError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import Outcome, Skipped, State, TaskInstance
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    MINUTE,
    NOBODY,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    definition,
    firing,
    ids,
    kept_by_store,
    times,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition

PAST = [START - number * HOUR for number in (3, 2, 1)]
MANY = [START - number * MINUTE for number in range(1200, 0, -1)]


def backfill(
    rig: Rig,
    of: TaskDefinition,
    *fire_times: datetime,
    overlap: Overlap = Overlap.ALLOW,
) -> Sequence[datetime]:
    """Give fire times their instances."""
    return rig.store.backfill_instances(of, fire_times, overlap=overlap)


def skipped_one(rig: Rig, of: TaskDefinition, at: datetime) -> TaskInstance:
    """An instance that was made for a fire time, due later, and has been skipped."""
    step = firing(of, at, next_fire_time=START + HOUR)
    step = replace(step, execute_times=(at + MINUTE,))
    assert rig.store.fire_definitions([step]).done
    [run] = rig.claim()
    assert rig.finish(run, Outcome.SKIPPED, error="too late")
    return rig.read(run)


class BackfillTests(StoreTests):
    """``backfill_instances``."""

    def test_each_fire_time_gets_an_instance(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR, trigger=HOURLY, queue="slow"))
        assert backfill(rig, of) == []
        assert backfill(rig, of, *PAST) == PAST
        found = rig.instances(of)
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
        assert kept_by_store(rig.read(of)) == kept_by_store(of)
        claimed = rig.claim(queues=["slow"])
        assert times(claimed) == PAST
        assert {each.backfilled for each in claimed} == {Overlap.ALLOW}

    def test_no_backfill_makes_a_second_instance(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1], trigger=HOURLY))
        assert backfill(rig, of, PAST[0]) == [PAST[0]]
        # Nor does the schedule make a second one.
        there = rig.fire(of, *PAST[:2], next_fire_time=START)
        assert backfill(rig, of, *PAST) == [PAST[2]]
        assert backfill(rig, of, *PAST) == []
        found = rig.instances(of)
        assert times(found) == PAST
        overlaps = [each.backfilled for each in found]
        assert overlaps == [Overlap.ALLOW, None, Overlap.ALLOW]
        assert found[:2] == there
        outcomes = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)
        for run, outcome in zip(rig.claim(), outcomes, strict=True):
            assert rig.finish(run, outcome)
        ended = rig.instances(of)
        assert backfill(rig, of, *PAST, overlap=Overlap.SKIP) == []
        assert rig.instances(of) == ended

    def test_what_cleanup_has_deleted_is_not_known(self, rig: Rig) -> None:
        completed = rig.put()
        goes_on = rig.put(definition(START + YEAR))
        rig.fire(completed)
        backfill(rig, goes_on, START)
        for run in rig.claim():
            assert rig.finish(run)
        rig.advance(MINUTE)
        assert rig.clean_up(limit=2) == 2
        for of in (completed, goes_on):
            assert backfill(rig, of, START) == [START]
        assert rig.clean_up() == 0
        assert len(rig.claim()) == 2

    def test_one_that_was_skipped_is_overruled_once(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1], trigger=HOURLY))
        before = skipped_one(rig, of, PAST[1])
        assert backfill(rig, of, *PAST[:2]) == PAST[:2]
        again = rig.read(before)
        assert again.state is State.PENDING
        assert (again.skipped, again.outcome, again.completed_at) == (None,) * 3
        assert (again.started_at, again.claimed_by, again.ended_attempt) == (None,) * 3
        assert again.execute_at == again.due_at == PAST[1] + MINUTE
        assert (again.runs, again.attempt) == (0, before.attempt)
        assert again.backfilled is Overlap.ALLOW
        runs = rig.claim()
        assert times(runs) == PAST[:2]
        assert rig.finish(runs[1], Outcome.SKIPPED, error="too late")
        assert backfill(rig, of, PAST[1]) == []
        assert rig.store.counts()[State.SKIPPED] == 1

    def test_what_is_recorded_as_skipped_is_overruled(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[0], trigger=HOURLY))
        skipped = Skipped(first=PAST[0], last=PAST[2], count=3, reason="late")
        step = firing(of, skipped=skipped, next_fire_time=START)
        assert rig.store.fire_definitions([step]).done
        assert backfill(rig, of, *PAST) == PAST
        assert backfill(rig, of, *PAST) == []
        made = [each for each in rig.instances(of) if each.skipped is None]
        assert times(made) == PAST

    def test_neither_an_edit_nor_a_pause_removes_one(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1], trigger=HOURLY))
        skipped_one(rig, of, PAST[1])
        backfill(rig, of, *PAST[:2])
        later = START + HOUR
        rig.put(replace(of, trigger=WAITING, next_fire_time=later))
        paused = rig.pause(of)
        assert paused.next_fire_time == later
        assert backfill(rig, paused, PAST[2]) == [PAST[2]]
        assert times(rig.instances(of)) == PAST
        assert rig.claim() == []
        rig.resume(of)
        assert times(rig.claim()) == PAST

    def test_a_trigger_that_waits_does_not_wait_for_its_end(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        backfill(rig, of, *PAST)
        done, failed = rig.claim(limit=2)
        assert rig.finish(failed, Outcome.FAILED, error="late")
        of = rig.put(replace(of, trigger=WAITING, next_fire_time=START))
        rig.fire(of)
        [cancelled] = [each for each in rig.instances(of) if each.attempt == 0][:1]
        later = START + HOUR
        assert rig.cancel(cancelled, next_fire_time=later)
        assert rig.store.reopen_instances([failed.id]) == {failed.id}
        runs = {each.fire_time: each for each in rig.claim()}
        for each in (done, runs[failed.fire_time]):
            assert rig.finish(each, next_fire_time=later)
        assert rig.read(of).next_fire_time is None
        assert rig.finish(runs[START], next_fire_time=later)
        assert rig.read(of).next_fire_time == later

    def test_a_definition_gone_or_changed_is_an_error(self, rig: Rig) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            backfill(rig, replace(definition(), id=NOBODY, revision=1), START)
        of = rig.put(definition(START, trigger=HOURLY))
        rig.put(replace(of, name="other"))
        with pytest.raises(ConflictError) as raised:
            backfill(rig, of, *PAST)
        assert raised.value.expected == of.revision
        assert rig.store.list_instances() == []

    def test_many_are_made_at_once(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        assert backfill(rig, of, *MANY) == MANY
        claimed = rig.claim(limit=len(MANY))
        assert sorted(times(claimed)) == MANY  # type: ignore[type-var]

    def test_of_many_at_the_same_moment_each_is_made_once(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[0], trigger=HOURLY))
        wanted = [PAST[0] + number * MINUTE for number in range(60)]

        def fill_all(wanted: Sequence[datetime]) -> Sequence[datetime]:
            while True:
                # It may be told that the store is busy, and asks again.
                with suppress(StoreUnavailableError):
                    return backfill(rig, of, *wanted)

        fill, fill_backwards = (
            partial(fill_all, wanted),
            partial(fill_all, wanted[::-1]),
        )
        answers = at_once(fill, fill_backwards, fill, fill_backwards)
        made = [each for answer in answers for each in answer]
        assert sorted(made) == wanted
        assert times(rig.instances(of)) == wanted

    def test_beside_a_firing_each_is_made_once(self, rig: Rig) -> None:
        for number in range(10):
            of = rig.put(definition(PAST[0], trigger=HOURLY, key=number + 1))
            fire_all = partial(
                rig.store.fire_definitions, [firing(of, *PAST, next_fire_time=START)]
            )
            at_once(partial(backfill, rig, of, *PAST), fire_all)
            # If it was busy, it is fired later, as loops do.
            fire_all()
            assert times(rig.instances(of)) == PAST
            assert rig.read(of).next_fire_time == START
            rig.delete(of)


class BackfillOverlapTests(StoreTests):
    """By what backfilled instances exclude each other."""

    def started(self, rig: Rig) -> list[TaskInstance]:
        """What starts of all that can be claimed."""
        found = rig.claim()
        return [each for each in rig.start(*found) if not each.parked]

    def test_they_run_one_after_another(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        backfill(rig, of, *PAST, overlap=Overlap.BUFFER_ALL)
        for fire_time in PAST:
            [run] = self.started(rig)
            assert run.fire_time == fire_time
            assert not rig.store.review_parked(limit=10).skipped
            assert rig.finish(run)
            rig.store.review_parked(limit=10)
        assert rig.store.counts()[State.COMPLETED] == 3

    def test_by_skip_only_the_first_runs(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        backfill(rig, of, *PAST, overlap=Overlap.SKIP)
        [run] = self.started(rig)
        settled = rig.store.review_parked(limit=10)
        assert set(times(settled.skipped)) == set(PAST[1:])
        assert backfill(rig, of, *PAST, overlap=Overlap.ALLOW) == []
        assert run.fire_time == PAST[0]

    def test_they_keep_no_fire_time_from_waiting(self, rig: Rig) -> None:
        new = definition(START, trigger=HOURLY, overlap=Overlap.REPLACE)
        of = rig.put(new)
        backfill(rig, of, *PAST, overlap=Overlap.BUFFER_ALL)
        [first] = self.started(rig)
        rig.fire(of, START, next_fire_time=START + HOUR)
        self.started(rig)
        assert not rig.store.review_parked(limit=10).skipped
        waiting = [each for each in rig.instances(of) if each.parked]
        assert times(waiting) == [*PAST[1:], START]
        assert rig.read(first).cancel_requested

    def test_an_edit_of_the_overlap_is_none_of_theirs(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        backfill(rig, of, *PAST[:2], overlap=Overlap.BUFFER_ALL)
        rig.fire(of, START, next_fire_time=START + HOUR)
        for overlap in (Overlap.SKIP, Overlap.ALLOW):
            rig.put(replace(of, overlap=overlap, revision=None))
        assert sorted(times(self.started(rig))) == [PAST[0], START]  # type: ignore[type-var]

    def test_an_edit_of_the_lock_is_theirs_too(self, rig: Rig) -> None:
        of = rig.put(definition(START, trigger=HOURLY))
        backfill(rig, of, PAST[0], PAST[1], overlap=Overlap.ALLOW)
        of = rig.put(replace(of, lock="one", revision=None))
        backfill(rig, of, PAST[2], overlap=Overlap.BUFFER_ONE)
        [run] = self.started(rig)
        rig.put(replace(of, lock=None, revision=None))
        # What has the lock keeps it; the others are without.
        assert times(self.started(rig)) == PAST[1:]
        assert run.fire_time == PAST[0]

    @pytest.mark.parametrize("again", [False, True])
    def test_the_overlap_and_the_lock_say_how_many_run(
        self, rig: Rig, again: bool
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
            of = rig.put(replace(new, overlap=Overlap.SKIP, lock="another"))
            if again:
                for fire_time in PAST:
                    backfill(rig, of, fire_time, overlap=overlap)
                    [run] = self.started(rig)
                    assert rig.finish(run, Outcome.FAILED, error="no")
            of = rig.put(replace(of, lock=lock, revision=None))
            backfill(rig, of, *PAST, overlap=overlap)
            failed = {*ids(rig.instances(of))} if again else set()
            assert rig.store.reopen_instances(failed) == failed
            assert len(self.started(rig)) == together, case
            assert not (again and rig.store.review_parked(limit=10).skipped), case
            rig.delete(of)
