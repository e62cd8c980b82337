"""Store suite: instances are made when they are due, by a backfill or by hand."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConflictError,
    QueueFullError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import (
    DefinitionState,
    Outcome,
    Skipped,
    Stage,
    State,
    TaskInstance,
)
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.stores.base import count_unstarted
from go_scheduler.stores.filters import DefinitionFilter, Filter
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    check,
    claimant,
    counts_by_state,
    definition,
    firing,
    ids,
    kept_by_store,
    task,
    times,
    unclaimed,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.views import METADATA, TEXTS, TIMES, same
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition


class DueTests(StoreTests):
    """``due_definitions``."""

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
            read = [*rig.due(limit=limit)]
            while page := rig.due(after=read[-1], limit=limit):
                assert len(page) <= limit
                read += page
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


OWN: Mapping[str, Any] = {
    "queue": "own",
    "priority": 0,
    "expire_after": 2 * SECOND,
    "timeout": 3 * SECOND,
    "start_timeout": 4 * SECOND,
    "heartbeat_timeout": 5 * SECOND,
    "retry": RetryPolicy(max_attempts=3, delay=SECOND),
    "lock": "ä \"'\\",
    "metadata": {"queue": [1, None, {"ä": 2.5}]},
}
"""What an instance may have of its own."""
OTHER: Mapping[str, Any] = {
    "queue": "other",
    "priority": 3,
    "expire_after": HOUR,
    "timeout": HOUR,
    "start_timeout": HOUR,
    "heartbeat_timeout": HOUR,
    "retry": RetryPolicy(max_attempts=9),
    "lock": "other",
    "metadata": {"other": True},
}
"""What its definition has after an edit."""


class OverrideTests(StoreTests):
    """``overrides`` of an addition."""

    @pytest.mark.parametrize("name", [*OWN, "all", "none"])
    def test_an_instance_keeps_what_it_has_of_its_own(
        self, rig: Rig, name: str
    ) -> None:
        own = {each: OWN[each] for each in OWN if name in (each, "all")}
        queues = ["default", "own", "other"]
        of = rig.put(task(name="send"))
        added = rig.add(of, overrides=own, key="k")

        def check_own(*found: TaskInstance) -> None:
            for each in found:
                assert each.definition.is_same(replace(rig.read(of), **own))
                assert each.overrides == (own or None)
                if (began := each.started_at) is not None and each.outcome is None:
                    holds = each.definition.expire_after or EXPIRE_AFTER
                    assert each.expires_at == began + min(LEASE, holds)

        check_own(added, rig.read(added), *rig.instances(of))
        assert rig.add(of, key="k", overrides={"priority": 3}) == added
        check_own(*rig.start(*rig.claim(queues=queues)))
        rig.advance(LEASE)
        lapsed = rig.start(*rig.claim(OTHER_NODE, queues=queues, lapsed=True))
        check_own(*lapsed)
        rig.edit(of, **OTHER)
        check_own(rig.read(added))
        assert rig.finish(lapsed[0], None)
        [again] = rig.start(*rig.claim(queues=[own.get("queue", "other")]))
        check_own(again)
        assert rig.finish(again, Outcome.FAILED)
        check_own(rig.read(added))
        rig.edit(rig.read(of), **{each: getattr(of, each) for each in OTHER})
        assert rig.reopen(again) == {added.id}
        [last] = rig.start(*rig.claim(queues=[own.get("queue", "default")]))
        check_own(last, rig.read(added))

    def test_claims_go_by_its_own_queue_and_class(self, rig: Rig) -> None:
        of = rig.put(task())
        plain, first, moved, both = rig.store.add_instances(
            of.id,
            [
                Addition(),
                Addition(overrides={"priority": 0}),
                Addition(overrides={"queue": "own"}),
                Addition(overrides={"queue": "own", "priority": 0}),
            ],
        )
        for queue, expected in (("default", [first, plain]), ("own", [both, moved])):
            for each in expected:
                assert ids(rig.claim(queues=[queue], limit=1)) == [each.id]

    def test_its_own_class_is_asked_at_once(self, rig: Rig) -> None:
        of = rig.put(task())
        rig.claim()
        added = rig.add(of, overrides={"priority": 3})
        assert ids(rig.claim()) == [added.id]

    def test_an_edit_of_the_queue_leaves_it_with_its_node(self, rig: Rig) -> None:
        of = rig.put(task())
        rig.add(of, overrides={"queue": "own", "lock": "mine"})
        [held] = rig.claim(queues=["own"])
        rig.edit(of, queue="other")
        [started] = rig.start(held)
        assert started.started_at is not None

    def test_one_that_is_there_is_not_started_without_its_lock(self, rig: Rig) -> None:
        of = rig.put(task())
        there = rig.add(of, overrides={"lock": "mine"})
        again = [Addition(id=there.id)]
        assert rig.store.add_instances(of.id, again, claimant=claimant()) == [there]

    def test_a_delete_frees_its_own_lock(self, rig: Rig) -> None:
        one, other = rig.put(task()), rig.put(task(lock="mine"))
        rig.add(one, overrides={"lock": "mine"})
        rig.start(*rig.claim())
        rig.store.delete_definitions([one.id])
        rig.add(other)
        [started] = rig.start(*rig.claim())
        assert started.started_at is not None

    def test_its_own_lock_excludes_others(self, rig: Rig) -> None:
        one, other = rig.put(task()), rig.put(task(lock="theirs"))
        for of in (one, other):
            rig.add(of, overrides={"lock": "mine"})
        rig.add(other)
        rig.edit(one, lock="another")
        started = [
            each for each in rig.start(*rig.claim()) if each.started_at is not None
        ]
        assert {each.definition.lock for each in started} == {"mine", "theirs"}
        assert len(started) == 2
        for each in started:
            assert rig.finish(each)
        [free] = rig.store.review_parked(limit=10).unparked
        assert free.definition.lock == "mine"

    def test_lists_and_counts_go_by_its_own_queue_which_stays(self, rig: Rig) -> None:
        of = rig.put(task())
        mine, plain = rig.store.add_instances(
            of.id, [Addition(overrides={"queue": "own"}), Addition()]
        )
        for ends in (False, True):
            if ends:
                for run in rig.claim(queues=["own", "default"]):
                    assert rig.finish(run)
                rig.edit(of, queue="other")
            for queue, found in (("own", mine), ("default", plain)):
                where = Filter(queues=[queue])
                [listed] = rig.store.select(where)
                assert (listed.id, listed.definition.queue) == (found.id, queue)
                for most in (None, 10):
                    [counts] = rig.store.count([where], most=most)
                    assert sum(each.count for each in counts.values()) == 1
            assert rig.store.select(Filter(queues=["other"])) == []


class AddTests(StoreTests):
    """``add_instances`` and ``count_waiting``."""

    def test_one_is_made_that_is_due_at_once(self, rig: Rig) -> None:
        of = rig.put(task(name="send", queue="mail"))
        added = rig.add(of, payload={"order": 7})
        assert added.state is State.PENDING
        payload = {"order": 7}
        expected = unclaimed(
            of, added, fire_time=None, execute_at=START, payload=payload
        )
        for found in (added, rig.read(added), *rig.instances(of)):
            assert found == expected
        assert ids(rig.claim(queues=["mail"])) == [added.id]

    def test_many_are_made_in_their_order(self, rig: Rig) -> None:
        of = rig.put(task())
        assert rig.store.add_instances(of.id, []) == []
        wanted = [Addition(payload={"number": number}) for number in range(120)]
        added = rig.store.add_instances(of.id, wanted)
        assert [each.payload for each in added] == [each.payload for each in wanted]
        assert ids(added) == ids(wanted)  # type: ignore[arg-type]
        assert len(rig.claim(limit=200)) == 120

    def test_one_is_due_at_its_time_or_after_its_delay(self, rig: Rig) -> None:
        of = rig.put(task())
        rig.advance(MINUTE)
        passed = rig.add(of, at=START - YEAR)
        delayed = rig.add(of, delay=HOUR)
        later = rig.add(of, at=START + YEAR)
        for each, at in (
            (passed, START - YEAR),
            (delayed, START + MINUTE + HOUR),
            (later, START + YEAR),
        ):
            for found in (each, rig.read(each)):
                assert found.execute_at == found.due_at == at
        assert ids(rig.claim(ahead=HOUR - SECOND)) == [passed.id]
        rig.advance(HOUR)
        [run] = rig.claim()
        assert (run.id, run.started_at) == (delayed.id, START + MINUTE + HOUR)

    def test_times_payloads_and_keys_come_back(self, rig: Rig) -> None:
        of = rig.put(task())
        for name, at in TIMES.items():
            added = rig.add(of, at=at)
            found = rig.read(added)
            assert added.execute_at == found.execute_at == at, name
        for payload in METADATA:
            added = rig.add(of, payload=payload, at=rig.now() + SECOND)
            claimed = rig.claim(ahead=SECOND)
            [run] = [each for each in rig.start(*claimed) if each.id == added.id]
            for found in (added, run, rig.read(run)):
                assert same(found.payload, payload), payload
                with pytest.raises(TypeError):
                    found.payload["new"] = 1  # type: ignore[index]
        for key in filter(str.strip, TEXTS):
            added = rig.add(of, key=key)
            assert added.key == rig.read(added).key == key
            assert rig.add(of, key=key).id == added.id, f"{key!r} was added twice"

    def test_a_key_is_kept_as_long_as_its_instance(self, rig: Rig) -> None:
        of = rig.put(task())
        first = rig.add(of, key="k", payload={"n": 1})
        rig.advance(SECOND)
        assert rig.add(of, key="k", payload={"n": 2}, delay=HOUR) == first
        assert len(rig.run_due()) == 1
        again = rig.add(of, key="k")
        assert again == rig.read(first)
        assert again.outcome is Outcome.COMPLETED
        rig.advance(YEAR)
        assert rig.clean_up() == 1
        new = rig.add(of, key="k")
        assert new.id != first.id
        assert new.state is State.PENDING

    def test_a_key_is_its_definitions(self, rig: Rig) -> None:
        one, other = rig.put(task()), rig.put(task())
        first = rig.add(one, key="k")
        assert rig.add(other, key="k").id != first.id
        rig.claim()
        rig.delete(one)
        again = rig.edit(one, revision=None)
        assert rig.add(again, key="k").id != first.id, "of the deleted definition"

    def test_a_key_may_be_in_a_batch_twice(self, rig: Rig) -> None:
        of = rig.put(task())
        first, second = rig.store.add_instances(of.id, [Addition(key="known")] * 2)
        assert first == second
        assert rig.instances(of) == [first]
        keys = ["new", "known", None, "new", None]
        added = rig.store.add_instances(of.id, [Addition(key=each) for each in keys])
        assert [each.key for each in added] == keys
        assert added[0] == added[3]
        assert added[1] == first
        assert len({*ids(added)}) == len(rig.instances(of)) == 4

    def test_a_repeated_addition_is_made_once(self, rig: Rig) -> None:
        of = rig.put(task())
        twice = [Addition(payload={"n": 1}), Addition(key="k")]
        first = rig.store.add_instances(of.id, twice)
        assert rig.store.add_instances(of.id, twice) == first
        assert len(rig.instances(of)) == 2

    def test_there_must_be_a_definition(self, rig: Rig) -> None:
        gone = rig.put(task())
        rig.delete(gone)
        batches: Sequence[Sequence[Addition]] = ([Addition(), Addition(key="k")], [])
        nodes = (None, claimant())
        for missing, batch, node in product((gone.id, NOBODY), batches, nodes):
            with pytest.raises(TaskDefinitionNotFoundError) as caught:
                rig.store.add_instances(missing, batch, claimant=node)
            assert caught.value.definition_id == missing
        assert counts_by_state(rig.store)[State.PENDING] == 0

    def test_of_many_with_one_key_one_is_made(self, rig: Rig) -> None:
        of = rig.put(task())
        for key in map(str, range(5)):
            answers = at_once(*[partial(rig.add, of, key=key)] * 8)
            assert len({each.id for each in answers}) == 1
        assert len(rig.instances(of)) == 5

    def test_a_key_added_beside_a_cleanup_has_an_instance(self, rig: Rig) -> None:
        of = rig.put(task())

        def add_one() -> UUID:
            return rig.add(of, key="k").id

        for _ in range(10):
            rig.clean_up()
            first = add_one()
            assert len(rig.run_due()) == 1
            *answers, _ = at_once(add_one, add_one, rig.clean_up)
            left = ids(rig.instances(of))
            assert len(left) <= 1
            assert {first, *left}.issuperset(answers)

    def test_an_addition_beside_a_delete_leaves_nothing(self, rig: Rig) -> None:
        def add_one(of: TaskDefinition) -> None:
            with suppress(TaskDefinitionNotFoundError):
                rig.add(of)

        for number in range(20):
            of = rig.put(task(key=number + 1))
            adds = partial(add_one, of)
            at_once(adds, partial(rig.store.delete_definitions, [of.id]), adds)
        assert counts_by_state(rig.store)[State.PENDING] == 0
        assert rig.claim() == []

    def test_a_completed_definition_is_kept_with_what_is_added(self, rig: Rig) -> None:
        of, idle = rig.ended().definition, rig.put(definition(None))
        asked = rig.put(definition(None, trigger=OnDemandTrigger(lasting=False)))
        rig.advance(HOUR)
        assert rig.clean_up(older_than=2 * HOUR) == 0
        added = [rig.add(each, at=START + YEAR) for each in (of, idle, asked)]
        assert rig.read(of).state is DefinitionState.COMPLETED
        rig.advance(YEAR)
        # It is the instance that had ended.
        assert rig.clean_up() == 1
        runs = rig.claim()
        assert {*ids(runs)} == {*ids(added)} == {*ids(rig.store.select())}
        for run in runs:
            assert rig.finish(run)
        rig.advance(YEAR)
        assert rig.clean_up() == 6
        assert rig.store.select_definitions() == []

    def test_no_trigger_waits_for_it(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR, trigger=WAITING))
        edited = rig.put(task())
        for each in (of, edited):
            rig.add(each)
        rig.edit(of, id=edited.id, revision=None)
        rig.run_due(next_fire_time=START + YEAR)
        for each in rig.due():
            assert each.next_fire_time == START + HOUR
            rig.add(each)
            assert rig.fire_steps(firing(each)) == [each.id]
            later = rig.add(each, at=START + YEAR)
            assert rig.cancel(later, next_fire_time=START + YEAR)
            rig.check(each, next_fire_time=None, completed_at=None)

    def test_no_more_wait_than_may(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=3))
        first = rig.add(of, key="a")
        [run] = rig.claim()
        assert run.id == first.id
        # What runs does not wait; a key that is there, or comes twice, is nothing new.
        keys = ("a", "b", "b", "c", "d")
        wanted = [Addition(key=key) for key in keys]
        made = rig.store.add_instances(of.id, wanted)
        assert len({*ids(made)}) == 4
        for again in (wanted, wanted[:1], wanted[-1:], [replace(wanted[1], key=None)]):
            assert len(rig.store.add_instances(of.id, again)) == len(again)
        for refused in ([Addition()], [Addition(), *wanted], [Addition(key="e")]):
            with pytest.raises(QueueFullError, match="3 instances waiting") as caught:
                rig.store.add_instances(of.id, refused)
            assert (caught.value.definition_id, caught.value.max_queue) == (of.id, 3)
        assert len(rig.instances(of)) == 4
        rig.release(run)
        rig.edit(of, revision=None, max_queue=4)
        with pytest.raises(QueueFullError):
            rig.add(of)
        rig.cancel(first)
        rig.add(of)
        rig.edit(of, revision=None, max_queue=None)
        assert len(rig.store.add_instances(of.id, [Addition(), Addition()])) == 2

    def test_what_is_dropped_is_recorded(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=2, when_full="drop"))
        keys = ("a", "b", "b", "c", None)
        wanted = [Addition(key=key, delay=SECOND, payload={"n": 1}) for key in keys]
        *made, lost, last = found = rig.store.add_instances(of.id, wanted)
        assert ids(found) == [wanted[each].id for each in (0, 1, 1, 3, 4)]
        assert {each.state for each in made} == {State.PENDING}
        at = START + SECOND
        reason = "2 of it wait, and no more may (max_queue)"
        for each, addition in ((lost, wanted[3]), (last, wanted[4])):
            assert each == rig.read(each)
            check(each, state=State.SKIPPED, completed_at=START)
            check(each, skipped=Skipped(first=at, last=at, count=1, reason=reason))
            check(each, execute_at=at, created_at=START, key=addition.key)
            check(each, payload={"n": 1}, attempt=0, runs=0, parked=False)
        assert counts_by_state(rig.store)[State.SKIPPED] == 2
        # It stays what it was, whether or not there is room by now.
        rig.cancel(made[0])
        assert rig.store.add_instances(of.id, wanted[2:4]) == [made[1], lost]
        assert rig.add(of, key="c", payload={"n": 2}) == lost
        assert rig.add(of).state is State.PENDING
        assert len(rig.claim(ahead=SECOND)) == 2
        # Its key goes with the record.
        rig.advance(YEAR)
        assert rig.clean_up() == 3
        assert rig.add(of, key="c").id not in ids(found)

    def test_what_is_dropped_waits_for_no_slot(self, rig: Rig) -> None:
        of = rig.put(task(overlap=Overlap.BUFFER_ALL, max_queue=1, when_full="drop"))
        [first, lost] = rig.store.add_instances(of.id, [Addition(), Addition()])
        assert lost.state is State.SKIPPED
        [run] = rig.claim()
        assert run.id == first.id
        rig.start(run)
        rig.pause(of)
        waits, lost = rig.store.add_instances(of.id, [Addition(), Addition()])
        assert (waits.state, lost.state) == (State.PENDING, State.SKIPPED)
        rig.resume(of)
        assert rig.finish(run)
        rig.store.review_parked(limit=9)
        assert ids(rig.claim()) == [waits.id]

    def test_what_nobody_has_begun_on_a_bus_waits(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=4, when_full="drop"))
        for _ in range(5):
            rig.add(of)
            rig.claim()
        published, accepted, asked, begun, handed_on = rig.instances(of)
        rig.hand_on(handed_on, lease=MINUTE)
        for each in (published, accepted, asked, begun):
            rig.report_stage(each, Stage.PUBLISHED)
        rig.report_stage(accepted, Stage.ACCEPTED)
        rig.report_stage(begun, Stage.STARTED)
        rig.cancel(asked)
        assert count_unstarted(rig.store, of.id, most=9) == 3
        assert count_unstarted(rig.store, of.id, most=1) == 1
        states = [rig.add(of).state for _ in range(2)]
        assert states == [State.PENDING, State.SKIPPED]
        # It begins; another one ends.
        rig.report_stage(accepted, Stage.STARTED)
        assert rig.finish(published)
        assert count_unstarted(rig.store, of.id, most=9) == 2
        states = [rig.add(of).state for _ in range(3)]
        assert states == [State.PENDING, State.PENDING, State.SKIPPED]

    @pytest.mark.parametrize("when_full", ["refuse", "drop"])
    def test_concurrent_additions_keep_the_limit(
        self, rig: Rig, when_full: Literal["refuse", "drop"]
    ) -> None:
        of = rig.put(task(max_queue=3, when_full=when_full))

        def try_to() -> bool:
            try:
                return rig.add(of).state is State.PENDING
            except QueueFullError:
                return False

        assert at_once(*[try_to] * 6).count(True) == 3
        found = [each.state for each in rig.instances(of)]
        assert found.count(State.PENDING) == 3
        assert found.count(State.SKIPPED) == (3 if when_full == "drop" else 0)
