"""The rule of the store machine that puts what starts at once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from go_scheduler.models import TaskDefinition
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.machine.drawn import QUEUES, STEP, TRIGGERS, ids, nodes
from go_scheduler.testing.machine.pair import StorePair, seen_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.triggers.base import Trigger

_FIRST_ID = 1_000
# What is only made when asked for fires never.
_FIRING = TRIGGERS[:3]


class HandOverRules(StorePair):
    """Definitions are put by a node that has their first instance at once."""

    @rule(
        stored=st.none() | ids,
        trigger=st.sampled_from(_FIRING),
        queue=st.sampled_from(QUEUES),
        steps_late=st.integers(0, 2),
        goes_on=st.booleans(),
        node=nodes,
    )
    def put_and_start(
        self,
        stored: UUID | None,
        trigger: Trigger,
        queue: str,
        steps_late: int,
        goes_on: bool,
        node: UUID,
    ) -> None:
        """One is put that is new, or takes the place of another one."""
        known = {each.id for each in self._stored()}
        # One that has lived before need not be started.
        new_id = stored if stored in known else UUID(int=_FIRST_ID + len(self._lives))
        at = self.clock.now() - steps_late * STEP
        later = self.clock.now() + STEP if goes_on and not trigger.waits else None
        new = TaskDefinition(
            id=new_id,
            trigger=trigger.anchored(self.clock.now()),
            queue=queue,
            next_fire_time=at,
        )
        started: list[TaskInstance] = []

        def put(
            store: Store, given: Sequence[TaskDefinition]
        ) -> Sequence[TaskDefinition]:
            if type(self.store).put_and_start is HandOverStore.put_and_start:
                return store.put_definitions(given)
            firing = Firing(definition=given[0], fire_times=(at,), next_fire_time=later)
            found, instance = store.put_and_start(firing, self._claimant(node, QUEUES))
            if instance is not None:
                started.append(instance)
            return [found]

        self._loosened.add(new_id)
        self._put(new, by=put)
        self._note(started[:1])
        assert [seen_of(each) for each in started[1:]] == [
            seen_of(each) for each in started[:1]
        ]
