"""Store suite: what had passed and not fired when another trigger took its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.changes import EDITED
from go_scheduler.stores.declared import Declaration
from go_scheduler.stores.unfired import MORE, MOST_COUNTED, UNFIRED
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    at_once,
    claim,
    clean_up,
    definition,
    due,
    fire,
    firing,
    instances,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

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
