"""Store suite: what is over goes, after its time, and ids are remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
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
from go_scheduler.testing.store.pauses import state_of
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
        for outcome in Outcome:
            self.of_a_live_definition(store, outcome)
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        step = firing(put(store), skipped=skipped, next_fire_time=START + YEAR)
        assert store.fire_definitions([step]).done
        late = running(store)
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR) == 0
        assert finish(store, late)
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR) == len(Outcome) + 1
        assert ids(store.list_instances()) == [late.id]
        assert len(store.list_definitions()) == len(Outcome) + 2

    def test_what_failed_has_a_time_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        ended(store, outcome=Outcome.FAILED)
        other, mended = ended(store), ended(store, outcome=Outcome.FAILED)
        assert finish(store, mended, Outcome.COMPLETED)
        assert clean_up(store, older_than=HOUR, failed_older_than=ZERO) == 1
        assert {*ids(store.list_instances())} == {other.id, mended.id}
        clock.advance(HOUR)
        failed = ended(store, outcome=Outcome.FAILED)
        longer = HOUR + TICK
        # Two instances, and the three definitions that have none left.
        assert clean_up(store, older_than=HOUR, failed_older_than=longer) == 5
        assert ids(store.list_instances()) == [failed.id]
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR, failed_older_than=longer) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, failed_older_than=longer) == 2

    def test_what_has_not_ended_stays(self, store: Store, clock: ManualClock) -> None:
        kept = [waiting_for_retry(store, retry_in=MINUTE), running(store)]
        kept += [claimed(store), pending(store)]
        clock.advance(1000 * HOUR)
        assert clean_up(store) == 0
        assert {each.id for each in store.list_instances()} == set(ids(kept))
        assert len(store.list_definitions()) == len(kept)

    def test_a_completed_definition_goes_when_it_is_old_enough_and_has_no_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        live_again = put(store, definition(None))
        put(store, replace(live_again, trigger=WAITING, next_fire_time=START))
        put(store, definition(None))
        run = running(store)
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR) == 1
        left = {live_again.id, run.definition.id}
        assert {*ids(store.list_definitions())} == left
        assert finish(store, run)
        assert clean_up(store, older_than=HOUR) == 0
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR) == 2
        assert ids(store.list_definitions()) == [live_again.id]

    def test_at_most_limit_are_deleted_instances_first(self, store: Store) -> None:
        put(store, definition(None))
        for outcome in (Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED):
            ended(store, outcome=outcome)
        left = []
        for limit, deleted in ((1, 1), (1, 1), (3, 3), (4, 2)):
            assert clean_up(store, limit=limit) == deleted
            left += [(len(store.list_instances()), len(store.list_definitions()))]
        assert left == [(2, 4), (1, 4), (0, 2), (0, 0)]

    def test_a_fire_time_that_was_deleted_does_not_return(self, store: Store) -> None:
        instance = self.of_a_live_definition(store)
        assert clean_up(store) == 1
        assert state_of(store, instance) is None
        before = replace(instance.definition, next_fire_time=START)
        assert store.fire_definitions([firing(before)]).done == set()
        assert store.list_instances() == []

    @staticmethod
    def of_a_live_definition(
        store: Store, outcome: Outcome = Outcome.COMPLETED
    ) -> TaskInstance:
        """An instance that has ended, of a definition that goes on."""
        read = put(store)
        fire(store, read, next_fire_time=START + YEAR)
        [instance] = claim(store)
        assert finish(store, instance, outcome)
        return store.get_instance(instance.id)


_ONCE = ExecuteOnceTrigger(START)
_LATER = ExecuteOnceTrigger(START + HOUR)


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

    def test_what_has_ended_does_not_run_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        triggers = (_ONCE, IntervalTrigger(HOUR), WAITING)
        last = [
            _gone(store, _once(number, trigger.anchored(START)))
            for number, trigger in enumerate(triggers)
        ]
        clock.advance(YEAR - TICK)
        clean_up(store)
        # As at the next start of the program: what it counts from is another moment.
        again = [
            replace(_once(number, trigger.anchored(clock.now())), name="other")
            for number, trigger in enumerate(triggers)
        ]
        *over, new = store.put_definitions([*again, _once(7)])
        assert over == again
        assert [kept_by_store(each) for each in over] == [
            kept_by_store(replace(each, next_fire_time=None)) for each in last
        ]
        assert store.list_definitions() == [new]
        assert claim(store) == []
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(again[0].id)

    def test_another_trigger_is_a_new_definition(self, store: Store) -> None:
        last = _gone(store, _once())
        again = put(store, _once(trigger=_LATER))
        assert (again.next_fire_time, again.completed_at) == (START, None)
        assert again.revision is not None
        assert last.revision is not None
        assert again.revision > last.revision
        assert store.list_definitions() == [again]
        # It is remembered in the place of the former one, and not before its end.
        last = _gone(store, again)
        assert put(store, _once(trigger=_LATER)).revision == last.revision
        live = put(store, _once())
        assert live.completed_at is None
        store.delete_definitions([live.id])
        assert put(store, _once(trigger=_LATER)).completed_at is None

    def test_only_an_id_that_was_passed_is_remembered(self, store: Store) -> None:
        made_up = TaskDefinition(trigger=_ONCE, next_fire_time=START)
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=START)
        _gone(store, made_up)
        assert put(store, passed).completed_at is None
        _gone(store, passed)
        # Who made up the id cannot mean what is remembered.
        live = put(store, made_up)
        assert (live.completed_at, live.named) == (None, False)
        other = put(store, _once())
        named = {each.id: each.named for each in store.list_definitions()}
        assert named == {live.id: False, other.id: True}
        assert store.get_definition(other.id).named

    def test_a_made_up_id_is_named_by_who_passes_it(self, store: Store) -> None:
        later = START + HOUR
        made_up = put(store, TaskDefinition(trigger=_ONCE, next_fire_time=later))
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=later)
        named = put(store, passed)
        assert named.named
        assert kept_by_store(named) == kept_by_store(made_up)
        assert put(store, made_up).named
        edited = put(store, replace(made_up, name="other"))
        assert edited.named
        again = replace(edited, trigger=_LATER, next_fire_time=START, named=False)
        assert put(store, again).named
        _gone(store, replace(passed, trigger=_LATER))
        assert put(store, replace(passed, trigger=_LATER)).completed_at == START

    def test_the_revision_remembered_may_be_passed(self, store: Store) -> None:
        last = _gone(store, _once())
        assert put(store, last).completed_at == START
        with pytest.raises(ConflictError) as caught:
            put(store, replace(last, revision=7))
        assert (caught.value.expected, caught.value.revision) == (7, last.revision)

    def test_all_that_is_remembered_can_be_read_at_once(self, store: Store) -> None:
        kept = {}
        for last in (_gone(store, _once(number)) for number in (1, 2)):
            assert last.revision is not None
            kept[last.id] = Tombstone(
                id=last.id,
                trigger=last.trigger,
                revision=last.revision,
                completed_at=START,
            )
        live, (one, _) = put(store, _once(3)), kept
        found = store.list_tombstones([*kept, live.id, NOBODY, one])
        assert len(found) == 2
        assert {each.id: each for each in found} == kept
        assert store.list_tombstones([]) == []

    def test_a_delete_forgets(self, store: Store) -> None:
        gone, over = _once(1), _once(2)
        _gone(store, gone)
        ended(store, over)
        assert store.delete_definitions([gone.id, over.id]) == {over.id: set()}
        clean_up(store)
        assert store.list_tombstones([gone.id, over.id]) == []
        again = store.put_definitions([gone, over])
        assert [each.completed_at for each in again] == [None, None]

    def test_ids_are_forgotten_when_they_were_completed_long_enough_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        ended(store, _once())
        clock.advance(MINUTE)
        assert clean_up(store, remember=HOUR) == 2
        clock.advance(HOUR - MINUTE - TICK)
        clean_up(store, remember=HOUR)
        assert put(store, _once()).completed_at == START
        clock.advance(TICK)
        clean_up(store, remember=HOUR)
        assert put(store, _once()).completed_at is None

    def test_of_too_many_those_that_ended_first_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.most_remembered = 2
        for number in (1, 2, 3, 4):
            ended(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store) == 8
        assert self.remembered(store, 4) == [3, 4]

    def test_at_most_limit_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        for number in (1, 2, 3):
            _gone(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store, remember=ZERO, limit=2) == 0
        every = [_once(number).id for number in range(6)]
        assert [each.id for each in store.list_tombstones(every)] == [_once(3).id]
        store.most_remembered = 1
        for number in (4, 5):
            ended(store, _once(number))
            clock.advance(MINUTE)
        assert clean_up(store, limit=2) == 2
        while clean_up(store, limit=1):
            assert len(store.list_tombstones(every)) < 3
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
