"""Store suite: an edit reaches the instances, the slots, and what had not fired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.rules import EDITED, MORE, MOST_COUNTED, UNFIRED, Declaration
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    at_once,
    claim,
    claimed,
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
    release,
    renew,
    running,
    start,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import (
    excluding,
    fired,
    go,
    is_parked,
    settled,
)
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)


class EditTests:
    """What ``put_definitions`` does to instances."""

    def test_whether_it_was_late_when_scheduled_is_kept_with_its_trigger(
        self, store: Store
    ) -> None:
        new = put(store, replace(definition(START), overdue=True))
        assert new.overdue
        assert store.get_definition(new.id).overdue
        edited = put(store, replace(new, name="other", overdue=False))
        assert edited.overdue
        [instance] = fire(store, edited)
        assert instance.definition.overdue
        assert store.get_definition(new.id).overdue
        other = replace(edited, trigger=EVERY_TWO_HOURS, overdue=False)
        assert not put(store, other).overdue
        assert not store.get_definition(new.id).overdue
        put(store, replace(other, trigger=HOURLY, overdue=True, revision=None))
        assert store.get_definition(new.id).overdue

    def test_unclaimed_instances_go_to_the_new_queue(self, store: Store) -> None:
        instance = pending(store)
        put(store, replace(instance.definition, queue="other"))
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_later_instances_are_in_the_new_queue(self, store: Store) -> None:
        changed = put(store, replace(put(store), queue="other"))
        [instance] = fire(store, changed)
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_what_has_ended_goes_to_no_queue(self, store: Store) -> None:
        ended = running(store)
        assert finish(store, ended)
        put(store, replace(ended.definition, queue="other"))
        assert claim(store, queues=["default", "other"]) == []
        assert store.get_instance(ended.id).state is State.COMPLETED

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_what_waits_for_a_retry_goes_to_the_new_queue(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = waiting_for_retry(store)
        put(store, replace(instance.definition, queue="other", trigger=trigger))
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]

    def test_what_is_claimed_goes_to_the_new_queue(self, store: Store) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, queue="other"))
        assert not release(store, instance)
        assert claim(store, ahead=HOUR) == []
        assert ids(claim(store, queues=["other"], ahead=HOUR)) == [instance.id]

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_what_runs_goes_to_the_new_queue(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        instance = running(store)
        put(store, replace(instance.definition, queue="other", trigger=trigger))
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        [taken] = claim(store, OTHER_NODE, queues=["other"], lapsed=True)
        assert taken.id == instance.id

    def test_what_is_frozen_goes_to_the_new_queue_and_can_be_deleted(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store)
        [paused] = store.pause_definitions([instance.definition.id])
        put(store, replace(paused, queue="other"))
        assert claim(store, queues=["other"], ahead=HOUR) == []
        store.delete_definitions([paused.id])
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_a_claim_survives_another_value(self, store: Store) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, name="other"))
        assert ids(start(store, instance)) == [instance.id]

    def test_a_start_uses_the_latest_values(self, store: Store) -> None:
        instance = claimed(store)
        new = replace(
            instance.definition, name="b", metadata={"c": 2}, expire_after=SECOND
        )
        put(store, new)
        [started] = start(store, instance)
        assert started.definition == new
        assert started.metadata == {"c": 2}
        assert started.expires_at == instance.due_at + SECOND

    def test_a_claim_with_a_start_uses_the_latest_values(self, store: Store) -> None:
        instance = pending(store)
        put(store, replace(instance.definition, name="b", expire_after=SECOND))
        [started] = claim(store)
        assert started.definition.name == "b"
        assert started.expires_at == START + SECOND

    def test_another_value_moves_no_instance(self, store: Store) -> None:
        instance = pending(store, definition(START + SECOND))
        put(store, replace(instance.definition, name="b", next_fire_time=START + HOUR))
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_trigger_removes_what_is_pending_and_still_to_come(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND))
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert instances(store, instance.definition) == []
        assert claim(store, ahead=HOUR) == []

    def test_another_trigger_removes_what_is_claimed_and_not_started(
        self, store: Store
    ) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert not finish(store, instance)
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_another_trigger_skips_what_has_passed(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = pending(store, definition(trigger=trigger))
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert claim(store, ahead=HOUR) == []
        found = store.get_instance(instance.id)
        assert (found.state, found.completed_at) == (State.SKIPPED, START)
        assert found.skipped == Skipped.itself(START, EDITED)
        assert found.fire_time is None
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_trigger_skips_what_has_passed_and_is_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        clock.advance(SECOND)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert store.get_instance(instance.id).state is State.SKIPPED

    def test_another_trigger_skips_what_is_frozen_and_has_passed(
        self, store: Store
    ) -> None:
        instance = pending(store)
        [paused] = store.pause_definitions([instance.definition.id])
        put(store, replace(paused, trigger=EVERY_TWO_HOURS))
        assert store.get_instance(instance.id).state is State.SKIPPED
        store.resume_definitions([paused.id])
        assert claim(store) == []

    def test_another_trigger_leaves_what_runs(self, store: Store) -> None:
        instance = running(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert renew(store, instance) == {instance.id: False}
        assert finish(store, instance)

    def test_another_trigger_leaves_what_waits_for_a_retry(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(claim(store)) == [instance.id]

    def test_another_trigger_leaves_a_claimed_retry(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(start(store, instance)) == [instance.id]

    def test_another_trigger_leaves_what_has_ended(self, store: Store) -> None:
        instance = ended(store)
        put(store, replace(instance.definition, trigger=EVERY_TWO_HOURS))
        assert ids(instances(store, instance.definition)) == [instance.id]

    def test_another_jitter_has_what_is_still_to_come_made_anew(
        self, store: Store
    ) -> None:
        old = put(store)
        later = START + HOUR
        fire(store, old, later, next_fire_time=START + 2 * HOUR)
        stored = put(store, replace(old, next_fire_time=START, jitter=SECOND))
        assert instances(store, stored) == []
        found = store.get_definition(stored.id)
        for each in (stored, found):
            assert (each.jitter, each.next_fire_time) == (SECOND, later)
            assert each.revision == 2
        assert ids(due(store)) == [stored.id]
        assert times(fire(store, found)) == [later]

    def test_another_jitter_has_a_one_off_that_is_still_to_come_made_anew(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(START + SECOND))
        completed = store.get_definition(instance.definition.id)
        assert completed.completed_at is not None
        stored = put(store, replace(completed, jitter=SECOND))
        assert (stored.next_fire_time, stored.completed_at) == (START + SECOND, None)

    def test_another_jitter_leaves_what_has_passed(self, store: Store) -> None:
        old = put(store)
        later = START + HOUR
        fire(store, old, START, START + SECOND, next_fire_time=later)
        stored = put(store, replace(old, jitter=SECOND))
        assert stored.next_fire_time == START + SECOND
        assert times(claim(store)) == [START]

    def test_another_jitter_leaves_what_was_missed_to_be_caught_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        old = put(store)
        clock.advance(HOUR)
        later = clock.now() + HOUR
        stored = put(store, replace(old, next_fire_time=later, jitter=SECOND))
        assert stored.next_fire_time == START

    def test_another_jitter_goes_back_over_nothing_that_has_begun(
        self, store: Store
    ) -> None:
        old = put(store)
        step = [START + number * SECOND for number in (1, 2, 3)]
        fire(store, old, *step, next_fire_time=START + HOUR)
        _, second, third = claim(store, ahead=HOUR)
        start(store, second)
        stored = put(store, replace(old, jitter=SECOND))
        assert stored.next_fire_time == third.fire_time
        assert times(instances(store, stored)) == step[:2]

    def test_another_jitter_begins_no_second_life(self, store: Store) -> None:
        instance = ended(store)
        completed = store.get_definition(instance.definition.id)
        assert completed.completed_at is not None
        again = replace(completed, next_fire_time=START, jitter=SECOND)
        stored = put(store, again)
        assert (stored.jitter, stored.next_fire_time) == (SECOND, None)
        assert stored.completed_at == completed.completed_at

    def test_another_trigger_leaves_the_record_of_skipped_ones(
        self, store: Store
    ) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        stored = put(store)
        store.fire_definitions([firing(stored, skipped=skipped)])
        put(store, replace(stored, trigger=EVERY_TWO_HOURS))
        [record] = instances(store, stored)
        assert record.skipped == skipped

    def test_a_removed_instance_leaves_its_fire_time_free(self, store: Store) -> None:
        later = START + SECOND
        old = pending(store, definition(later))
        changed = put(store, replace(old.definition, trigger=EVERY_TWO_HOURS))
        [new] = fire(store, changed, later)
        assert new.fire_time == later
        assert new.id != old.id

    def test_an_instance_that_an_edit_skips_leaves_its_fire_time_free(
        self, store: Store
    ) -> None:
        old = pending(store)
        changed = put(store, replace(old.definition, trigger=EVERY_TWO_HOURS))
        fire(store, changed, START)
        [new] = claim(store)
        assert new.fire_time == START
        assert new.id != old.id


DAILY = IntervalTrigger(timedelta(days=1), anchor=START)
BOUNDLESS = IntervalTrigger(SECOND, anchor=START)


@dataclass(frozen=True)
class ForeignTrigger(Trigger):
    """A trigger that is not of this package; no store has it tell anything."""

    kind: ClassVar[str] = "go_scheduler_testing.foreign"

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Fail: it might as well hang."""
        raise AssertionError("a store asked a foreign trigger")


# As if somebody else had written it.
ForeignTrigger.__module__ = "somebody.elses"


class UnfiredTests:
    """The record that ``put_definitions`` leaves of what was not fired."""

    def test_another_trigger_leaves_one_record_of_what_had_not_fired(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(3 * HOUR)
        moved = reschedule(store, read)
        [record] = instances(store, moved)
        assert record.skipped == Skipped(
            first=START, last=START + 3 * HOUR, count=4, reason=UNFIRED
        )
        assert (record.state, record.outcome) == (State.SKIPPED, Outcome.SKIPPED)
        assert (record.fire_time, record.execute_at) == (None, START)
        assert record.completed_at == START + 3 * HOUR
        assert store.counts()[State.SKIPPED] == 1

    def test_what_has_its_instance_is_in_no_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        fire(store, read, START, next_fire_time=START + HOUR)
        clock.advance(3 * HOUR)
        found = instances(store, reschedule(store, read))
        assert [each.skipped for each in found] == [
            Skipped.itself(START, EDITED),
            Skipped(first=START + HOUR, last=clock.now(), count=3, reason=UNFIRED),
        ]

    def test_what_was_on_time_leaves_no_record(self, store: Store) -> None:
        read = put(store, definition(START + TICK))
        assert instances(store, reschedule(store, read)) == []

    def test_what_has_ended_leaves_no_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        made = fire(store, read)
        start(store, *claim(store))
        clock.advance(HOUR)
        assert len(instances(store, reschedule(store, read))) == len(made)

    def test_an_edit_that_keeps_the_trigger_leaves_no_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(3 * HOUR)
        for edit in ({"name": "other"}, {"jitter": SECOND}, {"overlap": Overlap.SKIP}):
            read = put(store, replace(read, **edit))
        assert instances(store, read) == []
        assert due(store)[0].next_fire_time == START

    def test_what_waits_for_the_end_of_a_run_had_one_fire_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(trigger=WAITING))
        clock.advance(3 * HOUR)
        [record] = instances(store, reschedule(store, read))
        assert record.skipped == Skipped.itself(START, UNFIRED)

    @pytest.mark.parametrize(
        "trigger",
        [UnknownTrigger("from.another.node", {}, "not here"), ForeignTrigger()],
    )
    def test_what_cannot_be_counted_is_recorded_up_to_the_edit(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        read = put(store, definition(trigger=trigger))
        clock.advance(HOUR)
        [record] = instances(store, reschedule(store, read))
        assert record.skipped == Skipped(
            first=START, last=clock.now(), count=1, reason=UNFIRED + MORE
        )

    def test_so_many_are_counted_and_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(trigger=BOUNDLESS))
        clock.advance(timedelta(days=365))
        [record] = instances(store, reschedule(store, read))
        assert record.skipped == Skipped(
            first=START, last=clock.now(), count=MOST_COUNTED, reason=UNFIRED + MORE
        )

    def test_what_passed_while_it_was_paused_says_so(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(START + HOUR))
        [paused] = store.pause_definitions([read.id], note="holidays")
        clock.advance(HOUR)
        moved = reschedule(store, paused)
        [record] = instances(store, moved)
        assert moved.paused
        assert record.skipped == Skipped.itself(
            START + HOUR,
            f"{UNFIRED}; paused since 2030-01-01 00:00:00 UTC: holidays",
        )
        clock.advance(MINUTE)
        [resumed] = store.resume_definitions([read.id])
        assert instances(store, resumed) == [record]

    def test_what_passed_in_a_pause_that_has_ended_says_so(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        store.pause_definitions([read.id])
        clock.advance(MINUTE)
        [resumed] = store.resume_definitions([read.id])
        clock.advance(MINUTE)
        [record] = instances(store, reschedule(store, resumed))
        assert record.skipped is not None
        assert "paused from 2030-01-01 00:00:00 UTC" in record.skipped.reason

    def test_each_edit_records_what_it_finds(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(HOUR)
        reschedule(store, read)
        clock.advance(LEASE)
        again = put(store, replace(read, trigger=HOURLY, revision=None))
        counts = [
            each.skipped and each.skipped.count for each in instances(store, again)
        ]
        assert counts == [2]
        clock.advance(HOUR)
        stored = put(store, replace(again, trigger=DAILY, revision=None))
        assert len(instances(store, stored)) == 2

    def test_of_a_batch_each_leaves_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = [put(store, definition(START + number * HOUR)) for number in range(3)]
        clock.advance(HOUR)
        moved = [replace(each, trigger=DAILY) for each in read]
        store.put_definitions(moved)
        counts = [len(instances(store, each)) for each in moved]
        assert counts == [1, 1, 0]

    def test_what_is_declared_with_another_trigger_leaves_a_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(HOUR)
        moved = replace(read, trigger=DAILY, next_fire_time=START + LEASE)
        store.declare_definitions(
            Declaration(owner="one", definitions=[moved], adopts=True)
        )
        [record] = instances(store, read)
        assert record.skipped is not None
        assert record.skipped.count == 2

    def test_a_record_is_cleaned_up_as_what_has_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(HOUR)
        over = reschedule(store, read, next_fire_time=None)
        assert over.completed_at == clock.now()
        assert len(instances(store, read)) == 1
        assert clean_up(store) == 2
        assert store.list_definitions() == []

    def test_a_fire_and_another_trigger_record_each_fire_time_once(
        self, store: Store
    ) -> None:
        for _ in range(5):
            read = put(store)
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(store.fire_definitions, [step]),
                partial(reschedule, store, read),
            )
            assert skipped_in(instances(store, read)) == [START]


def reschedule(
    store: Store,
    read: TaskDefinition,
    next_fire_time: datetime | None = START + 9 * HOUR,
) -> TaskDefinition:
    """Put a definition with another trigger, whatever else has become of it."""
    moved = replace(read, trigger=DAILY, next_fire_time=next_fire_time, revision=None)
    return put(store, moved)


def skipped_in(given: Sequence[TaskInstance]) -> Sequence[datetime]:
    """Of each record the first fire time."""
    return [each.skipped.first for each in given if each.skipped is not None]


class SlotEditTests:
    """What becomes of slots when a definition's ``overlap`` or ``lock`` is another."""

    def test_what_is_parked_goes_by_the_new_lock(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        other = put(store, excluding(Overlap.ALLOW, lock="a"))
        [parked] = fire(store, other)
        assert go(store) == []
        put(store, replace(other, lock="b", revision=None))
        assert not is_parked(store, parked)
        assert ids(go(store)) == [parked.id]

    def test_what_is_parked_goes_on_when_nothing_is_excluded_any_more(
        self, store: Store
    ) -> None:
        given = put(store, excluding())
        _, second = fire(store, given, START, START + SECOND)
        go(store)
        put(store, replace(given, overlap=Overlap.ALLOW, revision=None))
        [claimed] = claim(store, lead=HOUR, ahead=HOUR)
        assert (claimed.id, claimed.state) == (second.id, State.RUNNING)

    def test_who_has_a_slot_keeps_it_until_its_end(self, store: Store) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        put(store, replace(given, lock="b", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        finish(store, runs)
        assert ids(settled(store).unparked) == [other.id]
        assert ids(go(store)) == [other.id]

    @pytest.mark.parametrize("lock", ["b", None])
    def test_what_waits_for_a_retry_lets_go_of_its_slot(
        self, store: Store, lock: str | None
    ) -> None:
        given = put(store, excluding(Overlap.ALLOW, lock="a"))
        fire(store, given)
        [runs] = go(store)
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        assert finish(store, runs, None)
        put(store, replace(given, lock=lock, revision=None))
        assert ids(settled(store).unparked) == [other.id]
        assert {*ids(go(store))} == {runs.id, other.id}

    def test_what_a_dead_node_ran_keeps_its_slot_until_its_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        go(store)
        clock.advance(LEASE)
        put(store, replace(given, lock="b", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        [taken] = claim(store, lapsed=True)
        start(store, taken)
        assert is_parked(store, other)
        finish(store, taken)
        assert ids(settled(store).unparked) == [other.id]

    def test_what_runs_without_a_slot_takes_one_when_it_runs_again(
        self, store: Store
    ) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        put(store, replace(given, lock="a", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert ids(go(store)) == [other.id]
        assert finish(store, plain, None)
        assert go(store) == []
        assert is_parked(store, plain)

    def test_what_is_claimed_goes_by_the_new_lock_at_its_start(
        self, store: Store
    ) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        given = put(store, definition(START + SECOND))
        fire(store, given)
        [claimed] = claim(store, ahead=HOUR)
        put(store, replace(given, lock="a", revision=None))
        [found] = start(store, claimed)
        assert found.parked

    def test_another_overlap_judges_what_is_parked_anew(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = put(store, excluding(Overlap.BUFFER_ALL))
        _, second = fire(store, given, START, START + SECOND)
        go(store)
        clock.advance(SECOND)
        assert settled(store).skipped == []
        put(store, replace(given, overlap=Overlap.SKIP, revision=None))
        go(store)
        assert ids(settled(store).skipped) == [second.id]

    def test_what_is_parked_and_frozen_stays_so_whatever_it_excludes(
        self, store: Store
    ) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        finish(store, plain, None)
        fired(store, excluding(lock="a"))
        put(store, replace(given, lock="a", revision=None))
        started = go(store)
        parked = plain if is_parked(store, plain) else started[0]
        store.pause_definitions([parked.definition.id])
        read = store.get_definition(parked.definition.id)
        put(store, replace(read, lock="b", revision=None))
        assert claim(store, ahead=HOUR) == []

    def test_a_trigger_that_waits_needs_no_slot_of_its_own(self, store: Store) -> None:
        given = put(store, excluding(Overlap.SKIP))
        fire(store, given, START + HOUR)
        put(store, replace(given, trigger=WAITING, revision=None))
        read = store.get_definition(given.id)
        [instance] = fire(store, read)
        [claimed] = claim(store)
        assert (claimed.id, claimed.state) == (instance.id, State.RUNNING)
