"""Store suite: a paused definition starts nothing, loses nothing, and goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.models import Cancelled, Pause, State
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    definition,
    firing,
    ids,
    times,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.triggers.base import Trigger


def made_in_each_state(rig: Rig, trigger: Trigger = HOURLY) -> dict[str, TaskInstance]:
    """An instance in each state that a pause, an edit or a delete finds it in.

    Each is of its own definition. "to come" and "passed" tell on which side of the
    store's time its fire time is. The clock moves by a second.
    """

    def new(at: datetime = START) -> TaskDefinition:
        return definition(at, trigger=trigger)

    made = {"claimed, passed": rig.claimed(new(START + SECOND))}
    rig.advance(SECOND)
    made["claimed, to come"] = rig.claimed(new(START + MINUTE))
    rig.waiting_for_retry(new(), retry_in=SECOND)
    [made["claimed for a retry"]] = rig.claim(ahead=SECOND)
    made["running"] = rig.running(new())
    made["ended"] = rig.ended(new())
    made["waiting for a retry"] = rig.waiting_for_retry(new())
    made["pending, to come"] = rig.pending(new(START + HOUR))
    made["pending, passed"] = rig.pending(new())
    of = rig.put(new(START + YEAR))
    [made["added"]] = rig.store.add_instances(of.id, [Addition(at=START + HOUR)])
    return made


def states(rig: Rig, made: Mapping[str, TaskInstance]) -> dict[str, State | None]:
    """In which state each instance is by now; None: it has been removed."""
    return {name: rig.state_of(each) for name, each in made.items()}


def definition_ids(made: Mapping[str, TaskInstance]) -> list[UUID]:
    """The ids of the definitions of instances."""
    return [each.definition.id for each in made.values()]


BECOMES: Mapping[str, tuple[State | None, State | None, State | None]] = {
    # After a pause, after another trigger, after a delete.
    "claimed, passed": (State.PENDING, State.SKIPPED, None),
    "claimed, to come": (None, None, None),
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
    """``pause_definitions``."""

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
        assert (again.paused, again.note, again.revision) == (True, "second", 2)
        assert again.next_fire_time == START
        edited = rig.put(replace(again, name="other"))
        moved = rig.put(replace(edited, trigger=WAITING))
        for found in (paused, again, edited, moved, rig.read(new)):
            assert (found.paused, found.paused_at) == (True, START + HOUR)
        for found in (edited, moved, rig.read(new)):
            assert found.note == "second"

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
        edited = rig.put(replace(resumed, name="other", last_pause=other))
        moved = rig.put(replace(edited, trigger=HOURLY, last_pause=None))
        for each in (resumed, read, edited, moved, rig.read(new)):
            assert each.last_pause == last
        assert rig.put(replace(moved, id=uuid4())).last_pause is None
        rig.pause(new)
        [again] = rig.resume(new)
        assert again.last_pause == Pause(since=START + HOUR, until=START + HOUR)

    def test_a_new_definition_may_be_paused(self, rig: Rig) -> None:
        rig.advance(HOUR)
        given = definition(note="why", paused_at=START)
        new = rig.put(replace(given, paused=True))
        assert (new.note, new.revision, new.next_fire_time) == ("why", 1, START)
        for found in (new, rig.read(new)):
            assert (found.paused, found.paused_at) == (True, START + HOUR)
        assert rig.due() == []
        assert rig.fire_steps(firing(new)) == []
        [resumed] = rig.resume(new)
        assert (resumed.paused, resumed.note, resumed.revision) == (False, None, 2)
        assert ids(rig.due()) == [new.id]
        other = rig.put(replace(given, id=uuid4()))
        for found in (other, rig.read(other)):
            assert (found.paused, found.note, found.paused_at) == (False, None, None)

    def test_an_edit_neither_pauses_nor_resumes(self, rig: Rig) -> None:
        new = rig.put()
        paused = replace(new, name="b", paused=True, note="why", paused_at=START)
        edited = rig.put(paused)
        assert (edited.paused, edited.note, edited.paused_at) == (False, None, None)
        rig.pause(edited)
        assert rig.put(replace(new, trigger=WAITING, revision=None)).paused

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_a_pause_freezes_or_removes_instances(
        self, rig: Rig, trigger: Trigger
    ) -> None:
        made = made_in_each_state(rig, trigger)
        before = {each.id: each for each in rig.store.list_definitions()}
        paused = {of: rig.pause(before[of]) for of in definition_ids(made)}
        assert states(rig, made) == AFTER_A_PAUSE
        for name, each in made.items():
            old, now = before[each.definition.id], paused[each.definition.id]
            removed = AFTER_A_PAUSE[name] is None
            times_of = (now.next_fire_time, now.completed_at)
            assert times_of == (
                (each.fire_time, None)
                if removed
                else (old.next_fire_time, old.completed_at)
            ), f"of the definition of what was {name}"
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert rig.start(made[name]) == [], name
            assert rig.renew(made[name]) == {}, name
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
        for begin in (rig.start, rig.cancel):
            read = rig.put()
            step = [START + number * SECOND for number in (1, 2, 3)]
            rig.fire(read, *step, next_fire_time=START + HOUR)
            first, second, third = rig.claim(ahead=HOUR)
            begin(second)
            assert rig.pause(read).next_fire_time == third.fire_time
            assert ids(rig.instances(read)) == [first.id, second.id]
            assert rig.state_of(first) is State.PENDING
            assert rig.claim(ahead=HOUR) == []

    def test_no_fire_time_that_has_passed_fires_again(self, rig: Rig) -> None:
        read = rig.put()
        # The first one is to run after the second one, as by a jitter.
        later = firing(read, START, START + SECOND, next_fire_time=START + HOUR)
        execute_times = (START + MINUTE, START + SECOND)
        rig.store.fire_definitions([replace(later, execute_times=execute_times)])
        rig.advance(SECOND)
        [second] = rig.claim()
        assert rig.finish(second)
        assert rig.clean_up() == 1
        assert rig.pause(read).next_fire_time == START + HOUR
        assert times(rig.instances(read)) == [START]


class FrozenTests(StoreTests):
    """What has passed, and has not ended, is frozen by a pause."""

    def test_a_run_that_stops_during_a_pause_is_frozen(self, rig: Rig) -> None:
        released, failed, lapsed, done = runs = [rig.running() for _ in range(4)]
        paused = [rig.pause(each.definition).id for each in runs]
        assert rig.release(released)
        assert rig.finish(failed, None, retry_in=SECOND)
        rig.advance(LEASE)
        assert rig.take_over() == []
        for each, counted in ((released, 0), (failed, 1)):
            found = rig.read(each)
            assert (found.state, found.runs) == (State.PENDING, counted)
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
        rig.put(replace(paused, queue="other"))
        assert rig.claim(queues=["default", "other"], ahead=HOUR) == []
        rig.resume(paused, gone.definition)
        assert rig.claim() == []
        assert ids(rig.claim(queues=["other"])) == [kept.id]


class ResumeTests(StoreTests):
    """``resume_definitions``."""

    def test_the_pause_and_its_note_go(self, rig: Rig) -> None:
        new = rig.put()
        rig.pause(new, note="why")
        for _ in range(2):
            # The second time it is not paused, and stays as it is.
            [resumed] = rig.resume(new)
            for found in (resumed, rig.read(new)):
                assert found == new
                assert (found.paused, found.note, found.revision) == (False, None, 3)
                assert found.paused_at is None

    def test_a_resume_brings_back_all_instances(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        rig.store.pause_definitions(definition_ids(made))
        rig.store.resume_definitions(definition_ids(made))
        removed = ("claimed, to come", "pending, to come")
        assert ids(rig.due()) == [made[name].definition.id for name in removed]
        for name in removed:
            read = rig.read(made[name].definition)
            assert times(rig.fire(read)) == [made[name].fire_time], name
        frozen = {made[name].id for name in AFTER_A_PAUSE if name not in removed}
        frozen -= {made["running"].id, made["ended"].id, made["added"].id}
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
