"""The rule of the store machine that adds instances."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.machine.drawn import QUEUES, ids, nodes, offsets, seconds
from go_scheduler.testing.machine.pair import StorePair, seen_of

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.stores.base import Store

_FIRST_ID = 1_000_000


class AdditionRules(StorePair):
    """Instances are added that are no fire times'."""

    @rule(
        definition_id=ids,
        keys=st.lists(st.sampled_from([None, None, "a", "b"]), max_size=3),
        offset=st.none() | offsets,
        delay=seconds,
        node=st.none() | nodes,
    )
    def add(
        self,
        definition_id: UUID,
        keys: list[str | None],
        offset: timedelta | None,
        delay: timedelta,
        node: UUID | None,
    ) -> None:
        """Some are added to a definition, to which perhaps keys are known.

        Perhaps for a node that starts what it can.
        """
        additions = [
            Addition(
                id=UUID(int=_FIRST_ID + len(self._added) + number),
                at=None if offset is None else self.clock.now() + offset,
                delay=delay,
                payload={"number": number} if number else None,
                key=key,
            )
            for number, key in enumerate(keys)
        ]

        def add(store: Store) -> object:
            try:
                if node is None or not hands_over(self.store):
                    found = store.add_instances(definition_id, additions)
                else:
                    found = store.add_and_start(
                        definition_id,
                        additions,
                        self._claimant(node, QUEUES),
                        names=None,
                    )
            except (QueueFullError, TaskDefinitionNotFoundError) as error:
                return type(error), error.definition_id
            self._twins.update((each.id, each.id) for each in found)
            if store is self.oracle:
                made = {each.id for each in additions}
                self._note(
                    each
                    for each in found
                    if each.id in made and each.claimed_by is not None
                )
            return [(each.id, seen_of(each)) for each in found]

        self._added.update(each.id for each in additions)
        self._alike(add)


def hands_over(store: Store) -> bool:
    """Whether a store starts what it creates; it need not."""
    return type(store).add_and_start is not HandOverStore.add_and_start
