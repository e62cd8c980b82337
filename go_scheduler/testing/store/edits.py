"""Store suite: an edit reaches the instances, the slots, and what had not fired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler.models import Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.rules import EDITED, MORE, MOST_COUNTED, UNFIRED, Declaration
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
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
    renew,
    start,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import (
    AFTER_ANOTHER_TRIGGER,
    made_in_each_state,
    pause,
    states,
)
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
    from collections.abc import Mapping, Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)


def edit_all(store: Store, made: Mapping[str, TaskInstance], **values: Any) -> None:
    """Edit the definition of each instance."""
    for each in made.values():
        put(store, replace(each.definition, **values))


class EditTests:
    """What ``put_definitions`` does to instances."""

    def test_overdue_is_kept_as_long_as_the_trigger(self, store: Store) -> None:
        new = put(store, replace(definition(START), overdue=True))
        edited = put(store, replace(new, name="other", overdue=False))
        [instance] = fire(store, edited)
        for each in (new, edited, instance.definition, store.get_definition(new.id)):
            assert each.overdue
        other = replace(edited, trigger=EVERY_TWO_HOURS, overdue=False)
        for each in (put(store, other), store.get_definition(new.id)):
            assert not each.overdue
        put(store, replace(other, trigger=HOURLY, overdue=True, revision=None))
        assert store.get_definition(new.id).overdue

    def test_another_value_leaves_each_instance_as_it_is(
        self, store: Store, clock: ManualClock
    ) -> None:
        made = made_in_each_state(store, clock)
        before = states(store, made)
        edit_all(store, made, name="other", next_fire_time=START + HOUR)
        assert states(store, made) == before
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert ids(start(store, made[name])) == [made[name].id], name

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_another_queue_gets_what_is_open_and_what_fires_later(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        made = made_in_each_state(store, clock)
        edit_all(store, made, queue="other", trigger=trigger, next_fire_time=START)
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert renew(store, made[name]) == {}, f"{name}: its claim is not lost"
        assert renew(store, made["running"]) != {}
        later = fire(store, put(store, replace(put(store), queue="other")))
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, ahead=HOUR, lapsed=True) == []
        found = claim(store, OTHER_NODE, queues=["other"], ahead=HOUR, lapsed=True)
        kept = {each.id for each in made.values()} - {made["ended"].id}
        if trigger == EVERY_TWO_HOURS:
            removed = (State.SKIPPED, None)
            after = AFTER_ANOTHER_TRIGGER.items()
            kept -= {made[name].id for name, state in after if state in removed}
        assert {*ids(found)} == {*kept, *ids(later)}

    def test_a_start_uses_the_latest_values(self, store: Store) -> None:
        held, waits = claimed(store), pending(store)
        for each in (held, waits):
            new = replace(each.definition, name="b", metadata={"c": 2})
            put(store, replace(new, expire_after=SECOND))
        for [run] in (start(store, held), claim(store)):
            assert (run.definition.name, run.metadata) == ("b", {"c": 2})
            assert run.expires_at == run.due_at + SECOND

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_another_trigger_removes_what_is_to_come_and_skips_what_has_passed(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        made = made_in_each_state(store, clock, trigger)
        edit_all(store, made, trigger=EVERY_TWO_HOURS)
        assert states(store, made) == AFTER_ANOTHER_TRIGGER
        for name in ("claimed, passed", "claimed, to come"):
            assert start(store, made[name]) == [], name
            assert renew(store, made[name]) == {}, name
            assert not finish(store, made[name]), name
        for name in ("claimed, passed", "pending, passed"):
            old = made[name]
            found = store.get_instance(old.id)
            assert (found.fire_time, found.completed_at) == (None, store.now()), name
            assert old.fire_time is not None
            assert found.skipped == Skipped.itself(old.fire_time, EDITED), name
        retry, run = made["claimed for a retry"], made["running"]
        assert ids(start(store, retry)) == [retry.id]
        assert renew(store, run) == {run.id: False}
        assert finish(store, run)
        left = [made["waiting for a retry"].id, made["added"].id]
        assert ids(claim(store, ahead=HOUR)) == left

    def test_another_trigger_frees_the_fire_times(self, store: Store) -> None:
        for at in (START, START + SECOND):
            old = pending(store, definition(at))
            changed = put(store, replace(old.definition, trigger=EVERY_TWO_HOURS))
            fire(store, changed, at)
            [new] = claim(store, ahead=SECOND)
            assert new.fire_time == at
            assert new.id != old.id

    def test_another_trigger_skips_what_is_frozen(self, store: Store) -> None:
        made = {"frozen": pending(store)}
        paused = pause(store, made["frozen"].definition)
        put(store, replace(paused, trigger=EVERY_TWO_HOURS))
        assert states(store, made) == {"frozen": State.SKIPPED}
        store.resume_definitions([paused.id])
        assert claim(store) == []

    def test_another_trigger_leaves_records_of_skips(self, store: Store) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        stored = put(store)
        store.fire_definitions([firing(stored, skipped=skipped)])
        put(store, replace(stored, trigger=EVERY_TWO_HOURS))
        [record] = instances(store, stored)
        assert record.skipped == skipped

    def test_another_jitter_makes_anew_what_is_to_come(self, store: Store) -> None:
        old, later = put(store), START + HOUR
        fire(store, old, later, next_fire_time=START + 2 * HOUR)
        stored = put(store, replace(old, next_fire_time=START, jitter=SECOND))
        assert instances(store, stored) == []
        found = store.get_definition(stored.id)
        for each in (stored, found):
            assert (each.jitter, each.next_fire_time) == (SECOND, later)
            assert each.revision == 2
        assert ids(due(store)) == [stored.id]
        assert times(fire(store, found)) == [later]
        once = pending(store, definition(START + SECOND)).definition
        assert store.get_definition(once.id).completed_at is not None
        live = put(store, replace(once, jitter=SECOND))
        assert (live.next_fire_time, live.completed_at) == (START + SECOND, None)

    def test_another_jitter_leaves_what_passed_or_began(self, store: Store) -> None:
        old = put(store)
        step = [START + number * SECOND for number in range(4)]
        fire(store, old, *step, next_fire_time=START + HOUR)
        first, _, third, fourth = claim(store, ahead=HOUR)
        start(store, third)
        stored = put(store, replace(old, jitter=SECOND))
        assert stored.next_fire_time == fourth.fire_time
        assert times(instances(store, stored)) == step[:3]
        assert ids(start(store, first)) == [first.id]

    def test_another_jitter_begins_no_second_life_and_forgets_nothing_missed(
        self, store: Store, clock: ManualClock
    ) -> None:
        completed = store.get_definition(ended(store).definition.id)
        missed = put(store)
        clock.advance(HOUR)
        for old in (completed, missed):
            later = clock.now() + HOUR
            stored = put(store, replace(old, next_fire_time=later, jitter=SECOND))
            assert stored.jitter == SECOND
            assert stored.next_fire_time == old.next_fire_time
            assert stored.completed_at == old.completed_at


DAILY = IntervalTrigger(timedelta(days=1), anchor=START)


@dataclass(frozen=True)
class ForeignTrigger(Trigger):
    """A trigger that is not of this package; no store has it tell anything."""

    kind: ClassVar[str] = "go_scheduler_testing.foreign"

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Fail: it might as well hang."""
        raise AssertionError("a store asked a foreign trigger")


# As if somebody else had written it.
ForeignTrigger.__module__ = "somebody.elses"

NOW = START + 3 * HOUR
UNCOUNTED = Skipped(first=START, last=NOW, count=1, reason=UNFIRED + MORE)
RECORDS: Mapping[str, tuple[TaskDefinition, Skipped | None]] = {
    "four fire times": (
        definition(),
        Skipped(first=START, last=NOW, count=4, reason=UNFIRED),
    ),
    "one fire time of a trigger that waits": (
        definition(trigger=WAITING),
        Skipped.itself(START, UNFIRED),
    ),
    "a trigger that is not known": (
        definition(trigger=UnknownTrigger("from.another.node", {}, "not here")),
        UNCOUNTED,
    ),
    "a trigger of somebody else's": (definition(trigger=ForeignTrigger()), UNCOUNTED),
    "more than are counted": (
        definition(trigger=IntervalTrigger(SECOND, anchor=START)),
        replace(UNCOUNTED, count=MOST_COUNTED),
    ),
    "none yet": (definition(NOW + TICK), None),
}


class UnfiredTests:
    """The record that ``put_definitions`` leaves of what was not fired."""

    def test_another_trigger_leaves_one_record_of_what_had_not_fired(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.put_definitions([new for new, _ in RECORDS.values()])
        clock.advance(3 * HOUR)
        later = START + 9 * HOUR
        moved = [
            replace(new, trigger=DAILY, next_fire_time=later)
            for new, _ in RECORDS.values()
        ]
        store.put_definitions(moved)
        for name, (new, skipped) in RECORDS.items():
            found = instances(store, new)
            expected = [] if skipped is None else [skipped]
            assert [each.skipped for each in found] == expected, name
            for record in found:
                assert record.state is State.SKIPPED
                assert (record.fire_time, record.execute_at) == (None, START)
                assert record.completed_at == NOW
        assert store.counts()[State.SKIPPED] == len(RECORDS) - 1

    def test_what_has_its_instance_is_in_no_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read, over = put(store), put(store)
        fire(store, read, START, next_fire_time=START + HOUR)
        fire(store, over)
        clock.advance(3 * HOUR)
        found = instances(store, reschedule(store, read))
        assert [each.skipped for each in found] == [
            Skipped.itself(START, EDITED),
            Skipped(first=START + HOUR, last=clock.now(), count=3, reason=UNFIRED),
        ]
        assert len(instances(store, reschedule(store, over))) == 1

    def test_an_edit_that_keeps_the_trigger_leaves_no_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(3 * HOUR)
        for edit in ({"name": "other"}, {"jitter": SECOND}, {"overlap": Overlap.SKIP}):
            read = put(store, replace(read, **edit))
        assert instances(store, read) == []
        assert due(store)[0].next_fire_time == START

    def test_a_record_says_if_the_definition_was_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        paused, resumed = put(store, definition(START + HOUR)), put(store)
        pauses = [paused.id, resumed.id]
        store.pause_definitions(pauses, note="holidays")
        clock.advance(HOUR)
        store.resume_definitions([resumed.id])
        moved = reschedule(store, paused)
        assert moved.paused
        [record] = instances(store, moved)
        since = "paused since 2030-01-01 00:00:00 UTC: holidays"
        assert record.skipped == Skipped.itself(START + HOUR, f"{UNFIRED}; {since}")
        [other] = instances(store, reschedule(store, resumed))
        assert other.skipped is not None
        assert "paused from 2030-01-01 00:00:00 UTC" in other.skipped.reason
        store.resume_definitions([paused.id])
        assert instances(store, moved) == [record]

    def test_each_edit_records_what_it_finds(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        clock.advance(HOUR)
        later = clock.now() + LEASE
        moved = replace(read, trigger=DAILY, next_fire_time=later)
        declared = Declaration(owner="one", definitions=[moved], adopts=True)
        store.declare_definitions(declared)
        assert skipped_in(instances(store, read)) == [START]
        clock.advance(LEASE)
        over = replace(moved, trigger=HOURLY, next_fire_time=None, revision=None)
        assert put(store, over).completed_at == clock.now()
        assert skipped_in(instances(store, read)) == [START, later]
        assert clean_up(store) == 3
        assert store.list_definitions() == []

    def test_a_fire_beside_an_edit_records_each_time_once(self, store: Store) -> None:
        for _ in range(5):
            read = put(store)
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(store.fire_definitions, [step]),
                partial(reschedule, store, read),
            )
            assert skipped_in(instances(store, read)) == [START]


def reschedule(store: Store, read: TaskDefinition) -> TaskDefinition:
    """Put a definition with another trigger, whatever else has become of it."""
    later = START + 9 * HOUR
    moved = replace(read, trigger=DAILY, next_fire_time=later, revision=None)
    return put(store, moved)


def skipped_in(given: Sequence[TaskInstance]) -> Sequence[datetime]:
    """Of each record the first fire time."""
    return [each.skipped.first for each in given if each.skipped is not None]


class SlotEditTests:
    """What becomes of slots when a definition's ``overlap`` or ``lock`` is another."""

    def test_what_is_parked_goes_by_the_new_lock(self, store: Store) -> None:
        fired(store, excluding(lock="a"))
        go(store)
        for new, free in (
            (excluding(Overlap.ALLOW, lock="a"), {"lock": "b"}),
            (excluding(Overlap.BUFFER_ALL, lock="a"), {"lock": "c"}),
            (excluding(lock="a"), {"lock": None, "overlap": Overlap.ALLOW}),
        ):
            given = put(store, new)
            [parked] = fire(store, given)
            assert go(store) == []
            assert is_parked(store, parked)
            put(store, replace(given, revision=None, **free))
            assert not is_parked(store, parked), free
            assert ids(go(store)) == [parked.id], free

    @pytest.mark.parametrize("dead", [False, True])
    def test_who_has_a_slot_keeps_it_until_its_end(
        self, store: Store, clock: ManualClock, dead: bool
    ) -> None:
        given = put(store, excluding(lock="a"))
        fire(store, given)
        [runs] = go(store)
        if dead:
            clock.advance(LEASE)
        put(store, replace(given, lock="b", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert go(store) == []
        if dead:
            [runs] = claim(store, lapsed=True)
            start(store, runs)
        assert is_parked(store, other)
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

    def test_what_has_no_slot_takes_one_at_its_next_start(self, store: Store) -> None:
        given, later = put(store), put(store, definition(START + SECOND))
        fire(store, given)
        [plain] = go(store)
        fire(store, later)
        [claimed] = claim(store, ahead=HOUR)
        for each in (given, later):
            put(store, replace(each, lock="a", revision=None))
        [other] = fired(store, excluding(lock="a"), START + SECOND)
        assert ids(go(store)) == [other.id]
        [parked] = start(store, claimed)
        assert parked.parked
        assert finish(store, plain, None)
        assert go(store) == []
        assert is_parked(store, plain)

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

    def test_what_is_parked_and_frozen_stays_frozen(self, store: Store) -> None:
        given = put(store, definition())
        fire(store, given)
        [plain] = go(store)
        finish(store, plain, None)
        fired(store, excluding(lock="a"))
        put(store, replace(given, lock="a", revision=None))
        started = go(store)
        parked = plain if is_parked(store, plain) else started[0]
        paused = pause(store, parked.definition)
        put(store, replace(paused, lock="b", revision=None))
        assert claim(store, ahead=HOUR) == []

    def test_a_trigger_that_waits_needs_no_slot_of_its_own(self, store: Store) -> None:
        given = put(store, excluding(Overlap.SKIP))
        fire(store, given, START + HOUR)
        put(store, replace(given, trigger=WAITING, revision=None))
        [instance] = fire(store, store.get_definition(given.id))
        [claimed] = claim(store)
        assert (claimed.id, claimed.state) == (instance.id, State.RUNNING)
