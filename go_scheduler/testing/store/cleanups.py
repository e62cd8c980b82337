"""Store suite: what is over goes, after its time, and ids are remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConflictError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, Skipped, TaskDefinition
from go_scheduler.stores.messages import Tombstone
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    TICK,
    WAITING,
    YEAR,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    kept_by_store,
    pending,
    put,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger


class CleanupTests:
    """``delete_finished``."""

    def test_instances_go_when_they_ended_long_enough_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = self.of_a_live_definition(store)
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        assert store.get_instance(instance.id) == instance
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 1
        assert store.list_instances() == []

    def test_what_failed_has_a_time_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        failed = ended(store, outcome=Outcome.FAILED)
        other = ended(store)
        assert clean_up(store, older_than=HOUR, failed_older_than=ZERO) == 1
        assert ids(store.list_instances()) == [other.id]
        clock.advance(HOUR)
        failed = ended(store, outcome=Outcome.FAILED)
        deleted = clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK)
        assert deleted == 3
        assert ids(store.list_instances()) == [failed.id]
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK) == 2

    def test_the_limit_counts_what_failed_as_well(self, store: Store) -> None:
        for outcome in (Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED):
            ended(store, outcome=outcome)
        assert clean_up(store, limit=2) == 2
        assert len(store.list_instances()) == 1
        assert len(store.list_definitions()) == 3

    def test_what_failed_and_then_succeeded_goes_with_what_succeeded(
        self, store: Store
    ) -> None:
        instance = ended(store, outcome=Outcome.FAILED)
        assert finish(store, instance, Outcome.COMPLETED)
        assert clean_up(store, older_than=HOUR, failed_older_than=ZERO) == 0
        assert clean_up(store, older_than=ZERO, failed_older_than=HOUR) == 2

    def test_how_long_ago_counts_from_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert finish(store, instance)
        assert clean_up(store, older_than=MINUTE, limit=10) == 0

    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_instances_go_whatever_their_outcome(
        self, store: Store, outcome: Outcome
    ) -> None:
        instance = ended(store, outcome=outcome)
        clean_up(store, older_than=ZERO, limit=10)
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_records_of_skipped_ones_go(self, store: Store) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        step = firing(put(store), skipped=skipped, next_fire_time=START + HOUR)
        store.fire_definitions([step])
        assert clean_up(store, older_than=ZERO, limit=10) == 1
        assert store.list_instances() == []

    def test_what_has_not_ended_stays(self, store: Store, clock: ManualClock) -> None:
        kept = [waiting_for_retry(store, retry_in=MINUTE), running(store)]
        kept += [claimed(store), pending(store)]
        clock.advance(1000 * HOUR)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert {each.id for each in store.list_instances()} == set(ids(kept))
        assert len(store.list_definitions()) == len(kept)

    def test_a_completed_definition_goes_with_its_last_instance(
        self, store: Store
    ) -> None:
        instance = ended(store)
        assert clean_up(store, older_than=ZERO, limit=10) == 2
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(instance.definition.id)

    def test_a_definition_that_is_not_completed_stays(self, store: Store) -> None:
        instance = self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=10) == 1
        assert store.list_definitions() == [instance.definition]

    def test_a_completed_definition_without_instances_goes_when_it_is_old_enough(
        self, store: Store, clock: ManualClock
    ) -> None:
        put(store, definition(None))
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 1
        assert store.list_definitions() == []

    def test_a_completed_definition_stays_while_an_instance_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert store.list_definitions() == [instance.definition]

    def test_a_completed_definition_stays_while_an_instance_is_young(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert finish(store, instance)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR, limit=10) == 2

    def test_a_definition_that_is_live_again_stays(self, store: Store) -> None:
        old = put(store, definition(None))
        live = put(store, replace(old, trigger=WAITING, next_fire_time=START))
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert store.list_definitions() == [live]

    def test_at_most_limit_are_deleted(self, store: Store) -> None:
        for _ in range(3):
            self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=2) == 2
        assert len(store.list_instances()) == 1
        assert clean_up(store, older_than=ZERO, limit=2) == 1

    def test_the_limit_counts_definitions_and_instances_together(
        self, store: Store
    ) -> None:
        for _ in range(3):
            ended(store)
        assert clean_up(store, older_than=ZERO, limit=4) == 4
        assert store.list_instances() == []
        assert len(store.list_definitions()) == 2
        assert clean_up(store, older_than=ZERO, limit=4) == 2
        assert store.list_definitions() == []

    def test_instances_go_before_definitions(self, store: Store) -> None:
        put(store, definition(None))
        instance = self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=1) == 1
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)
        assert len(store.list_definitions()) == 2

    def test_a_deleted_fire_time_of_a_live_definition_is_gone_for_good(
        self, store: Store
    ) -> None:
        instance = self.of_a_live_definition(store)
        clean_up(store, older_than=ZERO, limit=1)
        before = replace(instance.definition, next_fire_time=START)
        assert store.fire_definitions([firing(before)]).done == set()
        assert store.list_instances() == []

    @staticmethod
    def of_a_live_definition(store: Store) -> TaskInstance:
        """An instance that has ended, of a definition that goes on."""
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        [instance] = claim(store)
        assert finish(store, instance)
        return store.get_instance(instance.id)


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
