"""Store suite: definitions that are due are found, and each fire time is made once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import DefinitionState, Outcome, Skipped, State, TaskInstance
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    definition,
    firing,
    ids,
    task,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
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
            read: list[TaskDefinition] = []
            while page := rig.due(after=read[-1] if read else None, limit=limit):
                assert len(page) <= limit, "a page has more definitions than its limit"
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


EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
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
            assert each == TaskInstance(
                id=each.id,
                definition=read,
                fire_time=at,
                execute_at=at,
                due_at=at,
                created_at=START,
            )
        assert times(rig.fire(other)) == [START]
        assert len(rig.claim(ahead=HOUR)) == 1
        assert {*ids(rig.claim(queues=["other"], ahead=HOUR))} == {*ids(made)}

    def test_an_instance_is_due_when_its_firing_says(self, rig: Rig) -> None:
        read = rig.put()
        step = Firing(
            definition=read,
            fire_times=(START, START + HOUR),
            execute_times=(START + MINUTE + TICK, START + HOUR),
        )
        assert rig.fire_steps(step) == [read.id]
        first, second = rig.instances(read)
        assert (first.fire_time, first.execute_at) == (START, START + MINUTE + TICK)
        assert first.due_at == first.execute_at
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
            assert (stored.next_fire_time, stored.revision) == (later, 1)
            assert stored.completed_at == completed_at

    def test_a_firing_without_fire_times_makes_nothing(self, rig: Rig) -> None:
        read = rig.put(definition(START + HOUR))
        for earlier_or_later in (START + MINUTE, START + 2 * HOUR):
            step = Firing(
                definition=rig.read(read),
                fire_times=(),
                next_fire_time=earlier_or_later,
            )
            assert rig.fire_steps(step) == [read.id]
            moved = rig.read(read)
            assert moved.next_fire_time == earlier_or_later
            assert (moved.revision, moved.completed_at) == (read.revision, None)
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
        rig.put(replace(edited, name="edited"))
        rig.pause(resumed)
        rig.resume(resumed)
        for read in (edited, resumed):
            assert rig.fire_steps(firing(read)) == []
            assert rig.instances(read) == []
            assert rig.read(read).next_fire_time == START

    def test_a_firing_of_another_fire_time_changes_nothing(self, rig: Rig) -> None:
        read = rig.put()
        for other in (
            replace(read, next_fire_time=START + TICK),
            replace(read, id=NOBODY),
        ):
            assert rig.fire_steps(firing(other)) == []
        assert rig.store.list_instances() == []
        assert rig.read(read).next_fire_time == START

    def test_one_firing_that_loses_costs_only_itself(self, rig: Rig) -> None:
        first, stale, last = rig.put(), rig.put(), rig.put()
        rig.put(replace(stale, name="edited"))
        steps = [firing(first), firing(stale), firing(last)]
        assert rig.store.fire_definitions(steps).done == {first.id, last.id}
        made = [len(rig.instances(each)) for each in (first, stale, last)]
        assert made == [1, 0, 1]

    def test_a_fire_time_never_gets_a_second_instance(self, rig: Rig) -> None:
        for first in (rig.running(), rig.ended()):
            again = rig.put(replace(first.definition, trigger=EVERY_TWO_HOURS))
            later = START + 2 * HOUR
            made = rig.fire(again, START, START + HOUR, next_fire_time=later)
            assert times(made) == [START, START + HOUR]
            assert made[0] == rig.read(first)
            assert made[0].state is first.state
            assert rig.read(again).next_fire_time == later


class SkipTests(StoreTests):
    """``fire_definitions``, where fire times are skipped."""

    def test_skipped_fire_times_become_one_instance(self, rig: Rig) -> None:
        rig.advance(MINUTE)
        for fire_times in ((START,), ()):
            read = rig.put(definition(SKIPPED.first))
            step = Firing(
                definition=read,
                fire_times=fire_times,
                skipped=SKIPPED,
                next_fire_time=START + HOUR,
            )
            assert rig.fire_steps(step) == [read.id]
            assert rig.read(read).next_fire_time == START + HOUR
            record, *made = rig.instances(read)
            assert (record.fire_time, record.skipped) == (None, SKIPPED)
            assert record.execute_at == SKIPPED.first
            assert record.outcome is Outcome.SKIPPED
            assert record.completed_at == START + MINUTE
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
            step = firing(read, skipped=SKIPPED, next_fire_time=read.next_fire_time)
            assert rig.fire_steps(step) == [read.id]
        made = rig.fire(read, SKIPPED.first)
        records = [each.skipped for each in made if each.fire_time is None]
        assert records == [SKIPPED, SKIPPED]
        assert times([each for each in made if each.skipped is None]) == [SKIPPED.first]

    def test_a_record_may_cover_a_fire_time_that_ran(self, rig: Rig) -> None:
        first = rig.ended(definition(SKIPPED.first))
        again = rig.put(replace(first.definition, trigger=EVERY_TWO_HOURS))
        step = firing(again, skipped=SKIPPED)
        assert rig.fire_steps(step) == [again.id]
        found = {each.id: each.skipped for each in rig.instances(again)}
        assert found.pop(first.id) is None
        assert list(found.values()) == [SKIPPED]


def waits(rig: Rig, at: datetime = START) -> TaskDefinition:
    """A definition that has fired, waits for the end, and has a fire time even so."""
    read = rig.put(definition(at, trigger=WAITING))
    rig.fire(read, next_fire_time=START + HOUR)
    return rig.read(read)


class WaitingTests(StoreTests):
    """``fire_definitions``, where the trigger waits for the end of the last run."""

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
                answer = rig.store.fire_definitions([firing(read)])
                assert answer.done == set(), f"fired beside what is {name}, {moment}"
                assert rig.instances(read) == before
                found = rig.read(read).next_fire_time
                assert found == read.next_fire_time

        assert_none_fires("while its claim holds")
        rig.advance(HOUR)
        assert_none_fires("after its claim has lapsed")
        rig.take_over()
        assert_none_fires("after another node has claimed it")

    def test_it_fires_when_the_instance_has_ended(self, rig: Rig) -> None:
        skipped, ended = waits(rig), waits(rig)
        step = firing(skipped, skipped=SKIPPED, next_fire_time=START + HOUR)
        for run in rig.claim():
            assert rig.finish(run)
        cancelled = waits(rig)
        assert rig.cancel(*rig.instances(cancelled))
        # A record of skipped ones is not open.
        assert rig.fire_steps(step) == [skipped.id]
        for read in (skipped, ended, cancelled):
            assert times(rig.fire(read))[-2:] == [START, START + HOUR]


class NextFireTimeTests(StoreTests):
    """``finish_instances`` and ``cancel_instances``, where the trigger waits."""

    def test_a_definition_that_waits_fires_after_the_end(self, rig: Rig) -> None:
        for name in ("left alone", "edited", "paused", "cancelled"):
            make = rig.pending if name == "cancelled" else rig.running
            instance = make(definition(trigger=WAITING))
            of = instance.definition.id
            if name == "edited":
                rig.put(replace(instance.definition, name="edited"))
            if name == "paused":
                rig.store.pause_definitions([of])
            if name == "cancelled":
                rig.cancel(instance, next_fire_time=START + HOUR)
            else:
                assert rig.finish(instance, next_fire_time=START + HOUR)
            found = rig.store.get_definition(of)
            assert (found.next_fire_time, found.completed_at) == (START + HOUR, None), (
                name
            )
            assert rig.due() == ([] if name == "paused" else [found])
            [resumed] = rig.store.resume_definitions([of])
            assert rig.due() == [resumed]
            assert len(rig.fire(resumed)) == 2

    def test_the_end_of_the_last_run_completes_it(self, rig: Rig) -> None:
        run = rig.running(definition(trigger=WAITING))
        waiting = rig.pending(definition(trigger=WAITING))
        rig.advance(SECOND)
        assert rig.finish(run)
        assert rig.cancel(waiting)
        for each in (run, waiting):
            found = rig.read(each.definition)
            assert (found.next_fire_time, found.completed_at) == (None, START + SECOND)

    def test_a_next_fire_time_that_is_known_stays(self, rig: Rig) -> None:
        for trigger in (WAITING, EVERY_TWO_HOURS):
            read = rig.put(definition(trigger=trigger))
            rig.fire(read, next_fire_time=START + MINUTE)
            [instance] = rig.claim()
            assert rig.finish(instance, next_fire_time=START + HOUR)
            found = rig.read(read)
            assert (found.next_fire_time, found.completed_at) == (START + MINUTE, None)

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
            found = rig.read(each.definition)
            assert found.next_fire_time is None, name
            assert found.completed_at == completed_at, name


class OnDemandTests(StoreTests):
    """Definitions that fire only on demand."""

    def test_one_on_demand_is_active_and_never_due(self, rig: Rig) -> None:
        new, other, _ = rig.store.put_definitions(
            [task(), task(), definition(START + 2 * YEAR)]
        )
        rig.add(other)
        [run] = rig.claim()
        assert rig.finish(run)
        rig.advance(YEAR)
        for found in (new, rig.read(new)):
            assert found.trigger == OnDemandTrigger()
            assert found.next_fire_time is None
            assert found.completed_at is None
            assert found.state is DefinitionState.ACTIVE
        assert rig.due() == []
        assert len(rig.store.list_definitions(state=DefinitionState.ACTIVE)) == 3
        assert rig.clean_up() == 1
        assert rig.instances(other) == []
        assert rig.store.list_definitions(ids=[other.id]) == [other]

    def test_one_that_does_not_last_is_completed_at_once(self, rig: Rig) -> None:
        new = rig.put(definition(None, trigger=OnDemandTrigger(lasting=False)))
        for found in (new, rig.read(new)):
            assert found.trigger == OnDemandTrigger(lasting=False)
            assert (found.completed_at, found.next_fire_time) == (START, None)

    def test_an_edit_makes_one_on_demand_and_back(self, rig: Rig) -> None:
        old = rig.put(definition(START + HOUR))
        rig.fire(old)
        new = rig.put(replace(task(), id=old.id))
        assert (new.next_fire_time, new.completed_at) == (None, None)
        assert rig.instances(new) == []
        added = rig.add(new)
        again = rig.put(replace(definition(START), id=old.id))
        assert again.next_fire_time == START
        assert ids(rig.due()) == [old.id]
        assert ids(rig.instances(again)) == [added.id]

    def test_the_end_of_a_former_run_completes_nothing(self, rig: Rig) -> None:
        run = rig.running(definition(trigger=WAITING))
        rig.put(replace(task(), id=run.definition.id))
        assert rig.finish(run, next_fire_time=START + HOUR)
        found = rig.read(run.definition)
        assert (found.next_fire_time, found.completed_at) == (None, None)
