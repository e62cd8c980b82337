"""The lists of a ``MemoryStore``, a chunk at a time, and its instances for users."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import State
from go_scheduler.stores.base import InstanceStore
from go_scheduler.stores.memory.tables import Span
from go_scheduler.stores.messages import Position
from go_scheduler.stores.rules import is_among, is_fired_within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from threading import Lock
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.memory.tables import InstanceTable, StoredInstance, Tables

_CHUNK = 1000
_LATEST = datetime.max.replace(tzinfo=UTC)


class Lists:
    """Walks over the tables; the lock is let go between chunks.

    A long list must not delay a fire.

    Args:
        lock: The store's.
        tables: The store's.
    """

    def __init__(self, lock: Lock, tables: Tables) -> None:
        self._lock = lock
        self._definitions = tables.definitions
        self._instances = tables.instances

    def definitions(
        self,
        ids: Collection[UUID] | None,
        after: Position | None,
        *,
        soonest_first: bool,
    ) -> Iterator[TaskDefinition]:
        """Definitions of these ids, or all, that come after a place in their order."""
        if not soonest_first:
            return self._by_id(ids, after)
        found = sorted(self._by_id(ids, None), key=_when)
        begin = 0
        if after is not None:
            begin = bisect_right(found, _moment(after.at, after.id), key=_when)
        return iter(found[begin:])

    def instances(
        self, definition_id: UUID | None, span: Span, key: str | None = None
    ) -> Iterator[TaskInstance]:
        """Instances in a span, all, or of a definition; the one of a key by itself."""
        if definition_id is None:
            return self._every_instance(span)
        return self._instances_of(definition_id, span, key)

    def _by_id(
        self, ids: Collection[UUID] | None, after: Position | None
    ) -> Iterator[TaskDefinition]:
        keys = None if ids is None else sorted({id.int for id in ids})
        last = -1 if after is None else after.id.int
        while chunk := self._definition_chunk(keys, last):
            yield from chunk
            last = chunk[-1].id.int

    def _definition_chunk(
        self, keys: Sequence[int] | None, last: int
    ) -> Sequence[TaskDefinition]:
        with self._lock:
            return self._definitions.walk(keys, last, _CHUNK)

    def _every_instance(self, span: Span) -> Iterator[TaskInstance]:
        while chunk := self._instance_chunk(span):
            yield from chunk
            span = span._replace(after=Position.of_instance(chunk[-1]))

    def _instance_chunk(self, span: Span) -> Sequence[TaskInstance]:
        with self._lock:
            return [row.view() for row in self._instances.walk(span, _CHUNK)]

    def _instances_of(
        self, definition_id: UUID, span: Span, key: str | None
    ) -> Iterator[TaskInstance]:
        with self._lock:
            rows = span.cut(self._rows_of(definition_id, key))
        for start in range(0, len(rows), _CHUNK):
            with self._lock:
                views = [each.view() for each in rows[start : start + _CHUNK]]
            yield from views

    def _rows_of(
        self, definition_id: UUID, key: str | None
    ) -> Iterable[StoredInstance]:
        of = self._definitions.get(definition_id)
        if of is None:
            return ()
        if key is None:
            return of.rows
        found = self._instances.keyed(of, key)
        return () if found is None else (found,)


def _when(definition: TaskDefinition) -> tuple[bool, datetime, int]:
    return _moment(definition.next_fire_time, definition.id)


def _moment(at: datetime | None, id: UUID) -> tuple[bool, datetime, int]:
    """Sorts what has no time behind what has one."""
    return at is None, at or _LATEST, id.int


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
