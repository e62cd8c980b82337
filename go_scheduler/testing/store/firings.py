"""Store suite: each fire time gets one instance, when it is due or by a backfill."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConflictError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import DefinitionState, Outcome, Skipped, State, TaskInstance
from go_scheduler.policies import Overlap
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    check,
    counts_by_state,
    definition,
    firing,
    ids,
    in_pages,
    kept_by_store,
    task,
    times,
    unclaimed,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition


class DueTests(StoreTests):
    """``due_definitions``."""

    def test_what_is_not_fired_stays_due(self, rig: Rig) -> None:
        early, late = rig.put(), rig.put(definition(START + MINUTE))
        rig.advance(MINUTE)
        for _ in range(3):
            assert rig.store.due_definitions(ahead=ZERO, limit=10) == [early, late]
            assert rig.store.due_definitions(ahead=ZERO, limit=1) == [early]
            rig.advance(SECOND)

    def test_a_definition_is_due_within_ahead(self, rig: Rig) -> None:
        rig.put(definition(None))
        rig.put(definition(None, trigger=WAITING))
        past = rig.put(definition(START - 1000 * HOUR))
        new = rig.put(definition(START + MINUTE))
        assert rig.due(ahead=MINUTE) == [past, new]
        assert rig.due(ahead=MINUTE - TICK) == [past]
        rig.advance(TICK)
        assert rig.due(ahead=MINUTE - TICK) == [past, new]
        rig.advance(MINUTE)
        assert rig.due(ahead=ZERO) == [past, new]

    def test_it_is_read_as_it_is_stored(self, rig: Rig) -> None:
        rig.put(definition(metadata={"a": 1}, name="b"))
        [read] = rig.due()
        assert read == rig.read(read)
        assert (read.next_fire_time, read.revision) == (START, 1)

    def test_due_definitions_come_in_order_and_in_pages(self, rig: Rig) -> None:
        fire_times = {4: START, 2: START + TICK, 3: START, 1: START + 2 * TICK}
        for key, at in {**fire_times, 5: START - HOUR}.items():
            rig.put(definition(at, key=key))
        for limit in (1, 2, 3, 5, 6):
            read = in_pages(partial(rig.due, limit=limit), limit=limit)
            found = [each.id.int for each in read]
            assert found == [5, 3, 4, 2, 1], f"in pages of {limit}"

    def test_a_page_follows_one_that_moved_on_or_is_gone(self, rig: Rig) -> None:
        for key in range(4):
            rig.put(definition(START + key * SECOND, key=key))
        [first, second] = rig.due(limit=2)
        rig.fire(first, next_fire_time=START + MINUTE)
        assert [each.id.int for each in rig.due(after=first)] == [1, 2, 3, 0]
        rig.delete(second)
        assert [each.id.int for each in rig.due(after=second)] == [2, 3, 0]


SKIPPED = Skipped(first=START - 2 * HOUR, last=START - HOUR, count=2, reason="too late")


class FireTests(StoreTests):
    """``fire_definitions``."""

    def test_each_fire_time_becomes_a_pending_instance(self, rig: Rig) -> None:
        read, other = rig.put(definition(queue="other")), rig.put()
        fire_times = (START, START + TICK, START + HOUR)
        made = rig.fire(read, *fire_times)
        assert times(made) == [*fire_times]
        for each, at in zip(made, fire_times, strict=True):
            assert each.state is State.PENDING
            assert each == unclaimed(read, each, fire_time=at, execute_at=at)
        assert times(rig.fire(other)) == [START]
        assert len(rig.claim(ahead=HOUR)) == 1
        assert {*ids(rig.claim(queues=["other"], ahead=HOUR))} == {*ids(made)}

    def test_an_instance_is_due_when_its_firing_says(self, rig: Rig) -> None:
        read = rig.put()
        later = START + MINUTE + TICK
        first, second = rig.fire(
            read, START, START + HOUR, execute_times=(later, START + HOUR)
        )
        check(first, fire_time=START, execute_at=later, due_at=later)
        assert second.fire_time == second.execute_at == START + HOUR
        rig.advance(MINUTE)
        assert rig.claim() == []
        rig.advance(TICK)
        assert ids(rig.claim()) == [first.id]

    def test_the_definition_moves_on_and_keeps_its_revision(self, rig: Rig) -> None:
        goes_on, over = rig.put(), rig.put()
        waits = rig.put(definition(trigger=WAITING))
        rig.advance(MINUTE)
        for read, later, completed_at in (
            (goes_on, START + HOUR, None),
            (over, None, START + MINUTE),
            (waits, None, None),
        ):
            rig.fire(read, next_fire_time=later)
            stored = rig.read(read)
            assert stored == read
            check(stored, next_fire_time=later, revision=1, completed_at=completed_at)

    def test_a_firing_without_fire_times_makes_nothing(self, rig: Rig) -> None:
        read = rig.put(definition(START + HOUR))
        for earlier_or_later in (START + MINUTE, START + 2 * HOUR):
            step = firing(
                rig.read(read), fire_times=(), next_fire_time=earlier_or_later
            )
            assert rig.fire_steps(step) == [read.id]
            rig.check(read, next_fire_time=earlier_or_later, revision=read.revision)
            rig.check(read, completed_at=None)
        assert rig.fire_steps(step) == []
        assert rig.instances(read) == []
        rig.advance(2 * HOUR)
        assert rig.due() == [read]

    def test_the_same_firing_wins_once(self, rig: Rig) -> None:
        for later in (START + HOUR, None):
            step = firing(rig.put(), next_fire_time=later)
            assert rig.fire_steps(step) == [step.definition.id]
            assert rig.fire_steps(step) == []
            assert times(rig.instances(step.definition)) == [START]
            assert rig.read(step.definition).next_fire_time == later
        assert rig.store.fire_definitions([]).done == set()

    def test_a_firing_of_another_revision_changes_nothing(self, rig: Rig) -> None:
        edited, resumed = rig.put(), rig.put()
        rig.edit(edited, name="edited")
        rig.pause(resumed)
        rig.resume(resumed)
        for read in (edited, resumed):
            assert rig.fire_steps(firing(read)) == []
            assert rig.instances(read) == []
            assert rig.read(read).next_fire_time == START

    def test_a_firing_of_another_fire_time_changes_nothing(self, rig: Rig) -> None:
        read = rig.put()
        for other in ({"next_fire_time": START + TICK}, {"id": NOBODY}):
            assert rig.fire_steps(firing(replace(read, **other))) == []
        assert rig.store.select() == []
        assert rig.read(read).next_fire_time == START

    def test_one_firing_that_loses_costs_only_itself(self, rig: Rig) -> None:
        first, stale, last = rig.put(), rig.put(), rig.put()
        rig.edit(stale, name="edited")
        steps = [firing(first), firing(stale), firing(last)]
        assert rig.store.fire_definitions(steps).done == {first.id, last.id}
        made = [len(rig.instances(each)) for each in (first, stale, last)]
        assert made == [1, 0, 1]

    def test_a_fire_time_never_gets_a_second_instance(self, rig: Rig) -> None:
        for first in (rig.running(), rig.ended()):
            again = rig.edit(first.definition, trigger=EVERY_TWO_HOURS)
            later = START + 2 * HOUR
            made = rig.fire(again, START, START + HOUR, next_fire_time=later)
            assert times(made) == [START, START + HOUR]
            assert made[0] == rig.read(first)
            assert made[0].state is first.state
            assert rig.read(again).next_fire_time == later

    def test_skipped_fire_times_become_one_instance(self, rig: Rig) -> None:
        rig.advance(MINUTE)
        for fire_times in ((START,), ()):
            read = rig.put(definition(SKIPPED.first))
            step = {"skipped": SKIPPED, "next_fire_time": START + HOUR}
            record, *made = rig.fire(read, *fire_times, **step)
            assert rig.read(read).next_fire_time == START + HOUR
            check(record, fire_time=None, skipped=SKIPPED, execute_at=SKIPPED.first)
            check(record, outcome=Outcome.SKIPPED, completed_at=START + MINUTE)
            assert rig.read(record) == record
            assert times(made) == [*fire_times]
            assert [each.skipped for each in made] == [None] * len(fire_times)
        rig.advance(HOUR)
        claimed = rig.claim(ahead=HOUR, lapsed=True)
        assert [each.skipped for each in claimed] == [None], "a record was claimed"

    def test_a_record_of_skipped_ones_takes_no_fire_time(self, rig: Rig) -> None:
        read = rig.put(definition(SKIPPED.first))
        for _ in range(2):
            # Any number of records may begin at the same time.
            rig.fire(read, skipped=SKIPPED, next_fire_time=read.next_fire_time)
        made = rig.fire(read, SKIPPED.first)
        records = [each.skipped for each in made if each.fire_time is None]
        assert records == [SKIPPED, SKIPPED]
        assert times([each for each in made if each.skipped is None]) == [SKIPPED.first]

    def test_a_record_may_cover_a_fire_time_that_ran(self, rig: Rig) -> None:
        first = rig.ended(definition(SKIPPED.first))
        again = rig.edit(first.definition, trigger=EVERY_TWO_HOURS)
        found = {each.id: each.skipped for each in rig.fire(again, skipped=SKIPPED)}
        assert found.pop(first.id) is None
        assert list(found.values()) == [SKIPPED]


def waits(rig: Rig, at: datetime = START) -> TaskDefinition:
    """A definition that waits for the end of a run and has a fire time all the same."""
    read = rig.put(definition(at, trigger=WAITING))
    rig.fire(read, next_fire_time=START + HOUR)
    return rig.read(read)


class WaitingTests(StoreTests):
    """Triggers that wait for the end of the last run."""

    def test_it_does_not_fire_while_an_instance_is_open(self, rig: Rig) -> None:
        held = waits(rig, START + SECOND)
        rig.claim(ahead=SECOND)
        retried = waits(rig)
        [run] = rig.claim()
        assert rig.finish(run, None, retry_in=HOUR)
        runs = waits(rig)
        rig.claim()
        given = {
            "claimed": held,
            "due for a retry": retried,
            "running": runs,
            "pending": waits(rig),
        }

        def assert_none_fires(moment: str) -> None:
            for name, read in given.items():
                before = rig.instances(read)
                fired = rig.fire_steps(firing(read))
                assert not fired, f"it fired while an instance is {name}, {moment}"
                assert rig.instances(read) == before
                assert rig.read(read).next_fire_time == read.next_fire_time

        assert_none_fires("while its claim holds")
        rig.advance(HOUR)
        assert_none_fires("after its claim has lapsed")
        rig.take_over()
        assert_none_fires("after another node has claimed it")

    def test_it_fires_when_the_instance_has_ended(self, rig: Rig) -> None:
        skipped, ended = waits(rig), waits(rig)
        step = firing(skipped, skipped=SKIPPED, next_fire_time=START + HOUR)
        rig.run_due()
        cancelled = waits(rig)
        assert rig.cancel(*rig.instances(cancelled))
        # A record of skipped ones is not open.
        assert rig.fire_steps(step) == [skipped.id]
        for read in (skipped, ended, cancelled):
            assert times(rig.fire(read))[-2:] == [START, START + HOUR]

    def test_a_definition_that_waits_fires_after_the_end(self, rig: Rig) -> None:
        for name in ("left alone", "edited", "paused", "cancelled"):
            make = rig.pending if name == "cancelled" else rig.running
            instance = make(definition(trigger=WAITING))
            of = instance.definition
            if name == "edited":
                rig.edit(of, name="edited")
            if name == "paused":
                rig.pause(of)
            end = rig.cancel if name == "cancelled" else rig.finish
            assert end(instance, next_fire_time=START + HOUR)
            rig.check(of, case=name, next_fire_time=START + HOUR, completed_at=None)
            assert ids(rig.due()) == [of.id] * (name != "paused"), name
            [resumed] = rig.resume(of)
            assert rig.due() == [resumed]
            assert len(rig.fire(resumed)) == 2

    def test_the_end_of_the_last_run_completes_it(self, rig: Rig) -> None:
        run = rig.running(definition(trigger=WAITING))
        waiting = rig.pending(definition(trigger=WAITING))
        rig.advance(SECOND)
        assert rig.finish(run)
        assert rig.cancel(waiting)
        for each in (run, waiting):
            rig.check(each.definition, next_fire_time=None, completed_at=START + SECOND)

    def test_a_next_fire_time_that_is_known_stays(self, rig: Rig) -> None:
        for trigger in (WAITING, EVERY_TWO_HOURS):
            read = rig.put(definition(trigger=trigger))
            rig.fire(read, next_fire_time=START + MINUTE)
            assert len(rig.run_due(next_fire_time=START + HOUR)) == 1
            rig.check(read, next_fire_time=START + MINUTE, completed_at=None)

    def test_nothing_else_sets_a_next_fire_time(self, rig: Rig) -> None:
        later = START + HOUR
        plain = rig.running()
        assert rig.finish(plain, next_fire_time=later)
        asked = rig.running(definition(trigger=WAITING))
        rig.cancel(asked, next_fire_time=later)
        rig.waiting_for_retry(definition(trigger=WAITING))
        [taken] = rig.claim()
        stale = replace(taken, attempt=1)
        assert not rig.finish(stale, Outcome.FAILED, next_fire_time=later)
        retried = rig.running(definition(trigger=WAITING))
        assert rig.finish(retried, None, next_fire_time=later)
        for name, each, completed_at in (
            ("the trigger does not wait", plain, START),
            ("the run is only asked to stop", asked, None),
            ("the claim is lost", taken, None),
            ("the run is tried again", retried, None),
        ):
            rig.check(each.definition, case=name, next_fire_time=None)
            rig.check(each.definition, case=name, completed_at=completed_at)


class OnDemandTests(StoreTests):
    """Definitions that fire only on demand."""

    def test_one_on_demand_is_active_and_never_due(self, rig: Rig) -> None:
        new, other, _ = rig.store.put_definitions(
            [task(), task(), definition(START + 2 * YEAR)]
        ).definitions
        rig.add(other)
        assert len(rig.run_due()) == 1
        rig.advance(YEAR)
        check(new, rig.read(new), trigger=OnDemandTrigger(), next_fire_time=None)
        check(new, rig.read(new), completed_at=None, state=DefinitionState.ACTIVE)
        assert rig.due() == []
        assert (
            len(
                rig.store.select_definitions(
                    DefinitionFilter(state=DefinitionState.ACTIVE)
                )
            )
            == 3
        )
        assert rig.clean_up() == 1
        assert rig.instances(other) == []
        assert rig.store.select_definitions(DefinitionFilter(ids=[other.id])) == [other]

    def test_one_that_does_not_last_is_completed_at_once(self, rig: Rig) -> None:
        new = rig.put(definition(None, trigger=OnDemandTrigger(lasting=False)))
        check(new, rig.read(new), trigger=OnDemandTrigger(lasting=False))
        check(new, rig.read(new), completed_at=START, next_fire_time=None)

    def test_an_edit_makes_one_on_demand_and_back(self, rig: Rig) -> None:
        old = rig.put(definition(START + HOUR))
        rig.fire(old)
        new = rig.edit(task(), id=old.id)
        assert (new.next_fire_time, new.completed_at) == (None, None)
        assert rig.instances(new) == []
        added = rig.add(new)
        again = rig.edit(definition(START), id=old.id)
        assert again.next_fire_time == START
        assert ids(rig.due()) == [old.id]
        assert ids(rig.instances(again)) == [added.id]

    def test_the_end_of_a_former_run_completes_nothing(self, rig: Rig) -> None:
        run = rig.running(definition(trigger=WAITING))
        rig.edit(task(), id=run.definition.id)
        assert rig.finish(run, next_fire_time=START + HOUR)
        rig.check(run.definition, next_fire_time=None, completed_at=None)


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
    rig.fire(of, at, next_fire_time=START + HOUR, execute_times=(at + MINUTE,))
    [run] = rig.run_due(Outcome.SKIPPED, error="too late")
    return rig.read(run)


class BackfillTests(StoreTests):
    """``backfill_instances``."""

    def test_each_fire_time_gets_an_instance(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR, queue="slow"))
        assert backfill(rig, of) == []
        assert backfill(rig, of, *PAST) == PAST
        found = rig.instances(of)
        assert times(found) == PAST
        for each, at in zip(found, PAST, strict=True):
            fields = {"fire_time": at, "execute_at": at, "backfilled": Overlap.ALLOW}
            assert each == unclaimed(of, each, **fields)
        assert kept_by_store(rig.read(of)) == kept_by_store(of)
        claimed = rig.claim(queues=["slow"])
        assert times(claimed) == PAST
        assert {each.backfilled for each in claimed} == {Overlap.ALLOW}

    def test_no_backfill_makes_a_second_instance(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1]))
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
        rig.run_due()
        rig.advance(MINUTE)
        assert rig.clean_up(limit=2) == 2
        for of in (completed, goes_on):
            assert backfill(rig, of, START) == [START]
        assert rig.clean_up() == 0
        assert len(rig.claim()) == 2

    def test_one_that_was_skipped_is_overruled_once(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1]))
        before = skipped_one(rig, of, PAST[1])
        assert backfill(rig, of, *PAST[:2]) == PAST[:2]
        again = rig.read(before)
        assert again.state is State.PENDING
        assert (again.skipped, again.outcome, again.completed_at) == (None,) * 3
        assert (again.started_at, again.claimed_by, again.ended_attempt) == (None,) * 3
        assert again.execute_at == again.due_at == PAST[1] + MINUTE
        check(again, runs=0, attempt=before.attempt, backfilled=Overlap.ALLOW)
        runs = rig.claim()
        assert times(runs) == PAST[:2]
        assert rig.finish(runs[1], Outcome.SKIPPED, error="too late")
        assert backfill(rig, of, PAST[1]) == []
        assert counts_by_state(rig.store)[State.SKIPPED] == 1

    def test_what_is_recorded_as_skipped_is_overruled(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[0]))
        skipped = Skipped(first=PAST[0], last=PAST[2], count=3, reason="late")
        rig.fire(of, skipped=skipped, next_fire_time=START)
        assert backfill(rig, of, *PAST) == PAST
        assert backfill(rig, of, *PAST) == []
        made = [each for each in rig.instances(of) if each.skipped is None]
        assert times(made) == PAST

    def test_neither_an_edit_nor_a_pause_removes_one(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[1]))
        skipped_one(rig, of, PAST[1])
        backfill(rig, of, *PAST[:2])
        later = START + HOUR
        rig.edit(of, trigger=WAITING, next_fire_time=later)
        paused = rig.pause(of)
        assert paused.next_fire_time == later
        assert backfill(rig, paused, PAST[2]) == [PAST[2]]
        assert times(rig.instances(of)) == PAST
        assert rig.claim() == []
        rig.resume(of)
        assert times(rig.claim()) == PAST

    def test_a_trigger_that_waits_does_not_wait_for_its_end(self, rig: Rig) -> None:
        of = rig.put(definition(START))
        backfill(rig, of, *PAST)
        done, failed = rig.claim(limit=2)
        assert rig.finish(failed, Outcome.FAILED, error="late")
        of = rig.edit(of, trigger=WAITING, next_fire_time=START)
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
        of = rig.put(definition(START))
        rig.edit(of, name="other")
        with pytest.raises(ConflictError) as raised:
            backfill(rig, of, *PAST)
        assert raised.value.expected == of.revision
        assert rig.store.select() == []

    def test_many_are_made_at_once(self, rig: Rig) -> None:
        of = rig.put(definition(START))
        assert backfill(rig, of, *MANY) == MANY
        claimed = rig.claim(limit=len(MANY))
        assert sorted(times(claimed)) == MANY  # type: ignore[type-var]

    def test_of_many_at_the_same_moment_each_is_made_once(self, rig: Rig) -> None:
        of = rig.put(definition(PAST[0]))
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
            of = rig.put(definition(PAST[0], key=number + 1))
            fire_all = partial(
                rig.store.fire_definitions, [firing(of, *PAST, next_fire_time=START)]
            )
            at_once(partial(backfill, rig, of, *PAST), fire_all)
            # If it was busy, it is fired later, as loops do.
            fire_all()
            assert times(rig.instances(of)) == PAST
            assert rig.read(of).next_fire_time == START
            rig.delete(of)

    def started(self, rig: Rig) -> list[TaskInstance]:
        """Claim all and start it; return the instances that run."""
        found = rig.claim()
        return [each for each in rig.start(*found) if not each.parked]

    def test_they_run_one_after_another(self, rig: Rig) -> None:
        of = rig.put(definition(START))
        backfill(rig, of, *PAST, overlap=Overlap.BUFFER_ALL)
        for fire_time in PAST:
            [run] = self.started(rig)
            assert run.fire_time == fire_time
            assert not rig.store.review_parked(limit=10).skipped
            assert rig.finish(run)
            rig.store.review_parked(limit=10)
        assert counts_by_state(rig.store)[State.COMPLETED] == 3

    def test_by_skip_only_the_first_runs(self, rig: Rig) -> None:
        of = rig.put(definition(START))
        backfill(rig, of, *PAST, overlap=Overlap.SKIP)
        [run] = self.started(rig)
        settled = rig.store.review_parked(limit=10)
        assert set(times(settled.skipped)) == set(PAST[1:])
        assert backfill(rig, of, *PAST, overlap=Overlap.ALLOW) == []
        assert run.fire_time == PAST[0]

    def test_they_keep_no_fire_time_from_waiting(self, rig: Rig) -> None:
        new = definition(START, overlap=Overlap.REPLACE)
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
        of = rig.put(definition(START))
        backfill(rig, of, *PAST[:2], overlap=Overlap.BUFFER_ALL)
        rig.fire(of, START, next_fire_time=START + HOUR)
        for overlap in (Overlap.SKIP, Overlap.ALLOW):
            rig.edit(of, overlap=overlap, revision=None)
        assert sorted(times(self.started(rig))) == [PAST[0], START]  # type: ignore[type-var]

    def test_an_edit_of_the_lock_is_theirs_too(self, rig: Rig) -> None:
        of = rig.put(definition(START))
        backfill(rig, of, PAST[0], PAST[1], overlap=Overlap.ALLOW)
        of = rig.edit(of, lock="one", revision=None)
        backfill(rig, of, PAST[2], overlap=Overlap.BUFFER_ONE)
        [run] = self.started(rig)
        rig.edit(of, lock=None, revision=None)
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
            new = definition(START, key=number)
            of = rig.edit(new, overlap=Overlap.SKIP, lock="another")
            if again:
                for fire_time in PAST:
                    backfill(rig, of, fire_time, overlap=overlap)
                    [run] = self.started(rig)
                    assert rig.finish(run, Outcome.FAILED, error="no")
            of = rig.edit(of, lock=lock, revision=None)
            backfill(rig, of, *PAST, overlap=overlap)
            failed = {*ids(rig.instances(of))} if again else set()
            assert rig.store.reopen_instances(failed) == failed
            assert len(self.started(rig)) == together, case
            assert not (again and rig.store.review_parked(limit=10).skipped), case
            rig.delete(of)
