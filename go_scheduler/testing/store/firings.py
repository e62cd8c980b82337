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
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    cancel,
    claim,
    clean_up,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    pending,
    put,
    running,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, task
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class DueTests:
    """``due_definitions``."""

    def test_what_is_not_fired_stays_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        early, late = put(store), put(store, definition(START + MINUTE))
        clock.advance(MINUTE)
        for _ in range(3):
            assert store.due_definitions(ahead=ZERO, limit=10) == [early, late]
            assert store.due_definitions(ahead=ZERO, limit=1) == [early]
            clock.advance(SECOND)

    def test_a_definition_is_due_when_its_fire_time_is_within_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        put(store, definition(None))
        put(store, definition(None, trigger=WAITING))
        past = put(store, definition(START - 1000 * HOUR))
        new = put(store, definition(START + MINUTE))
        assert due(store, ahead=MINUTE) == [past, new]
        assert due(store, ahead=MINUTE - TICK) == [past]
        clock.advance(TICK)
        assert due(store, ahead=MINUTE - TICK) == [past, new]
        clock.advance(MINUTE)
        assert due(store, ahead=ZERO) == [past, new]

    def test_it_is_read_as_it_is_stored(self, store: Store) -> None:
        put(store, definition(metadata={"a": 1}, name="b"))
        [read] = due(store)
        assert read == store.get_definition(read.id)
        assert (read.next_fire_time, read.revision) == (START, 1)

    def test_due_definitions_come_in_order_and_in_pages(self, store: Store) -> None:
        fire_times = {4: START, 2: START + TICK, 3: START, 1: START + 2 * TICK}
        for key, at in {**fire_times, 5: START - HOUR}.items():
            put(store, definition(at, key=key))
        for limit in (1, 2, 3, 5, 6):
            read: list[TaskDefinition] = []
            while page := due(store, after=read[-1] if read else None, limit=limit):
                assert len(page) <= limit, "a page has more definitions than its limit"
                read += page
            found = [each.id.int for each in read]
            assert found == [5, 3, 4, 2, 1], f"in pages of {limit}"

    def test_a_page_follows_one_that_moved_on_or_is_gone(self, store: Store) -> None:
        for key in range(4):
            put(store, definition(START + key * SECOND, key=key))
        [first, second] = due(store, limit=2)
        fire(store, first, next_fire_time=START + MINUTE)
        assert [each.id.int for each in due(store, after=first)] == [1, 2, 3, 0]
        store.delete_definitions([second.id])
        assert [each.id.int for each in due(store, after=second)] == [2, 3, 0]


EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
SKIPPED = Skipped(first=START - 2 * HOUR, last=START - HOUR, count=2, reason="too late")


class FireTests:
    """``fire_definitions``."""

    def test_each_fire_time_becomes_a_pending_instance(self, store: Store) -> None:
        read, other = put(store, definition(queue="other")), put(store)
        fire_times = (START, START + TICK, START + HOUR)
        made = fire(store, read, *fire_times)
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
        assert times(fire(store, other)) == [START]
        assert len(claim(store, ahead=HOUR)) == 1
        assert {*ids(claim(store, queues=["other"], ahead=HOUR))} == {*ids(made)}

    def test_an_instance_is_due_when_its_firing_says(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        step = Firing(
            definition=read,
            fire_times=(START, START + HOUR),
            execute_times=(START + MINUTE + TICK, START + HOUR),
        )
        assert store.fire_definitions([step]).done == {read.id}
        first, second = instances(store, read)
        assert (first.fire_time, first.execute_at) == (START, START + MINUTE + TICK)
        assert first.due_at == first.execute_at
        assert second.fire_time == second.execute_at == START + HOUR
        clock.advance(MINUTE)
        assert claim(store) == []
        clock.advance(TICK)
        assert ids(claim(store)) == [first.id]

    def test_the_definition_moves_on_and_keeps_its_revision(
        self, store: Store, clock: ManualClock
    ) -> None:
        goes_on, over = put(store), put(store)
        waits = put(store, definition(trigger=WAITING))
        clock.advance(MINUTE)
        for read, later, completed_at in (
            (goes_on, START + HOUR, None),
            (over, None, START + MINUTE),
            (waits, None, None),
        ):
            fire(store, read, next_fire_time=later)
            stored = store.get_definition(read.id)
            assert stored == read
            assert (stored.next_fire_time, stored.revision) == (later, 1)
            assert stored.completed_at == completed_at

    def test_a_firing_without_fire_times_only_moves_the_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(START + HOUR))
        for earlier_or_later in (START + MINUTE, START + 2 * HOUR):
            step = Firing(
                definition=store.get_definition(read.id),
                fire_times=(),
                next_fire_time=earlier_or_later,
            )
            assert store.fire_definitions([step]).done == {read.id}
            moved = store.get_definition(read.id)
            assert moved.next_fire_time == earlier_or_later
            assert (moved.revision, moved.completed_at) == (read.revision, None)
        assert store.fire_definitions([step]).done == set()
        assert instances(store, read) == []
        clock.advance(2 * HOUR)
        assert due(store) == [read]

    def test_the_same_firing_wins_once(self, store: Store) -> None:
        for later in (START + HOUR, None):
            step = firing(put(store), next_fire_time=later)
            assert store.fire_definitions([step]).done == {step.definition.id}
            assert store.fire_definitions([step]).done == set()
            assert times(instances(store, step.definition)) == [START]
            assert store.get_definition(step.definition.id).next_fire_time == later
        assert store.fire_definitions([]).done == set()

    def test_a_firing_of_another_revision_changes_nothing(self, store: Store) -> None:
        edited, resumed = put(store), put(store)
        put(store, replace(edited, name="edited"))
        store.pause_definitions([resumed.id])
        store.resume_definitions([resumed.id])
        for read in (edited, resumed):
            assert store.fire_definitions([firing(read)]).done == set()
            assert instances(store, read) == []
            assert store.get_definition(read.id).next_fire_time == START

    def test_a_firing_of_another_fire_time_changes_nothing(self, store: Store) -> None:
        read = put(store)
        for other in (
            replace(read, next_fire_time=START + TICK),
            replace(read, id=NOBODY),
        ):
            assert store.fire_definitions([firing(other)]).done == set()
        assert store.list_instances() == []
        assert store.get_definition(read.id).next_fire_time == START

    def test_one_firing_that_loses_costs_only_itself(self, store: Store) -> None:
        first, stale, last = put(store), put(store), put(store)
        put(store, replace(stale, name="edited"))
        steps = [firing(first), firing(stale), firing(last)]
        assert store.fire_definitions(steps).done == {first.id, last.id}
        made = [len(instances(store, each)) for each in (first, stale, last)]
        assert made == [1, 0, 1]

    def test_a_fire_time_never_gets_a_second_instance(self, store: Store) -> None:
        for first in (running(store), ended(store)):
            again = put(store, replace(first.definition, trigger=EVERY_TWO_HOURS))
            later = START + 2 * HOUR
            made = fire(store, again, START, START + HOUR, next_fire_time=later)
            assert times(made) == [START, START + HOUR]
            assert made[0] == store.get_instance(first.id)
            assert made[0].state is first.state
            assert store.get_definition(again.id).next_fire_time == later


class SkipTests:
    """``fire_definitions``, where fire times are skipped."""

    def test_skipped_fire_times_become_one_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        clock.advance(MINUTE)
        for fire_times in ((START,), ()):
            read = put(store, definition(SKIPPED.first))
            step = Firing(
                definition=read,
                fire_times=fire_times,
                skipped=SKIPPED,
                next_fire_time=START + HOUR,
            )
            assert store.fire_definitions([step]).done == {read.id}
            assert store.get_definition(read.id).next_fire_time == START + HOUR
            record, *made = instances(store, read)
            assert (record.fire_time, record.skipped) == (None, SKIPPED)
            assert record.execute_at == SKIPPED.first
            assert record.outcome is Outcome.SKIPPED
            assert record.completed_at == START + MINUTE
            assert store.get_instance(record.id) == record
            assert times(made) == [*fire_times]
            assert [each.skipped for each in made] == [None] * len(fire_times)
        clock.advance(HOUR)
        claimed = claim(store, ahead=HOUR, lapsed=True)
        assert [each.skipped for each in claimed] == [None], "a record was claimed"

    def test_a_record_of_skipped_ones_takes_no_fire_time(self, store: Store) -> None:
        read = put(store, definition(SKIPPED.first))
        for _ in range(2):
            # Any number of records may begin at the same time.
            step = firing(read, skipped=SKIPPED, next_fire_time=read.next_fire_time)
            assert store.fire_definitions([step]).done == {read.id}
        made = fire(store, read, SKIPPED.first)
        records = [each.skipped for each in made if each.fire_time is None]
        assert records == [SKIPPED, SKIPPED]
        assert times([each for each in made if each.skipped is None]) == [SKIPPED.first]

    def test_a_record_may_cover_a_fire_time_that_ran(self, store: Store) -> None:
        first = ended(store, definition(SKIPPED.first))
        again = put(store, replace(first.definition, trigger=EVERY_TWO_HOURS))
        step = firing(again, skipped=SKIPPED)
        assert store.fire_definitions([step]).done == {again.id}
        found = {each.id: each.skipped for each in instances(store, again)}
        assert found.pop(first.id) is None
        assert list(found.values()) == [SKIPPED]


def waits(store: Store, at: datetime = START) -> TaskDefinition:
    """A definition that has fired, waits for the end, and has a fire time even so."""
    read = put(store, definition(at, trigger=WAITING))
    fire(store, read, next_fire_time=START + HOUR)
    return store.get_definition(read.id)


class WaitingTests:
    """``fire_definitions``, where the trigger waits for the end of the last run."""

    def test_it_does_not_fire_while_an_instance_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        held = waits(store, START + SECOND)
        claim(store, ahead=SECOND)
        retried = waits(store)
        [run] = claim(store)
        assert finish(store, run, None, retry_in=HOUR)
        runs = waits(store)
        claim(store)
        given = {
            "claimed": held,
            "due for a retry": retried,
            "running": runs,
            "pending": waits(store),
        }

        def assert_none_fires(moment: str) -> None:
            for name, read in given.items():
                before = instances(store, read)
                answer = store.fire_definitions([firing(read)])
                assert answer.done == set(), f"fired beside what is {name}, {moment}"
                assert instances(store, read) == before
                found = store.get_definition(read.id).next_fire_time
                assert found == read.next_fire_time

        assert_none_fires("while its claim holds")
        clock.advance(HOUR)
        assert_none_fires("after its claim has lapsed")
        claim(store, OTHER_NODE, lapsed=True)
        assert_none_fires("after another node has claimed it")

    def test_it_fires_when_the_instance_has_ended(self, store: Store) -> None:
        skipped, ended = waits(store), waits(store)
        step = firing(skipped, skipped=SKIPPED, next_fire_time=START + HOUR)
        for run in claim(store):
            assert finish(store, run)
        cancelled = waits(store)
        assert cancel(store, *instances(store, cancelled))
        # A record of skipped ones is not open.
        assert store.fire_definitions([step]).done == {skipped.id}
        for read in (skipped, ended, cancelled):
            assert times(fire(store, read))[-2:] == [START, START + HOUR]


class NextFireTimeTests:
    """``finish_instances`` and ``cancel_instances``, where the trigger waits."""

    def test_a_definition_that_waits_fires_after_the_end(self, store: Store) -> None:
        for name in ("left alone", "edited", "paused", "cancelled"):
            make = pending if name == "cancelled" else running
            instance = make(store, definition(trigger=WAITING))
            of = instance.definition.id
            if name == "edited":
                put(store, replace(instance.definition, name="edited"))
            if name == "paused":
                store.pause_definitions([of])
            if name == "cancelled":
                cancel(store, instance, next_fire_time=START + HOUR)
            else:
                assert finish(store, instance, next_fire_time=START + HOUR)
            found = store.get_definition(of)
            assert (found.next_fire_time, found.completed_at) == (START + HOUR, None), (
                name
            )
            assert due(store) == ([] if name == "paused" else [found])
            [resumed] = store.resume_definitions([of])
            assert due(store) == [resumed]
            assert len(fire(store, resumed)) == 2

    def test_a_definition_that_waits_is_completed_if_it_fires_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        run = running(store, definition(trigger=WAITING))
        waiting = pending(store, definition(trigger=WAITING))
        clock.advance(SECOND)
        assert finish(store, run)
        assert cancel(store, waiting)
        for each in (run, waiting):
            found = store.get_definition(each.definition.id)
            assert (found.next_fire_time, found.completed_at) == (None, START + SECOND)

    def test_a_next_fire_time_that_is_known_stays(self, store: Store) -> None:
        for trigger in (WAITING, EVERY_TWO_HOURS):
            read = put(store, definition(trigger=trigger))
            fire(store, read, next_fire_time=START + MINUTE)
            [instance] = claim(store)
            assert finish(store, instance, next_fire_time=START + HOUR)
            found = store.get_definition(read.id)
            assert (found.next_fire_time, found.completed_at) == (START + MINUTE, None)

    def test_nothing_else_sets_a_next_fire_time(self, store: Store) -> None:
        later = START + HOUR
        plain = running(store)
        assert finish(store, plain, next_fire_time=later)
        asked = running(store, definition(trigger=WAITING))
        cancel(store, asked, next_fire_time=later)
        waiting_for_retry(store, definition(trigger=WAITING))
        [taken] = claim(store)
        stale = replace(taken, attempt=1)
        assert not finish(store, stale, Outcome.FAILED, next_fire_time=later)
        retried = running(store, definition(trigger=WAITING))
        assert finish(store, retried, None, next_fire_time=later)
        for name, each, completed_at in (
            ("the trigger does not wait", plain, START),
            ("the run is only asked to stop", asked, None),
            ("the claim is lost", taken, None),
            ("the run is tried again", retried, None),
        ):
            found = store.get_definition(each.definition.id)
            assert found.next_fire_time is None, name
            assert found.completed_at == completed_at, name


class OnDemandTests:
    """Definitions that fire only on demand."""

    def test_one_on_demand_is_active_and_never_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        new, other, _ = store.put_definitions(
            [task(), task(), definition(START + 2 * YEAR)]
        )
        add(store, other)
        [run] = claim(store)
        assert finish(store, run)
        clock.advance(YEAR)
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger()
            assert found.next_fire_time is None
            assert found.completed_at is None
            assert found.state is DefinitionState.ACTIVE
        assert due(store) == []
        assert len(store.list_definitions(state=DefinitionState.ACTIVE)) == 3
        assert clean_up(store) == 1
        assert instances(store, other) == []
        assert store.list_definitions(ids=[other.id]) == [other]

    def test_one_that_does_not_last_is_completed_at_once(self, store: Store) -> None:
        new = put(store, definition(None, trigger=OnDemandTrigger(lasting=False)))
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger(lasting=False)
            assert (found.completed_at, found.next_fire_time) == (START, None)

    def test_an_edit_makes_one_on_demand_and_back(self, store: Store) -> None:
        old = put(store, definition(START + HOUR))
        fire(store, old)
        new = put(store, replace(task(), id=old.id))
        assert (new.next_fire_time, new.completed_at) == (None, None)
        assert instances(store, new) == []
        added = add(store, new)
        again = put(store, replace(definition(START), id=old.id))
        assert again.next_fire_time == START
        assert ids(due(store)) == [old.id]
        assert ids(instances(store, again)) == [added.id]

    def test_the_end_of_a_former_run_completes_nothing(self, store: Store) -> None:
        run = running(store, definition(trigger=WAITING))
        put(store, replace(task(), id=run.definition.id))
        assert finish(store, run, next_fire_time=START + HOUR)
        found = store.get_definition(run.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)
