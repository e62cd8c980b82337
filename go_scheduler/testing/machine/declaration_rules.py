"""The rule of the store machine that declares sets of definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition
from go_scheduler.stores.declared import Declaration, Removed
from go_scheduler.testing.machine.drawn import ALL, TRIGGERS, fires_first, ids
from go_scheduler.testing.machine.pair import StorePair, revision_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from go_scheduler.stores.base import Store
    from go_scheduler.triggers.base import Trigger


class DeclarationRules(StorePair):
    """Sets are declared, by two owners."""

    @rule(
        triggers=st.dictionaries(ids, st.sampled_from(TRIGGERS), max_size=3),
        owner=st.sampled_from(["one", "other"]),
        version=st.none() | st.integers(0, 2),
        removed=st.sampled_from(get_args(Removed)),
        adopts=st.booleans(),
    )
    def declare(
        self,
        triggers: Mapping[UUID, Trigger],
        owner: str,
        version: int | None,
        removed: Removed,
        adopts: bool,
    ) -> None:
        """A set is declared, or refused, or comes too late."""
        now = self.clock.now()
        new = [
            TaskDefinition(
                id=id,
                trigger=each.anchored(now),
                next_fire_time=fires_first(each, now),
            )
            for id, each in triggers.items()
        ]
        declaration = Declaration(
            owner=owner,
            definitions=new,
            version=version,
            removed=removed,
            adopts=adopts,
        )
        # They allow runs beside each other, which may go on after a later put.
        self._loosened |= triggers.keys()
        stored = {each.id for each in self._stored()}
        begin = triggers.keys() - stored
        for each in begin:
            self._lives.pop(each, None)

        def declare(store: Store) -> object:
            before = {each.id: each for each in store.list_definitions(limit=ALL)}
            try:
                declared = store.declare_definitions(declaration)
            except ConfigurationError:
                return "refused"
            for gone in declared.deleted:
                revision = revision_of(before[gone])
                self._deleted[store is self.oracle, gone] = revision
            for each in declared.definitions:
                if each.id in begin:
                    self._begin(store, each)
            return (
                [self._definition(store, each) for each in declared.definitions],
                {each.id for each in declared.resumed},
                {each.id for each in declared.paused},
                set(declared.deleted),
                declared.outdated_by,
            )

        self._alike(declare)
        for put_one in new:
            self._note_made(put_one.id)
