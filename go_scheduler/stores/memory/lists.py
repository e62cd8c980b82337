"""The lists of a ``MemoryStore``, a chunk at a time."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from threading import Lock
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.memory.span import Span
    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.memory.tables import Tables

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
