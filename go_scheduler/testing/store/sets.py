"""Store suite: declared sets of definitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from go_scheduler.errors import ConfigurationError, ConflictError
from go_scheduler.models import State, TaskDefinition
from go_scheduler.stores.messages import Position
from go_scheduler.stores.rules import Declaration, Declared, Removed, removal_note
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    definition,
    ids,
    kept_by_store,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

THREADS = 6
APP, OTHER_APP = "app", "another app"
ONE, TWO, THREE = (definition(key=number) for number in (1, 2, 3))


def declare(
    rig: Rig,
    *definitions: TaskDefinition,
    owner: str = APP,
    version: int | None = None,
    removed: Removed = "delete",
    adopts: bool = False,
) -> Declared:
    """Declare a set."""
    declared = rig.store.declare_definitions(
        Declaration(
            owner=owner,
            definitions=definitions,
            version=version,
            removed=removed,
            adopts=adopts,
        )
    )
    # Stores may answer with any kind of sequence.
    return replace(
        declared,
        definitions=[*declared.definitions],
        resumed=[*declared.resumed],
        deleted={*declared.deleted},
        paused=[*declared.paused],
    )


def _try(rig: Rig, wanted: TaskDefinition, owner: str, adopts: bool) -> str | None:
    """Declare a definition; answer its owner, or None if the store refuses."""
    try:
        [declared] = declare(rig, wanted, owner=owner, adopts=adopts).definitions
    except ConfigurationError:
        return None
    return declared.owner


def owned(rig: Rig, owner: str = APP) -> list[UUID]:
    """The ids of what is in a set, in their order."""
    return [each.id for each in rig.store.list_definitions(owner=owner)]


class SetTests(StoreTests):
    """``declare_definitions``."""

    def test_what_is_declared_is_put_and_has_its_owner(self, rig: Rig) -> None:
        declared = declare(rig, TWO, ONE)
        assert (declared.definitions, declared.outdated_by) == ([TWO, ONE], None)
        assert [declared.resumed, declared.deleted, declared.paused] == [[], set(), []]
        assert [each.owner for each in declared.definitions] == [APP, APP]
        assert [each.revision for each in declared.definitions] == [1, 1]
        assert rig.read(ONE).owner == APP
        assert rig.read(ONE).next_fire_time == START
        assert ids(rig.store.due_definitions(ahead=MINUTE, limit=10)) == [
            ONE.id,
            TWO.id,
        ]
        [instance] = rig.fire(rig.read(ONE))
        assert instance.definition.owner == APP
        assert rig.claim()[0].definition.owner == APP

    def test_lists_and_counts_by_some_owners_and_queues(self, rig: Rig) -> None:
        mine = [definition(key=each, queue=str(each % 3)) for each in range(1, 8)]
        declare(rig, *mine)
        declare(rig, definition(key=8, queue="1"), owner=OTHER_APP)
        rig.put(definition(key=9, queue="1"))
        for each in rig.store.list_definitions():
            rig.fire(each)

        def listed(**conditions: Any) -> list[int]:
            found: list[int] = []
            after = None
            while page := rig.store.list_definitions(
                **conditions, after=after, limit=2
            ):
                found += [each.id.int for each in page]
                after = Position.of_definition(page[-1])
            instances = rig.store.list_instances(**conditions)
            assert {each.definition.id.int for each in instances} == {*found}
            assert rig.store.counts(**conditions)[State.PENDING] == len(found)
            return found

        assert listed(owners={APP}) == [1, 2, 3, 4, 5, 6, 7]
        assert listed(owners={APP, OTHER_APP}, queues=["1"]) == [1, 4, 7, 8]
        assert listed(queues=["1", "2", "of nobody"]) == [1, 2, 4, 5, 7, 8, 9]
        assert listed(owners=()) == listed(queues=()) == []
        last = Position.of_definition(rig.read(ONE))
        soonest = rig.store.list_definitions(
            owners={APP}, queues={"1"}, soonest_first=True, after=last, limit=1
        )
        assert [each.id.int for each in soonest] == [4]

    def test_instances_of_a_deleted_one_keep_owner_and_queue(self, rig: Rig) -> None:
        declare(rig, ONE)
        left = rig.running(ONE)
        declare(rig)
        for queues, owners, count in (({ONE.queue}, {APP}, 1), ({"x"}, None, 0)):
            found = rig.store.list_instances(queues=queues, owners=owners)
            assert ids(found) == [left.id] * count
            counts = rig.store.counts(queues=queues, owners=owners)
            assert counts[State.CANCELLED] == count

    def test_the_same_again_changes_nothing(self, rig: Rig) -> None:
        first = declare(rig, ONE, TWO)
        again = declare(rig, ONE, TWO)
        assert again == first
        assert [kept_by_store(each) for each in again.definitions] == [
            kept_by_store(each) for each in first.definitions
        ]

    def test_what_is_no_longer_declared_is_deleted(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        run = rig.running(TWO)
        declared = declare(rig, ONE)
        assert declared.deleted == {TWO.id, THREE.id}
        assert (declared.paused, declared.resumed) == ([], [])
        assert owned(rig) == ids(rig.store.list_definitions()) == [ONE.id]
        assert rig.read(run).state is State.CANCELLED

    def test_what_is_declared_no_more_may_be_paused(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        later = START + HOUR
        rig.fire(rig.read(TWO), later)
        declared = declare(rig, ONE, removed="pause")
        assert declared.deleted == set()
        assert declared.paused == [TWO]
        [paused] = declared.paused
        assert kept_by_store(paused) == (later, True, removal_note(APP), None, 2)
        assert kept_by_store(rig.read(TWO)) == kept_by_store(paused)
        assert owned(rig) == [ONE.id, TWO.id]
        assert rig.store.list_instances() == []
        assert declare(rig, ONE, removed="pause").paused == []

    def test_what_is_declared_no_more_may_be_kept(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        kept = declare(rig, TWO, removed="keep")
        assert (kept.deleted, kept.paused) == (set(), [])
        assert declare(rig, THREE, version=3, removed="keep").definitions == [THREE]
        assert owned(rig) == [ONE.id, TWO.id, THREE.id]
        assert kept_by_store(rig.read(ONE))[-1] == 1
        outdated = declare(rig, ONE, version=2, removed="keep")
        assert (outdated.outdated_by, outdated.definitions) == (3, [])
        assert declare(rig, ONE, version=3).deleted == {TWO.id, THREE.id}

    def test_a_removed_definition_resumes_if_declared_again(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        declare(rig, ONE, removed="pause")
        declared = declare(rig, ONE, TWO)
        assert declared.deleted == {THREE.id}
        assert declared.resumed == [TWO]
        assert [each.paused for each in declared.definitions] == [False, False]
        assert kept_by_store(declared.definitions[1]) == (START, False, None, None, 3)
        assert kept_by_store(rig.read(TWO)) == kept_by_store(declared.resumed[0])

    def test_what_is_paused_by_hand_stays_so(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        rig.store.pause_definitions([ONE.id, TWO.id], note="by hand")
        assert declare(rig, ONE, removed="pause").paused == []
        declared = declare(rig, ONE, TWO)
        assert declared.resumed == []
        assert {each.note for each in declared.definitions} == {"by hand"}
        assert all(each.paused for each in rig.store.list_definitions())

    def test_what_is_declared_otherwise_is_edited(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        other = replace(ONE, trigger=IntervalTrigger(2 * HOUR, anchor=START))
        declared = declare(rig, other, replace(TWO, name="b"), THREE)
        assert [each.revision for each in declared.definitions] == [2, 2, 1]
        assert rig.read(ONE).trigger == other.trigger
        assert rig.read(TWO).name == "b"
        assert owned(rig) == [ONE.id, TWO.id, THREE.id]

    def test_what_has_ended_before_does_not_run_again(self, rig: Rig) -> None:
        once = replace(ONE, trigger=ExecuteOnceTrigger(START))
        declare(rig, once)
        rig.ended(once)
        rig.clean_up()
        [over] = declare(rig, once).definitions
        assert over.completed_at is not None
        assert over.owner is None
        assert rig.store.list_definitions() == []

    def test_a_lower_version_changes_nothing(self, rig: Rig) -> None:
        assert declare(rig, ONE, version=2).outdated_by is None
        for version in (1, 0, None):
            outdated = declare(rig, TWO, version=version)
            assert (outdated.outdated_by, outdated.definitions) == (2, [])
        # An outdated declaration is not checked for other reasons to refuse it.
        rig.put(THREE)
        assert declare(rig, THREE, version=1).outdated_by == 2
        assert owned(rig) == [ONE.id]

    def test_the_same_version_and_a_higher_one_count(self, rig: Rig) -> None:
        declare(rig, ONE)
        assert declare(rig, TWO, version=0).deleted == {ONE.id}
        assert declare(rig, ONE, version=0).deleted == {TWO.id}
        assert declare(rig, TWO, version=2**63 - 1).deleted == {ONE.id}
        assert declare(rig, ONE, version=7).outdated_by == 2**63 - 1

    def test_an_empty_set_keeps_its_version(self, rig: Rig) -> None:
        declare(rig, ONE, version=7)
        assert declare(rig, TWO, version=1, owner=OTHER_APP).definitions == [TWO]
        declare(rig, version=7)
        rig.advance(YEAR)
        rig.clean_up()
        assert declare(rig, ONE, version=6).outdated_by == 7

    def test_an_id_that_is_there_twice_is_refused(self, rig: Rig) -> None:
        with pytest.raises(ConfigurationError, match="is there twice"):
            declare(rig, ONE, replace(ONE, name="b"))
        assert rig.store.list_definitions() == []

    def test_what_is_not_at_its_revision_is_a_conflict_of_all(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, version=1)
        stale = replace(ONE, name="b", revision=5)
        with pytest.raises(ConflictError):
            declare(rig, stale, THREE, version=2)
        assert owned(rig) == [ONE.id, TWO.id]
        assert declare(rig, ONE, TWO, version=1).outdated_by is None

    def test_of_concurrent_sets_one_is_there_as_a_whole(self, rig: Rig) -> None:
        sets = [
            [definition(key=number), definition(key=number + 1, name=str(number))]
            for number in range(1, THREADS + 1)
        ]
        at_once(*(partial(declare, rig, *each) for each in sets))
        found = rig.store.list_definitions(owner=APP)
        assert found in sets
        assert rig.store.list_definitions() == found

    def test_of_versions_declared_at_once_the_highest_is_there(self, rig: Rig) -> None:
        at_once(
            *(
                partial(declare, rig, definition(key=number), ONE, version=number)
                for number in range(2, THREADS + 2)
            )
        )
        assert owned(rig) == [ONE.id, UUID(int=THREADS + 1)]

    def test_what_several_owners_declare_at_once_one_has(self, rig: Rig) -> None:
        for key, adopts in ((1, True), (2, True), (3, False), (4, False)):
            wanted = definition(key=key)
            if adopts:
                rig.put(wanted)
            owners = [f"app {number}" for number in range(THREADS)]
            told = at_once(
                *(partial(_try, rig, wanted, each, adopts) for each in owners)
            )
            [owner] = [each for each in told if each is not None]
            assert rig.read(wanted).owner == owner
