"""Store suite: a pause, an edit or a delete of a definition reaches its instances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID, uuid4

import pytest

from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import Cancelled, Outcome, Pause, Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    EXPIRE_AFTER,
    HOUR,
    HOURLY,
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
    counts_by_state,
    definition,
    firing,
    ids,
    kept_by_store,
    revision_of,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import excluding, go, is_parked, settled, started
from go_scheduler.triggers.base import Trigger, UnknownTrigger
from go_scheduler.triggers.simple import ExecuteOnceTrigger, IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance


def made_in_each_state(rig: Rig, trigger: Trigger = HOURLY) -> dict[str, TaskInstance]:
    """An instance in each state that a pause, an edit or a delete may find.

    Each is of its own definition. "passed" means that its fire time is before the
    time of the store, "to come" that it is after it. The clock moves by a second.
    """

    def new(at: datetime = START) -> TaskDefinition:
        return definition(at, trigger=trigger)

    made = {"claimed, passed": rig.claimed(new(START + SECOND))}
    rig.advance(SECOND)
    made["claimed, to come"] = rig.claimed(new(START + MINUTE))
    rig.add(rig.put(new(START + YEAR)), at=START + MINUTE)
    [made["claimed, added"]] = rig.claim(ahead=MINUTE)
    rig.waiting_for_retry(new(), retry_in=SECOND)
    [made["claimed for a retry"]] = rig.claim(ahead=SECOND)
    made["running"] = rig.running(new())
    made["ended"] = rig.ended(new())
    made["waiting for a retry"] = rig.waiting_for_retry(new())
    made["pending, to come"] = rig.pending(new(START + HOUR))
    made["pending, passed"] = rig.pending(new())
    made["added"] = rig.add(rig.put(new(START + YEAR)), at=START + HOUR)
    return made


def states(rig: Rig, made: Mapping[str, TaskInstance]) -> dict[str, State | None]:
    """The state of each instance by now; None: it has been removed."""
    return {name: rig.state_of(each) for name, each in made.items()}


CLAIMED = (
    "claimed, passed",
    "claimed, to come",
    "claimed, added",
    "claimed for a retry",
)


def check_lost(rig: Rig, made: Mapping[str, TaskInstance], *names: str) -> None:
    """Check that the claims of these instances are lost."""
    for name in names:
        assert rig.start(made[name]) == [], name
        assert rig.renew(made[name]) == {}, name


def definition_ids(made: Mapping[str, TaskInstance]) -> list[UUID]:
    """The ids of the definitions of instances."""
    return [each.definition.id for each in made.values()]


BECOMES: Mapping[str, tuple[State | None, State | None, State | None]] = {
    # After a pause, after another trigger, after a delete.
    "claimed, passed": (State.PENDING, State.SKIPPED, None),
    "claimed, to come": (None, None, None),
    "claimed, added": (State.PENDING, State.CLAIMED, None),
    "claimed for a retry": (State.PENDING, State.CLAIMED, None),
    "running": (State.RUNNING, State.RUNNING, State.CANCELLED),
    "ended": (State.COMPLETED, State.COMPLETED, State.COMPLETED),
    "waiting for a retry": (State.PENDING, State.PENDING, None),
    "pending, to come": (None, None, None),
    "pending, passed": (State.PENDING, State.SKIPPED, None),
    "added": (State.PENDING, State.PENDING, None),
}
"""What becomes of an instance in each state; None: it is removed."""
AFTER_A_PAUSE, AFTER_ANOTHER_TRIGGER, AFTER_A_DELETE = (
    {name: after[event] for name, after in BECOMES.items()} for event in range(3)
)


class PauseTests(StoreTests):
    """``pause_definitions`` and ``resume_definitions``."""

    def test_a_pause_is_kept_with_its_time_and_the_last_note(self, rig: Rig) -> None:
        new = rig.put()
        assert new.paused_at is None
        rig.advance(HOUR)
        paused = rig.pause(new, note="why")
        for found in (paused, rig.read(new)):
            assert found == new
            assert (found.paused, found.note, found.revision) == (True, "why", 2)
        assert rig.due() == []
        for read in (new, paused):
            assert rig.fire_steps(firing(read)) == []
        rig.advance(HOUR)
        again = rig.pause(new, note="second")
        check(again, paused=True, note="second", revision=2, next_fire_time=START)
        edited = rig.edit(again, name="other")
        moved = rig.edit(edited, trigger=WAITING)
        for found in (paused, again, edited, moved, rig.read(new)):
            assert (found.paused, found.paused_at) == (True, START + HOUR)
        check(edited, moved, rig.read(new), note="second")

    def test_a_pause_and_a_resume_answer_what_exists(self, rig: Rig) -> None:
        wanted = {rig.put().id, rig.put().id}
        for change in (rig.store.pause_definitions, rig.store.resume_definitions):
            assert {each.id for each in change([*wanted, NOBODY])} == wanted
            assert change([NOBODY]) == []

    def test_the_last_pause_is_kept_whatever_is_edited_since(self, rig: Rig) -> None:
        new = rig.put()
        assert new.last_pause is None
        rig.pause(new, note="why")
        rig.advance(HOUR)
        [resumed] = rig.resume(new)
        last = Pause(since=START, until=START + HOUR, note="why")
        [read] = rig.due()
        other = Pause(since=START, until=START)
        edited = rig.edit(resumed, name="other", last_pause=other)
        moved = rig.edit(edited, trigger=HOURLY, last_pause=None)
        check(resumed, read, edited, moved, rig.read(new), last_pause=last)
        assert rig.edit(moved, id=uuid4()).last_pause is None
        rig.pause(new)
        [again] = rig.resume(new)
        assert again.last_pause == Pause(since=START + HOUR, until=START + HOUR)

    def test_a_new_definition_may_be_paused(self, rig: Rig) -> None:
        rig.advance(HOUR)
        given = definition(note="why", paused_at=START)
        new = rig.edit(given, paused=True)
        assert (new.note, new.revision, new.next_fire_time) == ("why", 1, START)
        check(new, rig.read(new), paused=True, paused_at=START + HOUR)
        assert rig.due() == []
        assert rig.fire_steps(firing(new)) == []
        [resumed] = rig.resume(new)
        assert (resumed.paused, resumed.note, resumed.revision) == (False, None, 2)
        assert ids(rig.due()) == [new.id]
        other = rig.edit(given, id=uuid4())
        check(other, rig.read(other), paused=False, note=None, paused_at=None)

    def test_an_edit_neither_pauses_nor_resumes(self, rig: Rig) -> None:
        new = rig.put()
        paused = replace(new, name="b", paused=True, note="why", paused_at=START)
        edited = rig.put(paused)
        assert (edited.paused, edited.note, edited.paused_at) == (False, None, None)
        rig.pause(edited)
        assert rig.edit(new, trigger=WAITING, revision=None).paused

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_a_pause_freezes_or_removes_instances(
        self, rig: Rig, trigger: Trigger
    ) -> None:
        made = made_in_each_state(rig, trigger)
        before = {each.id: each for each in rig.store.select_definitions()}
        paused = {of: rig.pause(before[of]) for of in definition_ids(made)}
        assert states(rig, made) == AFTER_A_PAUSE
        for name, each in made.items():
            old, now = before[each.definition.id], paused[each.definition.id]
            case = f"the definition of the instance that was {name}"
            if AFTER_A_PAUSE[name] is None:
                check(now, case=case, next_fire_time=each.fire_time, completed_at=None)
            else:
                check(now, case=case, next_fire_time=old.next_fire_time)
                check(now, case=case, completed_at=old.completed_at)
        check_lost(rig, made, *CLAIMED)
        runs = made["running"]
        assert rig.renew(runs) == {runs.id: False}
        assert ids(rig.start(runs)) == [runs.id]
        free = rig.pending()
        assert ids(rig.claim(ahead=HOUR, lapsed=True)) == [free.id]
        assert rig.finish(runs)

    def test_a_pause_goes_back_to_the_first_removed_time(self, rig: Rig) -> None:
        later = START + HOUR
        goes_back, held, stays = rig.put(), rig.put(definition(later)), rig.put()
        rig.fire(goes_back, later + HOUR, later, next_fire_time=START + 3 * HOUR)
        assert rig.pause(goes_back).next_fire_time == later
        rig.fire(held, later, later + SECOND, next_fire_time=START + 2 * HOUR)
        assert len(rig.claim(ahead=HOUR)) == 1
        assert rig.pause(held).next_fire_time == later
        rig.fire(stays, next_fire_time=later)
        assert rig.pause(stays).next_fire_time == later

    def test_a_pause_goes_back_over_nothing_that_began(self, rig: Rig) -> None:
        step = [START + number * SECOND for number in (1, 2, 3)]
        for begin in (rig.start, rig.cancel, partial(rig.finish, deletes=True)):
            for cleans_up in (False, True):
                read = rig.put()
                rig.fire(read, *step, next_fire_time=START + HOUR)
                first, second, third = rig.claim(ahead=HOUR)
                assert begin(second)
                if cleans_up:
                    rig.clean_up()
                assert rig.pause(read).next_fire_time == third.fire_time
                assert rig.state_of(first) is State.PENDING
                assert rig.claim(ahead=HOUR) == []
                rig.delete(read)

    def test_no_fire_time_that_has_passed_fires_again(self, rig: Rig) -> None:
        step = [START + number * SECOND for number in range(3)]
        # The middle one is to run after the others, as by a jitter.
        executed = {"execute_times": (START, START + MINUTE, START + 2 * SECOND)}
        old = [rig.put(), rig.put()]
        for read in old:
            rig.fire(read, *step, next_fire_time=START + HOUR, **executed)
        for number, deletes in enumerate((False, True)):
            rig.advance(2 * number * SECOND)
            assert len(rig.run_due(deletes=deletes)) == len(old)
        for after in (rig.pause(old[0]), rig.edit(old[1], jitter=SECOND)):
            assert after.next_fire_time == START + HOUR
            assert times(rig.instances(after)) == step[:2]

    def test_a_run_that_stops_during_a_pause_is_frozen(self, rig: Rig) -> None:
        released, failed, lapsed, done = runs = [rig.running() for _ in range(4)]
        paused = [rig.pause(each.definition).id for each in runs]
        assert rig.release(released)
        assert rig.finish(failed, None, retry_in=SECOND)
        rig.advance(LEASE)
        assert rig.take_over() == []
        for each, counted in ((released, 0), (failed, 1)):
            rig.check(each, state=State.PENDING, runs=counted)
        assert rig.finish(done)
        rig.store.resume_definitions(paused)
        found_again = rig.take_over()
        assert {*ids(found_again)} == {released.id, failed.id, lapsed.id}
        assert rig.state_of(done) is State.COMPLETED

    def test_what_is_frozen_can_be_cancelled_and_edited(self, rig: Rig) -> None:
        kept, gone = rig.waiting_for_retry(), rig.pending()
        paused = rig.pause(kept.definition)
        rig.pause(gone.definition)
        assert rig.cancel(gone) == {gone.id: Cancelled.CANCELLED}
        rig.edit(paused, queue="other")
        assert rig.claim(queues=["default", "other"], ahead=HOUR) == []
        rig.resume(paused, gone.definition)
        assert rig.claim() == []
        assert ids(rig.claim(queues=["other"])) == [kept.id]

    def test_a_resume_brings_back_all_instances(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        rig.store.pause_definitions(definition_ids(made))
        rig.store.resume_definitions(definition_ids(made))
        removed = ("claimed, to come", "pending, to come")
        assert ids(rig.due()) == [made[name].definition.id for name in removed]
        for name in removed:
            read = rig.read(made[name].definition)
            assert times(rig.fire(read)) == [made[name].fire_time], name
        others = (*removed, "running", "ended", "added", "claimed, added")
        frozen = {each.id for name, each in made.items() if name not in others}
        assert {*ids(rig.claim(OTHER_NODE, ahead=SECOND))} == frozen
        assert rig.state_of(made["running"]) is State.RUNNING

    def test_a_claim_that_has_lapsed_lapses_at_the_resume(self, rig: Rig) -> None:
        before = rig.running()
        rig.advance(LEASE)
        meanwhile = rig.running()
        paused = [before.definition.id, meanwhile.definition.id]
        rig.store.pause_definitions(paused)
        rig.advance(HOUR)
        holds = rig.running()
        rig.pause(holds.definition)
        rig.advance(SECOND)
        rig.store.resume_definitions([*paused, holds.definition.id])
        for each in (before, meanwhile):
            assert rig.read(each).expires_at == rig.now()
        assert rig.read(holds).expires_at == holds.expires_at


def edit_all(rig: Rig, made: Mapping[str, TaskInstance], **values: Any) -> None:
    """Edit the definition of each instance."""
    for each in made.values():
        rig.edit(each.definition, **values)


DAILY = IntervalTrigger(timedelta(days=1), anchor=START)


@dataclass(frozen=True)
class ForeignTrigger(Trigger):
    """A trigger of another package; no store may call it."""

    kind: ClassVar[str] = "go_scheduler_testing.foreign"

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Fail, as a foreign trigger could hang."""
        raise AssertionError("a store asked a foreign trigger")


# As if somebody else had written it.
ForeignTrigger.__module__ = "somebody.elses"

NOW = START + 3 * HOUR
UNCOUNTED = Skipped(first=START, last=NOW, count=1, reason=rules.UNFIRED + rules.MORE)
RECORDS: Mapping[str, tuple[TaskDefinition, Skipped | None]] = {
    "four fire times": (
        definition(),
        Skipped(first=START, last=NOW, count=4, reason=rules.UNFIRED),
    ),
    "one fire time of a trigger that waits": (
        definition(trigger=WAITING),
        Skipped.itself(START, rules.UNFIRED),
    ),
    "a trigger that is not known": (
        definition(trigger=UnknownTrigger("from.another.node", {}, "not here")),
        UNCOUNTED,
    ),
    "a trigger of somebody else's": (definition(trigger=ForeignTrigger()), UNCOUNTED),
    "more than are counted": (
        definition(trigger=IntervalTrigger(SECOND, anchor=START)),
        replace(UNCOUNTED, count=rules.MOST_COUNTED),
    ),
    "none yet": (definition(NOW + TICK), None),
}


class EditTests(StoreTests):
    """What ``put_definitions`` does to instances and to what has not fired."""

    def test_overdue_is_kept_as_long_as_the_trigger(self, rig: Rig) -> None:
        new = rig.put(definition(START, overdue=True))
        edited = rig.edit(new, name="other", overdue=False)
        [instance] = rig.fire(edited)
        for each in (new, edited, instance.definition, rig.read(new)):
            assert each.overdue
        other = replace(edited, trigger=EVERY_TWO_HOURS, overdue=False)
        for each in (rig.put(other), rig.read(new)):
            assert not each.overdue
        rig.edit(other, trigger=HOURLY, overdue=True, revision=None)
        assert rig.read(new).overdue

    def test_another_value_leaves_each_instance_as_it_is(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        before = states(rig, made)
        edit_all(rig, made, name="other", next_fire_time=START + HOUR)
        assert states(rig, made) == before
        for name in CLAIMED:
            assert ids(rig.start(made[name])) == [made[name].id], name

    @pytest.mark.parametrize("trigger", [HOURLY, EVERY_TWO_HOURS])
    def test_another_queue_gets_all_that_is_open(
        self, rig: Rig, trigger: Trigger
    ) -> None:
        made = made_in_each_state(rig)
        edit_all(rig, made, queue="other", trigger=trigger, next_fire_time=START)
        for name in CLAIMED:
            assert rig.renew(made[name]) == {}, f"{name}: its claim is not lost"
        assert rig.renew(made["running"]) != {}
        later = rig.fire(rig.edit(rig.put(), queue="other"))
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
            rig.edit(new, expire_after=SECOND)
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
        check_lost(rig, made, "claimed, passed", "claimed, to come")
        for name in ("claimed, passed", "claimed, to come"):
            assert not rig.finish(made[name]), name
        for name in ("claimed, passed", "pending, passed"):
            old = made[name]
            found = rig.read(old)
            assert (found.fire_time, found.completed_at) == (None, rig.now()), name
            assert old.fire_time is not None
            assert found.skipped == Skipped.itself(old.fire_time, rules.EDITED), name
        retry, run = made["claimed for a retry"], made["running"]
        assert ids(rig.start(retry)) == [retry.id]
        assert rig.renew(run) == {run.id: False}
        assert rig.finish(run)
        left = [made["waiting for a retry"].id, made["added"].id]
        assert ids(rig.claim(ahead=HOUR)) == left

    def test_another_trigger_frees_the_fire_times(self, rig: Rig) -> None:
        for at in (START, START + SECOND):
            old = rig.pending(definition(at))
            changed = rig.edit(old.definition, trigger=EVERY_TWO_HOURS)
            rig.fire(changed, at)
            [new] = rig.claim(ahead=SECOND)
            assert new.fire_time == at
            assert new.id != old.id

    def test_another_trigger_does_not_repeat_what_has_fired(self, rig: Rig) -> None:
        for deletes in (False, True):
            [run] = rig.fire(rig.put(), next_fire_time=START + HOUR)
            [run] = rig.claim()
            assert rig.finish(run, deletes=deletes)
            # Whoever edits it had read the time before it fired.
            read = rig.read(run.definition)
            edited = rig.edit(read, trigger=EVERY_TWO_HOURS, next_fire_time=START)
            check(edited, next_fire_time=START + 2 * HOUR, completed_at=None)
            # A trigger without another fire time is completed.
            once = ExecuteOnceTrigger(START)
            ended = rig.edit(rig.read(edited), trigger=once, next_fire_time=START)
            check(ended, next_fire_time=None, completed_at=START)
            rig.delete(edited)

    def test_another_trigger_repeats_no_fire_time_that_has_begun(
        self, rig: Rig
    ) -> None:
        soon, later = START + SECOND, START + HOUR
        early, late = (rig.put(definition(soon)) for _ in range(2))
        for each in (early, late):
            rig.fire(each, next_fire_time=later)
        claimed = rig.claim(ahead=SECOND, lead=SECOND)
        assert {run.started_at for run in claimed} == {soon}
        runs = {run.definition.id: run for run in claimed}
        # One ends before its fire time, the other one at that time.
        assert rig.finish(runs[early.id], deletes=True)
        rig.clean_up()
        # Others are put meanwhile, one after the other.
        for trigger in (EVERY_TWO_HOURS, ForeignTrigger()):
            for each in (early, late):
                rig.edit(rig.read(each), trigger=trigger, next_fire_time=soon)
        rig.advance(SECOND)
        assert rig.finish(runs[late.id], deletes=True)
        rig.clean_up()
        for new in (early, late):
            for trigger in (EVERY_TWO_HOURS, HOURLY):
                assert rig.fire(rig.read(new), soon, next_fire_time=later) == []
                # The next one finds no instance any more.
                rig.edit(rig.read(new), trigger=trigger, next_fire_time=later)
            [made] = rig.fire(rig.read(new), next_fire_time=START + 2 * HOUR)
            assert made.fire_time == later
            # Whoever goes back there on purpose may.
            once = {"trigger": ExecuteOnceTrigger(soon), "next_fire_time": soon}
            back = rig.edit(rig.read(new), overdue=True, **once)
            assert soon in times(rig.fire(back))

    def test_another_trigger_skips_what_is_frozen(self, rig: Rig) -> None:
        made = {"frozen": rig.pending()}
        paused = rig.pause(made["frozen"].definition)
        rig.edit(paused, trigger=EVERY_TWO_HOURS)
        assert states(rig, made) == {"frozen": State.SKIPPED}
        rig.resume(paused)
        assert rig.claim() == []

    def test_another_trigger_leaves_records_of_skips(self, rig: Rig) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        stored = rig.put()
        rig.fire(stored, skipped=skipped)
        rig.edit(stored, trigger=EVERY_TWO_HOURS)
        [record] = rig.instances(stored)
        assert record.skipped == skipped

    def test_another_jitter_makes_anew_what_is_to_come(self, rig: Rig) -> None:
        old, later = rig.put(), START + HOUR
        rig.fire(old, later, next_fire_time=START + 2 * HOUR)
        stored = rig.edit(old, next_fire_time=START, jitter=SECOND)
        assert rig.instances(stored) == []
        found = rig.read(stored)
        for each in (stored, found):
            check(each, jitter=SECOND, next_fire_time=later, revision=2)
        assert ids(rig.due()) == [stored.id]
        assert times(rig.fire(found)) == [later]
        once = rig.pending(definition(START + SECOND)).definition
        assert rig.read(once).completed_at is not None
        live = rig.edit(once, jitter=SECOND)
        assert (live.next_fire_time, live.completed_at) == (START + SECOND, None)

    def test_another_jitter_leaves_what_passed_or_began(self, rig: Rig) -> None:
        old = rig.put()
        step = [START + number * SECOND for number in range(4)]
        rig.fire(old, *step, next_fire_time=START + HOUR)
        first, _, third, fourth = rig.claim(ahead=HOUR)
        rig.start(third)
        stored = rig.edit(old, jitter=SECOND)
        assert stored.next_fire_time == fourth.fire_time
        assert times(rig.instances(stored)) == step[:3]
        assert ids(rig.start(first)) == [first.id]

    def test_another_jitter_keeps_an_end_and_a_missed_time(self, rig: Rig) -> None:
        completed = rig.read(rig.ended().definition)
        missed = rig.put()
        rig.advance(HOUR)
        for old in (completed, missed):
            later = rig.now() + HOUR
            stored = rig.edit(old, next_fire_time=later, jitter=SECOND)
            check(stored, jitter=SECOND, next_fire_time=old.next_fire_time)
            check(stored, completed_at=old.completed_at)

    def test_another_trigger_records_what_had_not_fired(self, rig: Rig) -> None:
        rig.store.put_definitions([new for new, _ in RECORDS.values()])
        rig.advance(3 * HOUR)
        later = START + 9 * HOUR
        for name, (new, skipped) in RECORDS.items():
            rig.edit(new, trigger=DAILY, next_fire_time=later)
            found = rig.instances(new)
            expected = [] if skipped is None else [skipped]
            assert [each.skipped for each in found] == expected, name
            for record in found:
                check(record, state=State.SKIPPED, fire_time=None, execute_at=START)
                check(record, completed_at=NOW)
        assert counts_by_state(rig.store)[State.SKIPPED] == len(RECORDS) - 1

    def test_what_has_its_instance_is_in_no_record(self, rig: Rig) -> None:
        read, over = rig.put(), rig.put()
        rig.fire(read, START, next_fire_time=START + HOUR)
        rig.fire(over)
        rig.advance(3 * HOUR)
        found = rig.instances(reschedule(rig, read))
        assert [each.skipped for each in found] == [
            Skipped.itself(START, rules.EDITED),
            Skipped(first=START + HOUR, last=rig.now(), count=3, reason=rules.UNFIRED),
        ]
        assert len(rig.instances(reschedule(rig, over))) == 1

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
        assert record.skipped == Skipped.itself(
            START + HOUR, f"{rules.UNFIRED}; {since}"
        )
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
        declared = rules.Declaration(owner="one", definitions=[moved], adopts=True)
        rig.store.declare_definitions(declared)
        assert skipped_in(rig.instances(read)) == [START]
        rig.advance(LEASE)
        over = replace(moved, trigger=HOURLY, next_fire_time=None, revision=None)
        assert rig.put(over).completed_at == rig.now()
        assert skipped_in(rig.instances(read)) == [START, later]
        assert rig.clean_up() == 3
        assert rig.store.select_definitions() == []

    def test_a_fire_beside_an_edit_records_each_time_once(self, rig: Rig) -> None:
        for _ in range(5):
            read = rig.put()
            step = firing(read, next_fire_time=START + HOUR)
            fire = partial(rig.store.fire_definitions, [step])
            at_once(fire, partial(reschedule, rig, read))
            assert skipped_in(rig.instances(read)) == [START]


def reschedule(rig: Rig, read: TaskDefinition) -> TaskDefinition:
    """Put a definition with another trigger, whatever its revision is."""
    later = START + 9 * HOUR
    moved = replace(read, trigger=DAILY, next_fire_time=later, revision=None)
    return rig.put(moved)


def skipped_in(given: Sequence[TaskInstance]) -> Sequence[datetime]:
    """The first fire time of each record of skipped times."""
    return [each.skipped.first for each in given if each.skipped is not None]


class SlotEditTests(StoreTests):
    """An edit of ``overlap`` or ``lock`` changes who has slots."""

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
            rig.edit(given, revision=None, **free)
            assert not is_parked(rig, parked), free
            assert ids(go(rig)) == [parked.id], free

    @pytest.mark.parametrize("dead", [False, True])
    def test_who_has_a_slot_keeps_it_until_its_end(self, rig: Rig, dead: bool) -> None:
        runs = started(rig, excluding(lock="a"))
        given = runs.definition
        if dead:
            rig.advance(LEASE)
        rig.edit(given, lock="b", revision=None)
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
        runs = started(rig, excluding(Overlap.ALLOW, lock="a"))
        given = runs.definition
        [other] = rig.fired(excluding(lock="a"), START + SECOND)
        assert go(rig) == []
        assert rig.finish(runs, None)
        rig.edit(given, lock=lock, revision=None)
        assert ids(settled(rig).unparked) == [other.id]
        assert {*ids(go(rig))} == {runs.id, other.id}

    def test_what_has_no_slot_takes_one_at_its_next_start(self, rig: Rig) -> None:
        given, later = rig.put(), rig.put(definition(START + SECOND))
        rig.fire(given)
        [plain] = go(rig)
        rig.fire(later)
        [claimed] = rig.claim(ahead=HOUR)
        for each in (given, later):
            rig.edit(each, lock="a", revision=None)
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
        rig.edit(given, overlap=Overlap.SKIP, revision=None)
        go(rig)
        assert ids(settled(rig).skipped) == [second.id]

    def test_what_is_parked_and_frozen_stays_frozen(self, rig: Rig) -> None:
        plain = rig.waiting_for_retry()
        [other] = rig.fired(excluding(lock="a"))
        rig.edit(plain.definition, lock="a", revision=None)
        go(rig)
        parked = plain if is_parked(rig, plain) else other
        paused = rig.pause(parked.definition)
        rig.edit(paused, lock="b", revision=None)
        assert rig.claim(ahead=HOUR) == []

    def test_a_trigger_that_waits_needs_no_slot_of_its_own(self, rig: Rig) -> None:
        given = rig.put(excluding(Overlap.SKIP))
        rig.fire(given, START + HOUR)
        rig.edit(given, trigger=WAITING, revision=None)
        [instance] = rig.fire(rig.read(given))
        [claimed] = rig.claim()
        assert (claimed.id, claimed.state) == (instance.id, State.RUNNING)


class DeleteTests(StoreTests):
    """``delete_definitions``."""

    def test_a_delete_answers_what_existed_and_what_ran(self, rig: Rig) -> None:
        held, runs, other = rig.claimed(), rig.running(), rig.running()
        gone: dict[UUID, set[UUID]] = {rig.put().id: set()}
        gone |= {rig.ended().definition.id: set()}
        gone |= {held.definition.id: set(), runs.definition.id: {runs.id}}
        assert rig.store.delete_definitions([*gone, NOBODY]) == gone
        assert rig.store.delete_definitions([*gone]) == {}
        assert rig.store.delete_definitions([]) == {}
        assert ids(rig.store.select_definitions()) == [other.definition.id]
        assert rig.state_of(other) is State.RUNNING

    def test_a_delete_removes_instances_and_cancels_runs(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        free = rig.pending()
        rig.store.delete_definitions(definition_ids(made))
        assert states(rig, made) == AFTER_A_DELETE
        check_lost(rig, made, *CLAIMED)
        runs = made["running"]
        assert rig.renew(runs) == {}
        assert not rig.finish(runs)
        assert rig.cancel(runs) == {}
        rig.check(runs, outcome=Outcome.CANCELLED, completed_at=rig.now())
        rig.advance(HOUR)
        assert ids(rig.claim(OTHER_NODE, ahead=HOUR, lapsed=True)) == [free.id]

    def test_what_is_left_can_be_read_until_the_cleanup(self, rig: Rig) -> None:
        over, cut_short = left = rig.ended(), rig.running()
        rig.store.delete_definitions([each.definition.id for each in left])
        assert rig.read(over).definition == over.definition
        assert rig.instances(over.definition) == []
        assert {*ids(rig.store.select())} == {over.id, cut_short.id}
        assert ids(rig.store.select(Filter(states=[State.COMPLETED]))) == [over.id]
        counts = counts_by_state(rig.store)
        assert (counts[State.COMPLETED], counts[State.CANCELLED]) == (1, 1)
        assert rig.clean_up(older_than=EXPIRE_AFTER) == 0
        assert rig.clean_up() == 2
        assert [rig.state_of(each) for each in left] == [None, None]

    def test_a_deleted_id_may_be_put_again_and_is_new(self, rig: Rig) -> None:
        new = definition()
        old = rig.pause(rig.put(new), note="why")
        rig.delete(new)
        assert rig.due() == []
        assert rig.fire_steps(firing(old, START)) == []
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            rig.read(new)
        assert caught.value.definition_id == new.id
        again = rig.put(new)
        assert kept_by_store(again)[:4] == (START, False, None, None)
        assert revision_of(again) > revision_of(old)
        assert rig.fire_steps(firing(old, START)) == []
        assert rig.instances(new) == []
        with pytest.raises(ConflictError):
            rig.edit(old, name="other")

    def test_a_new_definition_has_no_runs_of_the_old_one(self, rig: Rig) -> None:
        new = definition(trigger=WAITING)
        history = rig.ended(new)
        rig.delete(new)
        run = rig.running(new)
        assert run.id != history.id, "the fire time of the old one is taken still"
        rig.delete(new)
        again = rig.edit(new, next_fire_time=None)
        assert rig.instances(again) == []
        assert not rig.finish(run, next_fire_time=START + HOUR)
        rig.check(new, next_fire_time=None, completed_at=None)
        rig.pause(new)
        rig.delete(new)
        assert rig.state_of(history) is State.COMPLETED
        assert rig.state_of(run) is State.CANCELLED
