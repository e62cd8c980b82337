"""Store suite: whose a definition is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.testing.builders import (
    HOUR,
    definition,
    kept_by_store,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.sets import (
    APP,
    ONE,
    OTHER_APP,
    THREE,
    TWO,
    declare,
    owned,
)
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


class OwnerTests:
    """A definition is of one set, or of none."""

    def test_sets_of_others_and_what_is_in_none_stay(self, store: Store) -> None:
        free = put(store)
        declare(store, ONE, owner=OTHER_APP)
        declare(store, TWO)
        assert declare(store).deleted == {TWO.id}
        assert owned(store, OTHER_APP) == [ONE.id]
        assert {each.id for each in store.list_definitions()} == {free.id, ONE.id}

    def test_an_id_of_another_owner_is_refused_with_all(self, store: Store) -> None:
        declare(store, ONE, owner=OTHER_APP)
        declare(store, TWO, version=1)
        for adopts in (False, True):
            with pytest.raises(ConfigurationError, match="the set of 'another app'"):
                declare(store, THREE, ONE, version=2, adopts=adopts)
        assert owned(store) == [TWO.id]
        assert owned(store, OTHER_APP) == [ONE.id]
        assert declare(store, TWO, version=1).outdated_by is None

    def test_what_its_set_has_paused_another_owner_may_take(self, store: Store) -> None:
        declare(store, ONE, TWO)
        declare(store, TWO, removed="pause")
        taken = declare(store, ONE, owner=OTHER_APP)
        assert taken.resumed == [ONE]
        assert kept_by_store(taken.definitions[0]) == (START, False, None, None, 3)
        assert taken.definitions[0].owner == OTHER_APP
        assert owned(store, OTHER_APP) == [ONE.id]
        assert declare(store).deleted == {TWO.id}
        with pytest.raises(ConfigurationError, match="the set of 'another app'"):
            declare(store, ONE)
        assert store.list_definitions() == [ONE]

    def test_what_is_paused_by_hand_is_taken_only_once_it_is_deleted(
        self, store: Store
    ) -> None:
        declare(store, ONE)
        store.pause_definitions([ONE.id], note="by hand")
        declare(store, removed="pause")
        with pytest.raises(ConfigurationError, match="or delete it, before 'another"):
            declare(store, ONE, owner=OTHER_APP)
        [again] = declare(store, ONE).definitions
        assert (again.paused, again.note) == (True, "by hand")
        store.delete_definitions([ONE.id])
        assert not declare(store, ONE, owner=OTHER_APP).definitions[0].paused

    def test_an_id_of_none_is_refused_unless_it_is_adopted(self, store: Store) -> None:
        put(store, ONE)
        with pytest.raises(ConfigurationError, match=r"no declared set: adopt=True"):
            declare(store, ONE, TWO)
        assert owned(store) == []
        assert store.list_definitions() == [ONE]
        [adopted, _] = declare(store, ONE, TWO, adopts=True).definitions
        assert (adopted.owner, adopted.revision) == (APP, 1)
        assert owned(store) == [ONE.id, TWO.id]
        assert declare(store).deleted == {ONE.id, TWO.id}

    def test_what_is_adopted_may_be_changed_by_that(self, store: Store) -> None:
        put(store, ONE)
        put(store, TWO)
        other = replace(TWO, trigger=IntervalTrigger(2 * HOUR, anchor=START))
        changed = declare(store, replace(ONE, name="b"), other, adopts=True)
        assert [each.owner for each in changed.definitions] == [APP, APP]
        assert [each.revision for each in changed.definitions] == [2, 2]
        assert owned(store) == [ONE.id, TWO.id]

    def test_a_put_keeps_the_owner_and_gives_none(self, store: Store) -> None:
        declare(store, ONE)
        for each in (
            ONE,
            replace(ONE, name="b", owner=OTHER_APP),
            replace(ONE, trigger=IntervalTrigger(2 * HOUR, anchor=START), owner=None),
        ):
            assert put(store, each).owner == APP
        assert put(store, replace(TWO, owner=OTHER_APP)).owner is None
        store.put_definitions([replace(THREE, owner=APP), definition(key=4)])
        assert owned(store) == [ONE.id]
        assert owned(store, OTHER_APP) == []

    def test_an_id_that_was_deleted_is_in_no_set_any_more(self, store: Store) -> None:
        declare(store, ONE)
        store.delete_definitions([ONE.id])
        assert owned(store) == []
        [again] = declare(store, ONE, owner=OTHER_APP).definitions
        assert (again.owner, owned(store)) == (OTHER_APP, [])
        assert again.revision is not None
        assert again.revision > 1
        assert declare(store).deleted == set()
