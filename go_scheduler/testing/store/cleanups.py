"""Store suite: ended instances and definitions are deleted; ids are remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, Skipped, TaskDefinition
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    TICK,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    check,
    definition,
    firing,
    ids,
    kept_by_store,
    revision_of,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.triggers.base import Trigger


_ONCE = ExecuteOnceTrigger(START)
_LATER = ExecuteOnceTrigger(START + HOUR)


def _once(number: int = 1, trigger: Trigger = _ONCE) -> TaskDefinition:
    """A definition with an id that the caller chose."""
    return definition(trigger=trigger, id=TaskDefinition.id_for(f"once {number}"))


def _gone(rig: Rig, new: TaskDefinition) -> TaskDefinition:
    """Let a definition run, end and be deleted; return it as it was stored last."""
    last = rig.read(rig.ended(new).definition)
    assert rig.clean_up() == 2
    return last


class CleanupTests(StoreTests):
    """``delete_finished``, and the ids that it leaves remembered."""

    def test_instances_go_when_they_ended_long_enough_ago(self, rig: Rig) -> None:
        for outcome in Outcome:
            self.of_a_live_definition(rig, outcome)
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        rig.fire(rig.put(), skipped=skipped, next_fire_time=START + YEAR)
        late = rig.running()
        rig.advance(HOUR - TICK)
        assert rig.clean_up(older_than=HOUR) == 0
        assert rig.finish(late)
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR) == len(Outcome) + 1
        assert ids(rig.store.select()) == [late.id]
        assert len(rig.store.select_definitions()) == len(Outcome) + 2

    def test_what_failed_has_a_time_of_its_own(self, rig: Rig) -> None:
        rig.ended(outcome=Outcome.FAILED)
        other, mended = rig.ended(), rig.ended(outcome=Outcome.FAILED)
        assert rig.finish(mended, Outcome.COMPLETED)
        assert rig.clean_up(older_than=HOUR, failed_older_than=ZERO) == 1
        assert {*ids(rig.store.select())} == {other.id, mended.id}
        rig.advance(HOUR)
        failed = rig.ended(outcome=Outcome.FAILED)
        longer = HOUR + TICK
        # Two instances, and the three definitions that have none left.
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 5
        assert ids(rig.store.select()) == [failed.id]
        rig.advance(HOUR)
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 0
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 2

    def test_what_has_not_ended_stays(self, rig: Rig) -> None:
        kept = [rig.waiting_for_retry(retry_in=MINUTE), rig.running()]
        kept += [rig.claimed(), rig.pending()]
        rig.advance(1000 * HOUR)
        assert rig.clean_up() == 0
        assert {each.id for each in rig.store.select()} == set(ids(kept))
        assert len(rig.store.select_definitions()) == len(kept)

    def test_a_completed_definition_without_instances_goes(self, rig: Rig) -> None:
        live_again = rig.put(definition(None))
        rig.edit(live_again, trigger=WAITING, next_fire_time=START)
        rig.put(definition(None))
        run = rig.running()
        rig.advance(HOUR - TICK)
        assert rig.clean_up(older_than=HOUR) == 0
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR) == 1
        left = {live_again.id, run.definition.id}
        assert {*ids(rig.store.select_definitions())} == left
        assert rig.finish(run)
        assert rig.clean_up(older_than=HOUR) == 0
        rig.advance(HOUR)
        assert rig.clean_up(older_than=HOUR) == 2
        assert ids(rig.store.select_definitions()) == [live_again.id]

    def test_at_most_limit_are_deleted_instances_first(self, rig: Rig) -> None:
        rig.put(definition(None))
        for outcome in (Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED):
            rig.ended(outcome=outcome)
        left = []
        for limit, deleted in ((1, 1), (1, 1), (3, 3), (4, 2)):
            assert rig.clean_up(limit=limit) == deleted
            left += [(len(rig.store.select()), len(rig.store.select_definitions()))]
        assert left == [(2, 4), (1, 4), (0, 2), (0, 0)]

    def test_a_fire_time_that_was_deleted_does_not_return(self, rig: Rig) -> None:
        instance = self.of_a_live_definition(rig)
        assert rig.clean_up() == 1
        assert rig.state_of(instance) is None
        before = replace(instance.definition, next_fire_time=START)
        assert rig.fire_steps(firing(before)) == []
        assert rig.store.select() == []

    @staticmethod
    def of_a_live_definition(
        rig: Rig, outcome: Outcome = Outcome.COMPLETED
    ) -> TaskInstance:
        """An ended instance of a definition that is still active."""
        read = rig.put()
        rig.fire(read, next_fire_time=START + YEAR)
        [instance] = rig.run_due(outcome)
        return rig.read(instance)

    def test_what_has_ended_does_not_run_again(self, rig: Rig) -> None:
        triggers = (_ONCE, IntervalTrigger(HOUR), WAITING)

        def anchored_now(name: str) -> list[TaskDefinition]:
            anchored = enumerate(each.anchored(rig.now()) for each in triggers)
            return [replace(_once(*each), name=name) for each in anchored]

        last = [_gone(rig, each) for each in anchored_now("first")]
        rig.advance(YEAR - TICK)
        rig.clean_up()
        # As at the next start of the program: what it counts from is another moment.
        again = anchored_now("other")
        *over, new = rig.store.put_definitions([*again, _once(7)]).definitions
        assert over == again
        assert [kept_by_store(each) for each in over] == [
            kept_by_store(replace(each, next_fire_time=None)) for each in last
        ]
        assert rig.store.select_definitions() == [new]
        assert rig.claim() == []
        with pytest.raises(TaskDefinitionNotFoundError):
            rig.read(again[0])

    def test_another_trigger_is_a_new_definition(self, rig: Rig) -> None:
        last = _gone(rig, _once())
        again = rig.put(_once(trigger=_LATER))
        assert (again.next_fire_time, again.completed_at) == (START, None)
        assert revision_of(again) > revision_of(last)
        assert rig.store.select_definitions() == [again]
        # It is remembered in the place of the former one, and not before its end.
        last = _gone(rig, again)
        assert rig.put(_once(trigger=_LATER)).revision == last.revision
        live = rig.put(_once())
        assert live.completed_at is None
        rig.delete(live)
        assert rig.put(_once(trigger=_LATER)).completed_at is None

    def test_only_an_id_that_was_passed_is_remembered(self, rig: Rig) -> None:
        made_up = TaskDefinition(trigger=_ONCE, next_fire_time=START)
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=START)
        _gone(rig, made_up)
        assert rig.put(passed).completed_at is None
        _gone(rig, passed)
        # Who made up the id cannot mean what is remembered.
        live = rig.put(made_up)
        assert (live.completed_at, live.named) == (None, False)
        other = rig.put(_once())
        named = {each.id: each.named for each in rig.store.select_definitions()}
        assert named == {live.id: False, other.id: True}
        assert rig.read(other).named

    def test_a_made_up_id_is_named_by_who_passes_it(self, rig: Rig) -> None:
        later = START + HOUR
        made_up = rig.put(TaskDefinition(trigger=_ONCE, next_fire_time=later))
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=later)
        named = rig.put(passed)
        assert named.named
        assert kept_by_store(named) == kept_by_store(made_up)
        assert rig.put(made_up).named
        edited = rig.edit(made_up, name="other")
        assert edited.named
        again = replace(edited, trigger=_LATER, next_fire_time=START, named=False)
        assert rig.put(replace(again, overdue=True)).named
        _gone(rig, replace(passed, trigger=_LATER))
        assert rig.edit(passed, trigger=_LATER).completed_at == START

    def test_the_revision_remembered_may_be_passed(self, rig: Rig) -> None:
        last = _gone(rig, _once())
        assert rig.put(last).completed_at == START
        with pytest.raises(ConflictError) as caught:
            rig.edit(last, revision=7)
        assert (caught.value.expected, caught.value.revision) == (7, last.revision)

    def test_all_that_is_remembered_can_be_read_at_once(self, rig: Rig) -> None:
        kept = {}
        for number in (1, 2):
            last = _gone(rig, _once(number))
            kept[last.id] = last
        live, (one, _) = rig.put(_once(3)), kept
        found = rig.store.list_tombstones([*kept, live.id, NOBODY, one])
        assert sorted(each.id for each in found) == sorted(kept)
        for each in found:
            last = kept[each.id]
            check(
                each, trigger=last.trigger, revision=last.revision, completed_at=START
            )
        assert rig.store.list_tombstones([]) == []

    def test_a_delete_forgets(self, rig: Rig) -> None:
        gone, over = _once(1), _once(2)
        _gone(rig, gone)
        rig.ended(over)
        assert rig.delete(gone, over) == {over.id: set()}
        rig.clean_up()
        assert rig.store.list_tombstones([gone.id, over.id]) == []
        again = rig.store.put_definitions([gone, over]).definitions
        assert [each.completed_at for each in again] == [None, None]

    def test_no_cleanup_forgets_the_revision_of_a_delete_too_soon(
        self, rig: Rig
    ) -> None:
        old = [rig.put(), rig.ended().definition]
        rig.advance(MINUTE)
        old = [rig.edit(each, name="other", revision=None) for each in old]
        rig.delete(*old)
        rig.advance(HOUR - TICK)
        # The instance ended earlier than its definition was deleted.
        assert rig.clean_up(older_than=HOUR, failed_older_than=ZERO) == 1
        for each in old:
            again = rig.put(replace(each, revision=None))
            assert revision_of(again) > revision_of(each)

    def test_ids_are_forgotten_after_their_time(self, rig: Rig) -> None:
        rig.ended(_once())
        rig.advance(MINUTE)
        assert rig.clean_up(remember=HOUR) == 2
        rig.advance(HOUR - MINUTE - TICK)
        rig.clean_up(remember=HOUR)
        assert rig.put(_once()).completed_at == START
        rig.advance(TICK)
        rig.clean_up(remember=HOUR)
        assert rig.put(_once()).completed_at is None

    def test_of_too_many_those_that_ended_first_are_forgotten(self, rig: Rig) -> None:
        rig.store.most_remembered = 2
        for number in (1, 2, 3, 4):
            rig.ended(_once(number))
            rig.advance(MINUTE)
        assert rig.clean_up() == 8
        assert self.remembered(rig, 4) == [3, 4]

    def test_at_most_limit_are_forgotten(self, rig: Rig) -> None:
        for number in (1, 2, 3):
            _gone(rig, _once(number))
            rig.advance(MINUTE)
        assert rig.clean_up(remember=ZERO, limit=2) == 0
        every = [_once(number).id for number in range(6)]
        assert [each.id for each in rig.store.list_tombstones(every)] == [_once(3).id]
        rig.store.most_remembered = 1
        for number in (4, 5):
            rig.ended(_once(number))
            rig.advance(MINUTE)
        assert rig.clean_up(limit=2) == 2
        while rig.clean_up(limit=1):
            assert len(rig.store.list_tombstones(every)) < 3
        assert self.remembered(rig, 5) == [5]

    @staticmethod
    def remembered(rig: Rig, most: int) -> Sequence[int]:
        """The numbers of the definitions that do not run again."""
        put_again = {number: rig.put(_once(number)) for number in range(1, most + 1)}
        return [
            number
            for number, each in put_again.items()
            if each.completed_at is not None and rig.instances(each) == []
        ]
