"""The rules of the store machine that read what a store tells of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from go_scheduler.models import DefinitionState, State, TaskDefinition, TaskInstance
from go_scheduler.stores.messages import Announcement, Position
from go_scheduler.stores.slots import LOCK
from go_scheduler.testing.machine.drawn import (
    ALL,
    ALL_IDS,
    EXCLUSIONS,
    QUEUES,
    ids,
    nodes,
    offsets,
    seconds,
)
from go_scheduler.testing.machine.pair import StorePair
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store

_ANY = UUID(int=0)
SLOTS = (
    *map(str, ALL_IDS),
    *(LOCK + lock for _, lock in EXCLUSIONS if lock is not None),
)


class ReadingRules(StorePair):
    """Nodes look for each other and for what is due; somebody reads lists."""

    @rule(node=nodes, unbroken=seconds, within=seconds)
    def contact(self, node: UUID, unbroken: timedelta, within: timedelta) -> None:
        """A node tells that it has been in contact, and looks which others were."""

        def tell(store: Store) -> object:
            announced = Announcement(
                node=node,
                host=f"host of {node}",
                queues=(str(unbroken),),
                stopping=bool(unbroken),
            )
            store.note_contact(announced, unbroken=unbroken)
            return {each.announced: each for each in store.list_contacts(within=within)}

        self._alike(tell)

    @rule(known=st.sets(st.sampled_from(QUEUES)))
    def due_queues(self, known: set[str]) -> None:
        """Somebody looks where something is due, but for queues that are known."""

        def look(store: Store) -> object:
            settle(store)
            found = set(known)
            while more := store.list_due_queues(apart_from=found):
                assert found.isdisjoint(more)
                found.update(more)
            return found

        self._alike(look)

    @rule(name=st.sampled_from("ab"), value=st.sampled_from(["", "1", "ä"]))
    def keep_setting(self, name: str, value: str) -> None:
        """Somebody asks what all have agreed on."""
        self._alike(lambda store: store.keep_setting(name, value))

    @rule()
    def list_runs(self) -> None:
        """Somebody looks how the runs of instances ended."""

        def read(store: Store) -> object:
            return {
                str(self._known(store, each)): [
                    (
                        run.attempt,
                        run.node,
                        run.started_at,
                        run.ended_at,
                        run.outcome,
                        run.error,
                        run.worker,
                        run.lost_in,
                    )
                    for run in store.list_runs(each.id)
                ]
                for each in store.list_instances(limit=ALL)
            }

        self._alike(read)

    @rule(
        queue=st.none() | st.sampled_from(QUEUES),
        state=st.none() | st.sampled_from(DefinitionState),
        soonest_first=st.booleans(),
        limit=st.integers(1, 3),
    )
    def list_definitions(self, *, limit: int, **conditions: Any) -> None:
        """Somebody pages through definitions; they and their order are the same."""

        def read(store: Store) -> object:
            found: list[TaskDefinition] = []
            after = None
            while page := store.list_definitions(
                after=after, limit=limit, **conditions
            ):
                found += page
                after = Position.of_definition(page[-1])
            return [self._definition(store, each) for each in found]

        self._alike(read)

    @rule(
        definition_id=st.none() | ids,
        state=st.none() | st.sampled_from(State),
        since=st.none() | offsets,
        fired_since=st.none() | offsets,
        newest_first=st.booleans(),
        limit=st.integers(1, 3),
    )
    def list_instances(
        self,
        *,
        since: timedelta | None,
        fired_since: timedelta | None,
        newest_first: bool,
        limit: int,
        **conditions: Any,
    ) -> None:
        """Somebody pages through instances, which each store orders by its own ids."""
        for name, offset in (("since", since), ("fired_since", fired_since)):
            if offset is not None:
                conditions[name] = self.clock.now() + offset

        def read(store: Store) -> object:
            found: list[TaskInstance] = []
            after = None
            while page := store.list_instances(
                newest_first=newest_first, after=after, limit=limit, **conditions
            ):
                found += page
                after = Position.of_instance(page[-1])
            order = [(each.execute_at, each.id) for each in found]
            assert order == sorted(order, reverse=newest_first), f"no order: {order}"
            return sorted(str(self._known(store, each)) for each in found)

        self._alike(read)

    @rule(slot=st.sampled_from(SLOTS))
    def slot_holder(self, slot: str) -> None:
        """Somebody asks who has a slot."""

        def read(store: Store) -> object:
            found = store.slot_holder(slot)
            return None if found is None else self._known(store, found)

        self._alike(read)
