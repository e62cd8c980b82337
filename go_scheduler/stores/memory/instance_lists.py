"""The part of a ``MemoryStore`` that reads instances, as users see them."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import State
from go_scheduler.stores.declared import is_among
from go_scheduler.stores.instance_store import InstanceStore
from go_scheduler.stores.memory.span import Span
from go_scheduler.stores.orders import is_fired_within

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from threading import Lock
    from uuid import UUID

    from go_scheduler.models import TaskInstance, TaskRun
    from go_scheduler.stores.memory.instances import InstanceTable
    from go_scheduler.stores.memory.lists import Lists
    from go_scheduler.stores.messages import Position


class MemoryInstanceLists(InstanceStore):
    """What a ``MemoryStore`` reads of instances."""

    _lock: Lock
    _instances: InstanceTable
    _lists: Lists

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = -1 if after is None else after.id.int
        with self._lock:
            rows = self._instances.claimed_by(node, last)
            return [row.view() for row in rows[:limit]]

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        with self._lock:
            row = self._instances.get(instance_id)
            if row is None:
                raise TaskInstanceNotFoundError(instance_id)
            return row.view()

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        with self._lock:
            row = self._instances.slots.holder(slot)
            return None if row is None else row.view()

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        with self._lock:
            row = self._instances.get(instance_id)
            return [] if row is None else row.past

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        span = Span(since, after, newest_first)
        found = (
            instance
            for instance in self._lists.instances(definition_id, span, key)
            if (name is None or instance.definition.name == name)
            and (key is None or instance.key == key)
            and (state is None or instance.state is state)
            and is_fired_within(instance, fired_since, fired_before)
            and is_among(instance.definition, queues, owners)
        )
        return list(islice(found, limit))

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        if queues is not None or owners is not None:
            every = self._lists.instances(None, Span(None, None, newest_first=False))
            found = (it for it in every if is_among(it.definition, queues, owners))
            mine = Counter(each.state for each in found)
            return {state: mine[state] for state in State}
        with self._lock:
            return {state: self._instances.counts[state] for state in State}
