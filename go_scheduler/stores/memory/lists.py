"""The reads of a ``MemoryStore``, which let go of its lock every thousand rows.

A long list must not delay a fire.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.models import State
from go_scheduler.stores.base import ReadStore
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    counted,
    page_in_order,
    page_of,
    sorted_page,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from threading import Lock
    from uuid import UUID

    from go_scheduler.models import Counted, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.memory.tables import (
        DefinitionTable,
        InstanceTable,
        StoredInstance,
    )
    from go_scheduler.stores.messages import Position

_CHUNK = 1000


class MemoryReads(ReadStore):
    """What a ``MemoryStore`` reads."""

    _lock: Lock
    _instances: InstanceTable
    _definitions: DefinitionTable

    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter."""
        rows = self._narrowed(where)
        if rows is None and order is Order.EXECUTION:
            walked = self._in_order(where, after, descending)
            return page_in_order(
                walked, where, order, limit=limit, scan_limit=scan_limit
            )
        every = self._in_order(where) if rows is None else self._views(rows)
        return sorted_page(
            filter(where.matches, every),
            order.position,
            descending=descending,
            after=after,
            limit=limit,
        )

    def _narrowed(self, where: Filter) -> Sequence[StoredInstance] | None:
        """The rows among which all are that meet a filter; None: all rows."""
        with self._lock:
            if where.ids is not None:
                found = (self._instances.get(each) for each in set(where.ids))
                return [row for row in found if row is not None]
            if where.definition_id is None:
                return None
            of = self._definitions.get(where.definition_id)
            if of is None:
                return ()
            if where.key is None:
                return of.rows
            keyed = self._instances.keyed(of, where.key)
            return () if keyed is None else (keyed,)

    def _views(self, rows: Sequence[StoredInstance]) -> Iterator[TaskInstance]:
        for start in range(0, len(rows), _CHUNK):
            with self._lock:
                views = [each.view() for each in rows[start : start + _CHUNK]]
            yield from views

    def _in_order(
        self, where: Filter, after: Position | None = None, descending: bool = False
    ) -> Iterator[TaskInstance]:
        """All instances, in the order of ``execute_at`` and id."""
        while True:
            with self._lock:
                rows = self._instances.walk(where.since, after, descending, _CHUNK)
                views = [row.view() for row in rows]
            yield from views
            if len(views) < _CHUNK:
                return
            after = Order.EXECUTION.position(views[-1])

    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter."""
        if order is DefinitionOrder.ID:
            found = filter(where.matches, self._by_id(where.ids, after))
            return page_of(list(islice(found, limit)), order.position, limit=limit)
        every = filter(where.matches, self._by_id(where.ids))
        return sorted_page(every, order.position, after=after, limit=limit)

    def _by_id(
        self, ids: Collection[UUID] | None, after: Position | None = None
    ) -> Iterator[TaskDefinition]:
        keys = None if ids is None else sorted({id.int for id in ids})
        last = -1 if after is None else after.id.int
        while True:
            with self._lock:
                chunk = self._definitions.walk(keys, last, _CHUNK)
            yield from chunk
            if len(chunk) < _CHUNK:
                return
            last = chunk[-1].id.int

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """How many instances meet each of some filters, by their state."""
        if list(filters) != [ANY]:
            return super().count(filters, most=most)
        with self._lock:
            numbers = dict(self._instances.counts)
        return [{state: counted(numbers[state], most) for state in State}]

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = -1 if after is None else after.id.int
        with self._lock:
            rows = self._instances.claimed_by(node, last)
            return [row.view() for row in rows[:limit]]

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
