"""What a store remembers of definitions that have ended and are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.messages import Tombstone
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    TICK,
    WAITING,
    YEAR,
    claim,
    clean_up,
    ended,
    ids,
    instances,
    kept_by_store,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

_ONCE = ExecuteOnceTrigger(START)


def _once(number: int = 1, trigger: Trigger = _ONCE) -> TaskDefinition:
    """A definition whose id is passed."""
    return TaskDefinition(
        trigger=trigger,
        id=TaskDefinition.id_for(f"once {number}"),
        next_fire_time=START,
    )


def _gone(store: Store, new: TaskDefinition) -> TaskDefinition:
    """Let a definition run, end and be cleaned up; as it was stored at last."""
    last = store.get_definition(ended(store, new).definition.id)
    assert clean_up(store) == 2
    return last


class RememberedTests:
    """Ids that ``delete_finished`` leaves remembered."""

    @pytest.mark.parametrize("trigger", [_ONCE, IntervalTrigger(HOUR), WAITING])
    def test_what_has_ended_does_not_run_again(
        self, store: Store, clock: ManualClock, trigger: Trigger
    ) -> None:
        last = _gone(store, _once(trigger=trigger.anchored(START)))
        clock.advance(YEAR - TICK)
        clean_up(store)
        # As at the next start of the program: what it counts from is another moment.
        again = _once(trigger=trigger.anchored(clock.now()))
        assert kept_by_store(put(store, again)) == kept_by_store(
            replace(last, next_fire_time=None)
        )
        assert store.list_definitions() == []
        assert claim(store) == []
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(again.id)

    def test_the_answer_is_what_was_put(self, store: Store) -> None:
        _gone(store, _once())
        changed = replace(_once(), name="other", metadata={"a": 1})
        assert put(store, changed) == changed
        assert put(store, _once()) == _once()

    def test_others_of_the_same_call_are_new(self, store: Store) -> None:
        _gone(store, _once(1))
        over, new = store.put_definitions([_once(1), _once(2)])
        assert (over.completed_at, new.completed_at) == (START, None)
        assert store.list_definitions() == [new]

    def test_another_trigger_is_a_new_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        last = _gone(store, _once())
        clock.advance(HOUR)
        later = replace(
            _once(trigger=ExecuteOnceTrigger(clock.now())), next_fire_time=clock.now()
        )
        again = put(store, later)
        assert (again.next_fire_time, again.completed_at) == (clock.now(), None)
        assert again.revision is not None
        assert last.revision is not None
        assert again.revision > last.revision
        assert store.list_definitions() == [again]

    def test_a_new_life_is_remembered_in_the_place_of_the_old_one(
        self, store: Store
    ) -> None:
        _gone(store, _once())
        other = ExecuteOnceTrigger(START + HOUR)
        last = _gone(store, _once(trigger=other))
        assert put(store, _once(trigger=other)).revision == last.revision
        assert put(store, _once()).completed_at is None

    def test_while_it_lives_nothing_of_its_former_life_is_remembered(
        self, store: Store
    ) -> None:
        _gone(store, _once())
        other = put(store, _once(trigger=WAITING))
        store.delete_definitions([other.id])
        assert put(store, _once()).completed_at is None

    def test_an_id_that_was_made_up_is_not_remembered(self, store: Store) -> None:
        new = TaskDefinition(trigger=_ONCE, next_fire_time=START)
        _gone(store, new)
        assert put(store, new).completed_at is None

    def test_an_id_that_was_made_up_is_named_by_who_passes_it(
        self, store: Store
    ) -> None:
        later = START + HOUR
        made_up = put(store, TaskDefinition(trigger=_ONCE, next_fire_time=later))
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=later)
        named = put(store, passed)
        assert named.named
        assert kept_by_store(named) == kept_by_store(made_up)
        assert put(store, made_up).named
        edited = put(store, replace(made_up, name="other"))
        assert edited.named
        moved = ExecuteOnceTrigger(START - HOUR)
        again = replace(edited, trigger=moved, next_fire_time=START, named=False)
        assert put(store, again).named
        _gone(store, replace(passed, trigger=moved))
        assert put(store, replace(passed, trigger=moved)).completed_at == START

    def test_what_is_remembered_says_nothing_to_whoever_made_the_id_up(
        self, store: Store
    ) -> None:
        made_up = TaskDefinition(trigger=_ONCE, next_fire_time=START)
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=START)
        _gone(store, passed)
        live = put(store, made_up)
        assert (live.completed_at, live.named) == (None, False)
        assert store.list_definitions() == [live]

    def test_whether_an_id_was_passed_is_read_back(self, store: Store) -> None:
        passed = put(store, _once())
        made_up = put(store, TaskDefinition(trigger=_ONCE, next_fire_time=START))
        assert store.get_definition(passed.id).named
        assert not store.get_definition(made_up.id).named
        named = {each.id: each.named for each in store.list_definitions()}
        assert named == {passed.id: True, made_up.id: False}

    def test_the_revision_remembered_may_be_passed(self, store: Store) -> None:
        last = _gone(store, _once())
        assert put(store, last).completed_at == START
        with pytest.raises(ConflictError) as caught:
            put(store, replace(last, revision=7))
        assert (caught.value.expected, caught.value.revision) == (7, last.revision)

    def test_what_is_remembered_can_be_read(self, store: Store) -> None:
        last = _gone(store, _once(1))
        assert last.revision is not None
        kept = Tombstone(
            id=last.id,
            trigger=last.trigger,
            revision=last.revision,
            completed_at=START,
        )
        live = put(store, _once(2))
        assert store.list_tombstones([last.id, live.id, NOBODY, last.id]) == [kept]
        assert store.list_tombstones([]) == []
        store.delete_definitions([last.id])
        assert store.list_tombstones([last.id]) == []

    def test_all_that_is_remembered_can_be_read_at_once(self, store: Store) -> None:
        gone = {_gone(store, _once(number)).id for number in (1, 2)}
        assert {each.id for each in store.list_tombstones(gone)} == gone

    def test_a_delete_forgets(self, store: Store) -> None:
        new = _once()
        _gone(store, new)
        assert store.delete_definitions([new.id]) == {}
        assert put(store, new).completed_at is None
        assert ids(store.list_definitions()) == [new.id]

    def test_what_was_deleted_is_not_remembered(self, store: Store) -> None:
        new = _once()
        ended(store, new)
        store.delete_definitions([new.id])
        clean_up(store)
        assert put(store, new).completed_at is None

    def test_ids_are_forgotten_when_they_ended_long_enough_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        _gone(store, _once())
        clock.advance(HOUR - TICK)
        clean_up(store, remember=HOUR)
        assert put(store, _once()).completed_at == START
        clock.advance(TICK)
        clean_up(store, remember=HOUR)
        assert put(store, _once()).completed_at is None

    def test_how_long_counts_from_when_it_was_completed(
        self, store: Store, clock: ManualClock
    ) -> None:
        ended(store, _once())
        clock.advance(HOUR)
        assert clean_up(store, remember=HOUR) == 2
        clean_up(store, remember=HOUR)
        assert put(store, _once()).completed_at is None

    def test_at_most_limit_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        for number in (1, 2, 3):
            _gone(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store, remember=ZERO, limit=2) == 0
        assert self.remembered(store, 3) == [3]

    def test_of_too_many_those_that_ended_first_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.most_remembered = 2
        for number in (1, 2, 3, 4):
            ended(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store) == 8
        assert self.remembered(store, 4) == [3, 4]

    def test_of_too_many_at_most_limit_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.most_remembered = 1
        for number in (1, 2, 3, 4, 5):
            ended(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store, limit=5) == 5
        while clean_up(store, limit=1):
            assert len(store.list_tombstones([_once(each).id for each in range(6)])) < 3
        assert self.remembered(store, 5) == [5]

    @staticmethod
    def remembered(store: Store, most: int) -> Sequence[int]:
        """Which of the first definitions do not run again."""
        put_again = {number: put(store, _once(number)) for number in range(1, most + 1)}
        return [
            number
            for number, each in put_again.items()
            if each.completed_at is not None and instances(store, each) == []
        ]
