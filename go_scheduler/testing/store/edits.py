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
    Rig,
    StoreTests,
    at_once,
    definition,
    firing,
    ids,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import (
    AFTER_ANOTHER_TRIGGER,
    made_in_each_state,
    states,
)
from go_scheduler.testing.store.slots import (
    excluding,
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

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)


def edit_all(rig: Rig, made: Mapping[str, TaskInstance], **values: Any) -> None:
    """Edit the definition of each instance."""
    for each in made.values():
        rig.put(replace(each.definition, **values))


class EditTests(StoreTests):
    """What ``put_definitions`` does to instances."""

    def test_overdue_is_kept_as_long_as_the_trigger(self, rig: Rig) -> None:
        new = rig.put(definition(START, overdue=True))
        edited = rig.put(replace(new, name="other", overdue=False))
        [instance] = rig.fire(edited)
        for each in (new, edited, instance.definition, rig.read(new)):
            assert each.overdue
        other = replace(edited, trigger=EVERY_TWO_HOURS, overdue=False)
        for each in (rig.put(other), rig.read(new)):
            assert not each.overdue
        rig.put(replace(other, trigger=HOURLY, overdue=True, revision=None))
        assert rig.read(new).overdue

    def test_another_value_leaves_each_instance_as_it_is(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        before = states(rig, made)
        edit_all(rig, made, name="other", next_fire_time=START + HOUR)
        assert states(rig, made) == before
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert ids(rig.start(made[name])) == [made[name].id], name

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_another_queue_gets_all_that_is_open(
        self, rig: Rig, trigger: Trigger
    ) -> None:
        made = made_in_each_state(rig)
        edit_all(rig, made, queue="other", trigger=trigger, next_fire_time=START)
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert rig.renew(made[name]) == {}, f"{name}: its claim is not lost"
        assert rig.renew(made["running"]) != {}
        later = rig.fire(rig.put(replace(rig.put(), queue="other")))
        rig.advance(LEASE)
        assert rig.claim(OTHER_NODE, ahead=HOUR, lapsed=True) == []
        found = rig.claim(OTHER_NODE, queues=["other"], ahead=HOUR, lapsed=True)
        kept = {each.id for each in made.values()} - {made["ended"].id}
        if trigger == EVERY_TWO_HOURS:
            removed = (State.SKIPPED, None)
            after = AFTER_ANOTHER_TRIGGER.items()
            kept -= {made[name].id for name, state in after if state in removed}
        assert {*ids(found)} == {*kept, *ids(later)}

    def test_a_start_uses_the_latest_values(self, rig: Rig) -> None:
        held, waits = rig.claimed(), rig.pending()
        for each in (held, waits):
            new = replace(each.definition, name="b", metadata={"c": 2})
            rig.put(replace(new, expire_after=SECOND))
        for [run] in (rig.start(held), rig.claim()):
            assert (run.definition.name, run.metadata) == ("b", {"c": 2})
            assert run.expires_at == run.due_at + SECOND

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_another_trigger_replaces_the_instances(
        self, rig: Rig, trigger: Trigger
    ) -> None:
        made = made_in_each_state(rig, trigger)
        edit_all(rig, made, trigger=EVERY_TWO_HOURS)
        assert states(rig, made) == AFTER_ANOTHER_TRIGGER
        for name in ("claimed, passed", "claimed, to come"):
            assert rig.start(made[name]) == [], name
            assert rig.renew(made[name]) == {}, name
            assert not rig.finish(made[name]), name
        for name in ("claimed, passed", "pending, passed"):
            old = made[name]
            found = rig.read(old)
            assert (found.fire_time, found.completed_at) == (None, rig.now()), name
            assert old.fire_time is not None
            assert found.skipped == Skipped.itself(old.fire_time, EDITED), name
        retry, run = made["claimed for a retry"], made["running"]
        assert ids(rig.start(retry)) == [retry.id]
        assert rig.renew(run) == {run.id: False}
        assert rig.finish(run)
        left = [made["waiting for a retry"].id, made["added"].id]
        assert ids(rig.claim(ahead=HOUR)) == left

    def test_another_trigger_frees_the_fire_times(self, rig: Rig) -> None:
        for at in (START, START + SECOND):
            old = rig.pending(definition(at))
            changed = rig.put(replace(old.definition, trigger=EVERY_TWO_HOURS))
            rig.fire(changed, at)
            [new] = rig.claim(ahead=SECOND)
            assert new.fire_time == at
            assert new.id != old.id

    def test_another_trigger_skips_what_is_frozen(self, rig: Rig) -> None:
        made = {"frozen": rig.pending()}
        paused = rig.pause(made["frozen"].definition)
        rig.put(replace(paused, trigger=EVERY_TWO_HOURS))
        assert states(rig, made) == {"frozen": State.SKIPPED}
        rig.resume(paused)
        assert rig.claim() == []

    def test_another_trigger_leaves_records_of_skips(self, rig: Rig) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        stored = rig.put()
        rig.store.fire_definitions([firing(stored, skipped=skipped)])
        rig.put(replace(stored, trigger=EVERY_TWO_HOURS))
        [record] = rig.instances(stored)
        assert record.skipped == skipped

    def test_another_jitter_makes_anew_what_is_to_come(self, rig: Rig) -> None:
        old, later = rig.put(), START + HOUR
        rig.fire(old, later, next_fire_time=START + 2 * HOUR)
        stored = rig.put(replace(old, next_fire_time=START, jitter=SECOND))
        assert rig.instances(stored) == []
        found = rig.read(stored)
        for each in (stored, found):
            assert (each.jitter, each.next_fire_time) == (SECOND, later)
            assert each.revision == 2
        assert ids(rig.due()) == [stored.id]
        assert times(rig.fire(found)) == [later]
        once = rig.pending(definition(START + SECOND)).definition
        assert rig.read(once).completed_at is not None
        live = rig.put(replace(once, jitter=SECOND))
        assert (live.next_fire_time, live.completed_at) == (START + SECOND, None)

    def test_another_jitter_leaves_what_passed_or_began(self, rig: Rig) -> None:
        old = rig.put()
        step = [START + number * SECOND for number in range(4)]
        rig.fire(old, *step, next_fire_time=START + HOUR)
        first, _, third, fourth = rig.claim(ahead=HOUR)
        rig.start(third)
        stored = rig.put(replace(old, jitter=SECOND))
        assert stored.next_fire_time == fourth.fire_time
        assert times(rig.instances(stored)) == step[:3]
        assert ids(rig.start(first)) == [first.id]

    def test_another_jitter_keeps_an_end_and_a_missed_time(self, rig: Rig) -> None:
        completed = rig.read(rig.ended().definition)
        missed = rig.put()
        rig.advance(HOUR)
        for old in (completed, missed):
            later = rig.now() + HOUR
            stored = rig.put(replace(old, next_fire_time=later, jitter=SECOND))
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


class UnfiredTests(StoreTests):
    """The record that ``put_definitions`` leaves of what was not fired."""

    def test_another_trigger_records_what_had_not_fired(self, rig: Rig) -> None:
        rig.store.put_definitions([new for new, _ in RECORDS.values()])
        rig.advance(3 * HOUR)
        later = START + 9 * HOUR
        moved = [
            replace(new, trigger=DAILY, next_fire_time=later)
            for new, _ in RECORDS.values()
        ]
        rig.store.put_definitions(moved)
        for name, (new, skipped) in RECORDS.items():
            found = rig.instances(new)
            expected = [] if skipped is None else [skipped]
            assert [each.skipped for each in found] == expected, name
            for record in found:
                assert record.state is State.SKIPPED
                assert (record.fire_time, record.execute_at) == (None, START)
                assert record.completed_at == NOW
        assert rig.store.counts()[State.SKIPPED] == len(RECORDS) - 1

    def test_what_has_its_instance_is_in_no_record(self, rig: Rig) -> None:
        read, over = rig.put(), rig.put()
        rig.fire(read, START, next_fire_time=START + HOUR)
        rig.fire(over)
        rig.advance(3 * HOUR)
        found = rig.instances(reschedule(rig, read))
        assert [each.skipped for each in found] == [
            Skipped.itself(START, EDITED),
            Skipped(first=START + HOUR, last=rig.now(), count=3, reason=UNFIRED),
        ]
        assert len(rig.instances(reschedule(rig, over))) == 1

    def test_an_edit_that_keeps_the_trigger_leaves_no_record(self, rig: Rig) -> None:
        read = rig.put()
        rig.advance(3 * HOUR)
        for edit in ({"name": "other"}, {"jitter": SECOND}, {"overlap": Overlap.SKIP}):
            read = rig.put(replace(read, **edit))
        assert rig.instances(read) == []
        assert rig.due()[0].next_fire_time == START

    def test_a_record_says_if_the_definition_was_paused(self, rig: Rig) -> None:
        paused, resumed = rig.put(definition(START + HOUR)), rig.put()
        pauses = [paused.id, resumed.id]
        rig.store.pause_definitions(pauses, note="holidays")
        rig.advance(HOUR)
        rig.resume(resumed)
        moved = reschedule(rig, paused)
        assert moved.paused
        [record] = rig.instances(moved)
        since = "paused since 2030-01-01 00:00:00 UTC: holidays"
        assert record.skipped == Skipped.itself(START + HOUR, f"{UNFIRED}; {since}")
        [other] = rig.instances(reschedule(rig, resumed))
        assert other.skipped is not None
        assert "paused from 2030-01-01 00:00:00 UTC" in other.skipped.reason
        rig.resume(paused)
        assert rig.instances(moved) == [record]

    def test_each_edit_records_what_it_finds(self, rig: Rig) -> None:
        read = rig.put()
        rig.advance(HOUR)
        later = rig.now() + LEASE
        moved = replace(read, trigger=DAILY, next_fire_time=later)
        declared = Declaration(owner="one", definitions=[moved], adopts=True)
        rig.store.declare_definitions(declared)
        assert skipped_in(rig.instances(read)) == [START]
        rig.advance(LEASE)
        over = replace(moved, trigger=HOURLY, next_fire_time=None, revision=None)
        assert rig.put(over).completed_at == rig.now()
        assert skipped_in(rig.instances(read)) == [START, later]
        assert rig.clean_up() == 3
        assert rig.store.list_definitions() == []

    def test_a_fire_beside_an_edit_records_each_time_once(self, rig: Rig) -> None:
        for _ in range(5):
            read = rig.put()
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(rig.store.fire_definitions, [step]),
                partial(reschedule, rig, read),
            )
            assert skipped_in(rig.instances(read)) == [START]


def reschedule(rig: Rig, read: TaskDefinition) -> TaskDefinition:
    """Put a definition with another trigger, whatever else has become of it."""
    later = START + 9 * HOUR
    moved = replace(read, trigger=DAILY, next_fire_time=later, revision=None)
    return rig.put(moved)


def skipped_in(given: Sequence[TaskInstance]) -> Sequence[datetime]:
    """Of each record the first fire time."""
    return [each.skipped.first for each in given if each.skipped is not None]


class SlotEditTests(StoreTests):
    """What becomes of slots when a definition's ``overlap`` or ``lock`` is another."""

    def test_what_is_parked_goes_by_the_new_lock(self, rig: Rig) -> None:
        rig.fired(excluding(lock="a"))
        go(rig)
        for new, free in (
            (excluding(Overlap.ALLOW, lock="a"), {"lock": "b"}),
            (excluding(Overlap.BUFFER_ALL, lock="a"), {"lock": "c"}),
            (excluding(lock="a"), {"lock": None, "overlap": Overlap.ALLOW}),
        ):
            given = rig.put(new)
            [parked] = rig.fire(given)
            assert go(rig) == []
            assert is_parked(rig, parked)
            rig.put(replace(given, revision=None, **free))
            assert not is_parked(rig, parked), free
            assert ids(go(rig)) == [parked.id], free

    @pytest.mark.parametrize("dead", [False, True])
    def test_who_has_a_slot_keeps_it_until_its_end(self, rig: Rig, dead: bool) -> None:
        given = rig.put(excluding(lock="a"))
        rig.fire(given)
        [runs] = go(rig)
        if dead:
            rig.advance(LEASE)
        rig.put(replace(given, lock="b", revision=None))
        [other] = rig.fired(excluding(lock="a"), START + SECOND)
        assert go(rig) == []
        if dead:
            [runs] = rig.claim(lapsed=True)
            rig.start(runs)
        assert is_parked(rig, other)
        rig.finish(runs)
        assert ids(settled(rig).unparked) == [other.id]
        assert ids(go(rig)) == [other.id]

    @pytest.mark.parametrize("lock", ["b", None])
    def test_a_waiting_retry_frees_its_slot(self, rig: Rig, lock: str | None) -> None:
        given = rig.put(excluding(Overlap.ALLOW, lock="a"))
        rig.fire(given)
        [runs] = go(rig)
        [other] = rig.fired(excluding(lock="a"), START + SECOND)
        assert go(rig) == []
        assert rig.finish(runs, None)
        rig.put(replace(given, lock=lock, revision=None))
        assert ids(settled(rig).unparked) == [other.id]
        assert {*ids(go(rig))} == {runs.id, other.id}

    def test_what_has_no_slot_takes_one_at_its_next_start(self, rig: Rig) -> None:
        given, later = rig.put(), rig.put(definition(START + SECOND))
        rig.fire(given)
        [plain] = go(rig)
        rig.fire(later)
        [claimed] = rig.claim(ahead=HOUR)
        for each in (given, later):
            rig.put(replace(each, lock="a", revision=None))
        [other] = rig.fired(excluding(lock="a"), START + SECOND)
        assert ids(go(rig)) == [other.id]
        [parked] = rig.start(claimed)
        assert parked.parked
        assert rig.finish(plain, None)
        assert go(rig) == []
        assert is_parked(rig, plain)

    def test_another_overlap_judges_what_is_parked_anew(self, rig: Rig) -> None:
        given = rig.put(excluding(Overlap.BUFFER_ALL))
        _, second = rig.fire(given, START, START + SECOND)
        go(rig)
        rig.advance(SECOND)
        assert settled(rig).skipped == []
        rig.put(replace(given, overlap=Overlap.SKIP, revision=None))
        go(rig)
        assert ids(settled(rig).skipped) == [second.id]

    def test_what_is_parked_and_frozen_stays_frozen(self, rig: Rig) -> None:
        given = rig.put(definition())
        rig.fire(given)
        [plain] = go(rig)
        rig.finish(plain, None)
        rig.fired(excluding(lock="a"))
        rig.put(replace(given, lock="a", revision=None))
        started = go(rig)
        parked = plain if is_parked(rig, plain) else started[0]
        paused = rig.pause(parked.definition)
        rig.put(replace(paused, lock="b", revision=None))
        assert rig.claim(ahead=HOUR) == []

    def test_a_trigger_that_waits_needs_no_slot_of_its_own(self, rig: Rig) -> None:
        given = rig.put(excluding(Overlap.SKIP))
        rig.fire(given, START + HOUR)
        rig.put(replace(given, trigger=WAITING, revision=None))
        [instance] = rig.fire(rig.read(given))
        [claimed] = rig.claim()
        assert (claimed.id, claimed.state) == (instance.id, State.RUNNING)
