"""Store suite: a paused definition starts nothing, loses nothing, and goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
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
    cancel,
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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger


def pause(store: Store, read: TaskDefinition) -> TaskDefinition:
    """Pause one definition and return it as stored."""
    [stored] = store.pause_definitions([read.id])
    return stored


def made_in_each_state(
    store: Store, clock: ManualClock, trigger: Trigger = HOURLY
) -> dict[str, TaskInstance]:
    """An instance in each state that a pause, an edit or a delete finds it in.

    Each is of its own definition. "to come" and "passed" tell on which side of the
    store's time its fire time is. The clock moves by a second.
    """

    def new(at: datetime = START) -> TaskDefinition:
        return definition(at, trigger=trigger)

    made = {"claimed, passed": claimed(store, new(START + SECOND))}
    clock.advance(SECOND)
    made["claimed, to come"] = claimed(store, new(START + MINUTE))
    waiting_for_retry(store, new(), retry_in=SECOND)
    [made["claimed for a retry"]] = claim(store, ahead=SECOND)
    made["running"] = running(store, new())
    made["ended"] = ended(store, new())
    made["waiting for a retry"] = waiting_for_retry(store, new())
    made["pending, to come"] = pending(store, new(START + HOUR))
    made["pending, passed"] = pending(store, new())
    of = put(store, new(START + YEAR))
    [made["added"]] = store.add_instances(of.id, [Addition(at=START + HOUR)])
    return made


def states(store: Store, made: Mapping[str, TaskInstance]) -> dict[str, State | None]:
    """In which state each instance is by now; None: it has been removed."""
    return {name: state_of(store, each) for name, each in made.items()}


def state_of(store: Store, instance: TaskInstance) -> State | None:
    """In which state an instance is by now; None: it has been removed."""
    try:
        return store.get_instance(instance.id).state
    except TaskInstanceNotFoundError:
        return None


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


class PauseTests:
    """``pause_definitions``."""

    def test_a_pause_is_kept_with_its_time_and_the_last_note(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store)
        assert new.paused_at is None
        clock.advance(HOUR)
        [paused] = store.pause_definitions([new.id], note="why")
        for found in (paused, store.get_definition(new.id)):
            assert found == new
            assert (found.paused, found.note, found.revision) == (True, "why", 2)
        assert due(store) == []
        for read in (new, paused):
            assert store.fire_definitions([firing(read)]).done == set()
        clock.advance(HOUR)
        [again] = store.pause_definitions([new.id], note="second")
        assert (again.paused, again.note, again.revision) == (True, "second", 2)
        assert again.next_fire_time == START
        edited = put(store, replace(again, name="other"))
        moved = put(store, replace(edited, trigger=WAITING))
        for found in (paused, again, edited, moved, store.get_definition(new.id)):
            assert (found.paused, found.paused_at) == (True, START + HOUR)
        for found in (edited, moved, store.get_definition(new.id)):
            assert found.note == "second"

    def test_a_pause_and_a_resume_answer_what_exists(self, store: Store) -> None:
        wanted = {put(store).id, put(store).id}
        for change in (store.pause_definitions, store.resume_definitions):
            assert {each.id for each in change([*wanted, NOBODY])} == wanted
            assert change([NOBODY]) == []

    def test_the_last_pause_is_kept_whatever_is_edited_since(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store)
        assert new.last_pause is None
        store.pause_definitions([new.id], note="why")
        clock.advance(HOUR)
        [resumed] = store.resume_definitions([new.id])
        last = Pause(since=START, until=START + HOUR, note="why")
        [read] = due(store)
        other = Pause(since=START, until=START)
        edited = put(store, replace(resumed, name="other", last_pause=other))
        moved = put(store, replace(edited, trigger=HOURLY, last_pause=None))
        for each in (resumed, read, edited, moved, store.get_definition(new.id)):
            assert each.last_pause == last
        assert put(store, replace(moved, id=uuid4())).last_pause is None
        pause(store, new)
        [again] = store.resume_definitions([new.id])
        assert again.last_pause == Pause(since=START + HOUR, until=START + HOUR)

    def test_a_new_definition_may_be_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        clock.advance(HOUR)
        given = replace(definition(), note="why", paused_at=START)
        new = put(store, replace(given, paused=True))
        assert (new.note, new.revision, new.next_fire_time) == ("why", 1, START)
        for found in (new, store.get_definition(new.id)):
            assert (found.paused, found.paused_at) == (True, START + HOUR)
        assert due(store) == []
        assert store.fire_definitions([firing(new)]).done == set()
        [resumed] = store.resume_definitions([new.id])
        assert (resumed.paused, resumed.note, resumed.revision) == (False, None, 2)
        assert ids(due(store)) == [new.id]
        other = put(store, replace(given, id=uuid4()))
        for found in (other, store.get_definition(other.id)):
            assert (found.paused, found.note, found.paused_at) == (False, None, None)

    def test_an_edit_neither_pauses_nor_resumes(self, store: Store) -> None:
        new = put(store)
        paused = replace(new, name="b", paused=True, note="why", paused_at=START)
        edited = put(store, paused)
        assert (edited.paused, edited.note, edited.paused_at) == (False, None, None)
        pause(store, edited)
        assert put(store, replace(new, trigger=WAITING, revision=None)).paused

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_a_pause_freezes_or_removes_what_does_not_run(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        made = made_in_each_state(store, clock, trigger)
        before = {each.id: each for each in store.list_definitions()}
        paused = {of: pause(store, before[of]) for of in definition_ids(made)}
        assert states(store, made) == AFTER_A_PAUSE
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
            assert start(store, made[name]) == [], name
            assert renew(store, made[name]) == {}, name
        runs = made["running"]
        assert renew(store, runs) == {runs.id: False}
        assert ids(start(store, runs)) == [runs.id]
        free = pending(store)
        assert ids(claim(store, ahead=HOUR, lapsed=True)) == [free.id]
        assert finish(store, runs)

    def test_a_pause_goes_back_to_the_first_removed_time(self, store: Store) -> None:
        later = START + HOUR
        goes_back, held, stays = put(store), put(store, definition(later)), put(store)
        fire(store, goes_back, later + HOUR, later, next_fire_time=START + 3 * HOUR)
        assert pause(store, goes_back).next_fire_time == later
        fire(store, held, later, later + SECOND, next_fire_time=START + 2 * HOUR)
        assert len(claim(store, ahead=HOUR)) == 1
        assert pause(store, held).next_fire_time == later
        fire(store, stays, next_fire_time=later)
        assert pause(store, stays).next_fire_time == later

    def test_a_pause_goes_back_over_nothing_that_began(self, store: Store) -> None:
        for begin in (start, cancel):
            read = put(store)
            step = [START + number * SECOND for number in (1, 2, 3)]
            fire(store, read, *step, next_fire_time=START + HOUR)
            first, second, third = claim(store, ahead=HOUR)
            begin(store, second)
            assert pause(store, read).next_fire_time == third.fire_time
            assert ids(instances(store, read)) == [first.id, second.id]
            assert state_of(store, first) is State.PENDING
            assert claim(store, ahead=HOUR) == []

    def test_no_fire_time_that_has_passed_fires_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        # The first one is to run after the second one, as by a jitter.
        later = firing(read, START, START + SECOND, next_fire_time=START + HOUR)
        execute_times = (START + MINUTE, START + SECOND)
        store.fire_definitions([replace(later, execute_times=execute_times)])
        clock.advance(SECOND)
        [second] = claim(store)
        assert finish(store, second)
        assert clean_up(store) == 1
        assert pause(store, read).next_fire_time == START + HOUR
        assert times(instances(store, read)) == [START]


class FrozenTests:
    """What has passed, and has not ended, is frozen by a pause."""

    def test_what_stops_running_during_a_pause_is_frozen_until_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        released, failed, lapsed, done = runs = [running(store) for _ in range(4)]
        paused = [pause(store, each.definition).id for each in runs]
        assert release(store, released)
        assert finish(store, failed, None, retry_in=SECOND)
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        for each, counted in ((released, 0), (failed, 1)):
            found = store.get_instance(each.id)
            assert (found.state, found.runs) == (State.PENDING, counted)
        assert finish(store, done)
        store.resume_definitions(paused)
        found_again = claim(store, OTHER_NODE, lapsed=True)
        assert {*ids(found_again)} == {released.id, failed.id, lapsed.id}
        assert state_of(store, done) is State.COMPLETED

    def test_what_is_frozen_can_be_cancelled_and_edited(self, store: Store) -> None:
        kept, gone = waiting_for_retry(store), pending(store)
        paused = pause(store, kept.definition)
        pause(store, gone.definition)
        assert cancel(store, gone) == {gone.id: Cancelled.CANCELLED}
        put(store, replace(paused, queue="other"))
        assert claim(store, queues=["default", "other"], ahead=HOUR) == []
        store.resume_definitions([paused.id, gone.definition.id])
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [kept.id]


class ResumeTests:
    """``resume_definitions``."""

    def test_the_pause_and_its_note_go(self, store: Store) -> None:
        new = put(store)
        store.pause_definitions([new.id], note="why")
        for _ in range(2):
            # The second time it is not paused, and stays as it is.
            [resumed] = store.resume_definitions([new.id])
            for found in (resumed, store.get_definition(new.id)):
                assert found == new
                assert (found.paused, found.note, found.revision) == (False, None, 3)
                assert found.paused_at is None

    def test_what_was_removed_fires_and_what_was_frozen_can_be_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        made = made_in_each_state(store, clock)
        store.pause_definitions(definition_ids(made))
        store.resume_definitions(definition_ids(made))
        removed = ("claimed, to come", "pending, to come")
        assert ids(due(store)) == [made[name].definition.id for name in removed]
        for name in removed:
            read = store.get_definition(made[name].definition.id)
            assert times(fire(store, read)) == [made[name].fire_time], name
        frozen = {made[name].id for name in AFTER_A_PAUSE if name not in removed}
        frozen -= {made["running"].id, made["ended"].id, made["added"].id}
        assert {*ids(claim(store, OTHER_NODE, ahead=SECOND))} == frozen
        assert state_of(store, made["running"]) is State.RUNNING

    def test_a_claim_that_has_lapsed_lapses_at_the_resume(
        self, store: Store, clock: ManualClock
    ) -> None:
        before = running(store)
        clock.advance(LEASE)
        meanwhile = running(store)
        paused = [before.definition.id, meanwhile.definition.id]
        store.pause_definitions(paused)
        clock.advance(HOUR)
        holds = running(store)
        pause(store, holds.definition)
        clock.advance(SECOND)
        store.resume_definitions([*paused, holds.definition.id])
        for each in (before, meanwhile):
            assert store.get_instance(each.id).expires_at == store.now()
        assert store.get_instance(holds.id).expires_at == holds.expires_at
