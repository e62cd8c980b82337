"""The reads of a ``MemoryStore``, which let go of its lock every thousand rows.

A long list must not delay a fire.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import attrgetter
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
    from go_scheduler.stores.memory.rows import StoredInstance
    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import Position

_CHUNK = 1000


class MemoryReads(ReadStore):
    """What a ``MemoryStore`` reads."""

    _lock: Lock
    _tables: Tables

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
        narrow = where.ids is not None or where.definition_id is not None
        if order is Order.EXECUTION and not narrow:
            walked = self._by_time(where, after, descending)
            return page_in_order(
                walked, where, order, limit=limit, scan_limit=scan_limit
            )
        with self._lock:
            rows = self._narrowed(where)
        return sorted_page(
            filter(where.matches, self._views(rows)),
            order.position,
            descending=descending,
            after=after,
            limit=limit,
        )

    def _narrowed(self, where: Filter) -> Sequence[StoredInstance]:
        """Rows among which all are that meet a filter."""
        tables = self._tables
        if where.ids is not None:
            found = [tables.instances.get(each.int) for each in where.ids]
            return [row for row in found if row is not None]
        if where.definition_id is None:
            return list(tables.instances.values())
        of = tables.definitions.get(where.definition_id.int)
        if of is None:
            return ()
        if where.key is None:
            return list(of.instances.values())
        keyed = tables.keyed.get((of, where.key))
        return () if keyed is None else (keyed,)

    def _views(self, rows: Sequence[StoredInstance]) -> Iterator[TaskInstance]:
        for start in range(0, len(rows), _CHUNK):
            with self._lock:
                views = [row.view() for row in rows[start : start + _CHUNK]]
            yield from views

    def _by_time(
        self, where: Filter, after: Position | None, descending: bool
    ) -> Iterator[TaskInstance]:
        """All instances, in the order of ``execute_at`` and id."""
        while True:
            with self._lock:
                rows = self._tables.walk(where.since, after, descending)
                views = [row.view() for row in islice(rows, _CHUNK)]
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
        by_id = order is DefinitionOrder.ID
        found = filter(where.matches, self._by_id(where.ids, after if by_id else None))
        if by_id:
            return page_of(list(islice(found, limit)), order.position, limit=limit)
        return sorted_page(found, order.position, after=after, limit=limit)

    def _by_id(
        self, ids: Collection[UUID] | None, after: Position | None
    ) -> Iterator[TaskDefinition]:
        last = -1 if after is None else after.id.int
        only = None if ids is None else sorted(id.int for id in ids)
        while True:
            with self._lock:
                stored = self._tables.definitions
                if only is None:
                    keys = stored.irange(last, inclusive=(False, True))
                else:
                    keys = (key for key in only if key > last and key in stored)
                chunk = [stored[key].definition for key in islice(keys, _CHUNK)]
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
            rows = list(self._tables.instances.values())
        numbers = Counter(map(attrgetter("state"), rows))
        return [{state: counted(numbers[state], most) for state in State}]

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        with self._lock:
            rows = self._tables.leases.rows.values()
            found = [row for row in rows if row.claimed_by == node]
            held = [row.view() for row in found if not row.is_handed_on]
        position = None if after is None else Order.ID.position(after)
        return sorted_page(held, Order.ID.position, after=position, limit=limit)

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        with self._lock:
            row = self._tables.slots.holder(slot)
            return None if row is None else row.view()

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        with self._lock:
            row = self._tables.instances.get(instance_id.int)
            return () if row is None else row.past
