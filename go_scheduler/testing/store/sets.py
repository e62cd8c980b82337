"""Store suite: declared sets of definitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
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
    at_once,
    claim,
    clean_up,
    definition,
    ended,
    fire,
    ids,
    kept_by_store,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

THREADS = 6
APP, OTHER_APP = "app", "another app"
ONE, TWO, THREE = (definition(key=number) for number in (1, 2, 3))


def declare(
    store: Store,
    *definitions: TaskDefinition,
    owner: str = APP,
    version: int | None = None,
    removed: Removed = "delete",
    adopts: bool = False,
) -> Declared:
    """Declare a set."""
    declared = store.declare_definitions(
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


def _try(store: Store, wanted: TaskDefinition, owner: str, adopts: bool) -> str | None:
    """Declare a definition; answer its owner, or None if the store refuses."""
    try:
        [declared] = declare(store, wanted, owner=owner, adopts=adopts).definitions
    except ConfigurationError:
        return None
    return declared.owner


def owned(store: Store, owner: str = APP) -> list[UUID]:
    """The ids of what is in a set, in their order."""
    return [each.id for each in store.list_definitions(owner=owner)]


class SetTests:
    """``declare_definitions``."""

    def test_what_is_declared_is_put_and_has_its_owner(self, store: Store) -> None:
        declared = declare(store, TWO, ONE)
        assert (declared.definitions, declared.outdated_by) == ([TWO, ONE], None)
        assert [declared.resumed, declared.deleted, declared.paused] == [[], set(), []]
        assert [each.owner for each in declared.definitions] == [APP, APP]
        assert [each.revision for each in declared.definitions] == [1, 1]
        assert store.get_definition(ONE.id).owner == APP
        assert store.get_definition(ONE.id).next_fire_time == START
        assert ids(store.due_definitions(ahead=MINUTE, limit=10)) == [ONE.id, TWO.id]
        [instance] = fire(store, store.get_definition(ONE.id))
        assert instance.definition.owner == APP
        assert claim(store)[0].definition.owner == APP

    def test_lists_and_counts_by_some_owners_and_queues(self, store: Store) -> None:
        mine = [definition(key=each, queue=str(each % 3)) for each in range(1, 8)]
        declare(store, *mine)
        declare(store, definition(key=8, queue="1"), owner=OTHER_APP)
        put(store, definition(key=9, queue="1"))
        for each in store.list_definitions():
            fire(store, each)

        def listed(**conditions: Any) -> list[int]:
            found: list[int] = []
            after = None
            while page := store.list_definitions(**conditions, after=after, limit=2):
                found += [each.id.int for each in page]
                after = Position.of_definition(page[-1])
            instances = store.list_instances(**conditions)
            assert {each.definition.id.int for each in instances} == {*found}
            assert store.counts(**conditions)[State.PENDING] == len(found)
            return found

        assert listed(owners={APP}) == [1, 2, 3, 4, 5, 6, 7]
        assert listed(owners={APP, OTHER_APP}, queues=["1"]) == [1, 4, 7, 8]
        assert listed(queues=["1", "2", "of nobody"]) == [1, 2, 4, 5, 7, 8, 9]
        assert listed(owners=()) == listed(queues=()) == []
        last = Position.of_definition(store.get_definition(ONE.id))
        soonest = store.list_definitions(
            owners={APP}, queues={"1"}, soonest_first=True, after=last, limit=1
        )
        assert [each.id.int for each in soonest] == [4]

    def test_what_is_left_of_a_deleted_one_has_its_owner_and_queue(
        self, store: Store
    ) -> None:
        declare(store, ONE)
        left = running(store, ONE)
        declare(store)
        for queues, owners, count in (({ONE.queue}, {APP}, 1), ({"x"}, None, 0)):
            found = store.list_instances(queues=queues, owners=owners)
            assert ids(found) == [left.id] * count
            counts = store.counts(queues=queues, owners=owners)
            assert counts[State.CANCELLED] == count

    def test_the_same_again_changes_nothing(self, store: Store) -> None:
        first = declare(store, ONE, TWO)
        again = declare(store, ONE, TWO)
        assert again == first
        assert [kept_by_store(each) for each in again.definitions] == [
            kept_by_store(each) for each in first.definitions
        ]

    def test_what_is_declared_no_more_is_deleted_as_by_any_delete(
        self, store: Store
    ) -> None:
        declare(store, ONE, TWO, THREE)
        run = running(store, TWO)
        declared = declare(store, ONE)
        assert declared.deleted == {TWO.id, THREE.id}
        assert (declared.paused, declared.resumed) == ([], [])
        assert owned(store) == ids(store.list_definitions()) == [ONE.id]
        assert store.get_instance(run.id).state is State.CANCELLED

    def test_what_is_declared_no_more_may_be_paused(self, store: Store) -> None:
        declare(store, ONE, TWO)
        later = START + HOUR
        fire(store, store.get_definition(TWO.id), later)
        declared = declare(store, ONE, removed="pause")
        assert declared.deleted == set()
        assert declared.paused == [TWO]
        [paused] = declared.paused
        assert kept_by_store(paused) == (later, True, removal_note(APP), None, 2)
        assert kept_by_store(store.get_definition(TWO.id)) == kept_by_store(paused)
        assert owned(store) == [ONE.id, TWO.id]
        assert store.list_instances() == []
        assert declare(store, ONE, removed="pause").paused == []

    def test_what_is_declared_no_more_may_be_kept(self, store: Store) -> None:
        declare(store, ONE, TWO)
        kept = declare(store, TWO, removed="keep")
        assert (kept.deleted, kept.paused) == (set(), [])
        assert declare(store, THREE, version=3, removed="keep").definitions == [THREE]
        assert owned(store) == [ONE.id, TWO.id, THREE.id]
        assert kept_by_store(store.get_definition(ONE.id))[-1] == 1
        outdated = declare(store, ONE, version=2, removed="keep")
        assert (outdated.outdated_by, outdated.definitions) == (3, [])
        assert declare(store, ONE, version=3).deleted == {TWO.id, THREE.id}

    def test_what_its_set_has_paused_goes_on_when_it_is_declared_again(
        self, store: Store
    ) -> None:
        declare(store, ONE, TWO, THREE)
        declare(store, ONE, removed="pause")
        declared = declare(store, ONE, TWO)
        assert declared.deleted == {THREE.id}
        assert declared.resumed == [TWO]
        assert [each.paused for each in declared.definitions] == [False, False]
        assert kept_by_store(declared.definitions[1]) == (START, False, None, None, 3)
        assert kept_by_store(store.get_definition(TWO.id)) == kept_by_store(
            declared.resumed[0]
        )

    def test_what_is_paused_by_hand_stays_so(self, store: Store) -> None:
        declare(store, ONE, TWO)
        store.pause_definitions([ONE.id, TWO.id], note="by hand")
        assert declare(store, ONE, removed="pause").paused == []
        declared = declare(store, ONE, TWO)
        assert declared.resumed == []
        assert {each.note for each in declared.definitions} == {"by hand"}
        assert all(each.paused for each in store.list_definitions())

    def test_what_is_declared_otherwise_is_edited(self, store: Store) -> None:
        declare(store, ONE, TWO, THREE)
        other = replace(ONE, trigger=IntervalTrigger(2 * HOUR, anchor=START))
        declared = declare(store, other, replace(TWO, name="b"), THREE)
        assert [each.revision for each in declared.definitions] == [2, 2, 1]
        assert store.get_definition(ONE.id).trigger == other.trigger
        assert store.get_definition(TWO.id).name == "b"
        assert owned(store) == [ONE.id, TWO.id, THREE.id]

    def test_what_has_ended_before_does_not_run_again(self, store: Store) -> None:
        once = replace(ONE, trigger=ExecuteOnceTrigger(START))
        declare(store, once)
        ended(store, once)
        clean_up(store)
        [over] = declare(store, once).definitions
        assert over.completed_at is not None
        assert over.owner is None
        assert store.list_definitions() == []

    def test_a_lower_version_changes_nothing(self, store: Store) -> None:
        assert declare(store, ONE, version=2).outdated_by is None
        for version in (1, 0, None):
            outdated = declare(store, TWO, version=version)
            assert (outdated.outdated_by, outdated.definitions) == (2, [])
        # An outdated declaration is not checked for other reasons to refuse it.
        put(store, THREE)
        assert declare(store, THREE, version=1).outdated_by == 2
        assert owned(store) == [ONE.id]

    def test_the_same_version_and_a_higher_one_count(self, store: Store) -> None:
        declare(store, ONE)
        assert declare(store, TWO, version=0).deleted == {ONE.id}
        assert declare(store, ONE, version=0).deleted == {TWO.id}
        assert declare(store, TWO, version=2**63 - 1).deleted == {ONE.id}
        assert declare(store, ONE, version=7).outdated_by == 2**63 - 1

    def test_an_owner_keeps_its_own_version_when_nothing_is_left(
        self, store: Store, clock: ManualClock
    ) -> None:
        declare(store, ONE, version=7)
        assert declare(store, TWO, version=1, owner=OTHER_APP).definitions == [TWO]
        declare(store, version=7)
        clock.advance(YEAR)
        clean_up(store)
        assert declare(store, ONE, version=6).outdated_by == 7

    def test_an_id_that_is_there_twice_is_refused(self, store: Store) -> None:
        with pytest.raises(ConfigurationError, match="is there twice"):
            declare(store, ONE, replace(ONE, name="b"))
        assert store.list_definitions() == []

    def test_what_is_not_at_its_revision_is_a_conflict_of_all(
        self, store: Store
    ) -> None:
        declare(store, ONE, TWO, version=1)
        stale = replace(ONE, name="b", revision=5)
        with pytest.raises(ConflictError):
            declare(store, stale, THREE, version=2)
        assert owned(store) == [ONE.id, TWO.id]
        assert declare(store, ONE, TWO, version=1).outdated_by is None

    def test_of_sets_declared_at_once_the_last_is_there_as_a_whole(
        self, store: Store
    ) -> None:
        sets = [
            [definition(key=number), definition(key=number + 1, name=str(number))]
            for number in range(1, THREADS + 1)
        ]
        at_once(*(partial(declare, store, *each) for each in sets))
        found = store.list_definitions(owner=APP)
        assert found in sets
        assert store.list_definitions() == found

    def test_of_versions_declared_at_once_the_highest_is_there(
        self, store: Store
    ) -> None:
        at_once(
            *(
                partial(declare, store, definition(key=number), ONE, version=number)
                for number in range(2, THREADS + 2)
            )
        )
        assert owned(store) == [ONE.id, UUID(int=THREADS + 1)]

    def test_what_several_owners_declare_at_once_one_has(self, store: Store) -> None:
        for key, adopts in ((1, True), (2, True), (3, False), (4, False)):
            wanted = definition(key=key)
            if adopts:
                put(store, wanted)
            owners = [f"app {number}" for number in range(THREADS)]
            told = at_once(
                *(partial(_try, store, wanted, each, adopts) for each in owners)
            )
            [owner] = [each for each in told if each is not None]
            assert store.get_definition(wanted.id).owner == owner
