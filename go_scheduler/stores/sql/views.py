"""The reads of a SQL store. Those that people look at read the ends of indexes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import func, select, true, union_all

from go_scheduler.checks import PRIORITIES
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.base import ReadStore
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    CLAIMABLE,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    page_of,
)
from go_scheduler.stores.messages import Position
from go_scheduler.stores.sql.counts import count
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import definition_of
from go_scheduler.stores.sql.lists import (
    among,
    are_of,
    ended_first,
    instances_like,
    live_key,
    page_of_definitions,
)
from go_scheduler.stores.sql.tables import definitions, instances, read_runs, slots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Select, Subquery

    from go_scheduler.models import State, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.tables import Dialect

Listed = TypeVar("Listed")

_column = instances.c
_QUEUES = 100
_EARLIEST = datetime.min.replace(tzinfo=UTC)
# With statistics of the table CockroachDB 26.1 answers by an internal error ("cannot
# overwrite [limit hint: 1.00]") if it is asked for less than five rows.
_FEWEST = 20


class SQLReads(ReadStore):
    """What a SQL store reads."""

    _database: Database
    _dialect: Dialect
    _reader: Reader
    _both: Select[tuple[object, ...]]

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
        if where.ids is not None and not where.ids:
            return Page()
        if scan_limit is not None and (after is None or order is Order.END):
            shape = (order, descending, where.conditions - {"queues", "owners"})
            bounded = _BOUNDED.get(shape)
            if bounded is not None and _has_index(where):
                return bounded(self, where, after, limit, scan_limit)
        query = instances_like(
            self._both,
            self._dialect,
            where,
            order,
            descending=descending,
            after=after,
        )
        query = query.limit(max(_FEWEST, limit) if order is Order.FIRE_TIME else limit)
        read = self._list if where.ids is None else self._now
        rows = read(lambda connection: connection.execute(query).all())
        found = self._reader.instances(Lane.BY_HAND, rows[:limit])
        return page_of(found, order.position, limit=limit)

    def _ended(
        self, where: Filter, after: Position | None, limit: int, scan_limit: int
    ) -> Page[TaskInstance]:
        [state] = where.states or ()
        query = ended_first(
            self._dialect, state, where, after=after, scan_limit=scan_limit
        )
        query = query.limit(limit)
        rows = self._list(lambda connection: connection.execute(query).all())
        ids = [row.id for row in rows if row.is_theirs]
        more = bool(rows) and (len(rows) == limit or rows[-1].place == scan_limit)
        return self._in_order(ids, next=_position(rows[-1]) if more else None)

    def _claimable(
        self, where: Filter, after: Position | None, limit: int, scan_limit: int
    ) -> Page[TaskInstance]:
        def read(connection: Connection) -> Sequence[UUID]:
            found: list[Any] = []
            waiting = list(_queues(connection, where.queues))
            most = limit
            if where.owners is not None:
                most = max(limit, scan_limit // max(1, len(waiting)))
            for queue in waiting:
                heads = (
                    select(each.c.id, each.c.due_at).where(
                        *are_of(each, None, where.owners)
                    )
                    for each in self._places(queue, most, true())
                )
                found += connection.execute(union_all(*heads))
            return [id for id, _ in sorted(found, key=_due)[:limit]]

        return self._first(self._list(read), Order.DUE, limit)

    def _keyed(
        self, where: Filter, after: Position | None, limit: int, scan_limit: int
    ) -> Page[TaskInstance]:
        keys = (
            select(definitions.c.key)
            .where(definitions.c.deleted_at.is_(None), *among(None, where.owners))
            .order_by(definitions.c.id)
            .limit(scan_limit)
        )

        def read(connection: Connection) -> Sequence[UUID]:
            of_these = self._dialect.among(
                _column.definition_key, connection.execute(keys).scalars().all()
            )
            query = select(_column.id).where(of_these, _column.key == where.key)
            if where.queues is not None:
                query = query.where(_column.queue.in_(sorted(where.queues)))
            query = query.order_by(_column.execute_at, _column.id).limit(limit)
            query = self._dialect.looked_up(query, instances, "task_instances_key_key")
            return connection.execute(query).scalars().all()

        return self._first(self._list(read), Order.EXECUTION, limit)

    def _unfired(
        self, where: Filter, after: Position | None, limit: int, scan_limit: int
    ) -> Page[TaskInstance]:
        assert where.definition_id is not None
        key = live_key(self._dialect, where.definition_id).scalar_subquery()
        query = select(_column.id, _column.execute_at)
        query = query.where(_column.definition_key == key, _column.fire_time.is_(None))
        query = self._dialect.looked_up(query, instances, "task_instances_fire_key")
        some = query.limit(scan_limit).subquery()
        columns = (some.c.execute_at.desc(), some.c.id.desc())
        latest = select(some.c.id).order_by(*columns).limit(limit)
        ids = self._list(lambda connection: connection.execute(latest).scalars().all())
        return self._first(ids, Order.EXECUTION, limit)

    def _first(
        self, ids: Sequence[UUID], order: Order, limit: int
    ) -> Page[TaskInstance]:
        found = self._in_order(ids)
        return page_of(found, order.position, limit=limit)

    def _in_order(
        self, ids: Sequence[UUID], *, next: Position | None = None
    ) -> Page[TaskInstance]:
        """The instances of these ids that are still there, in their order.

        An id that cannot be read finds nothing.
        """
        ids = [each for each in ids if isinstance(each, UUID)]
        if not ids:
            return Page(next=next)
        query = self._both.where(self._dialect.among(instances.c.id, ids))
        rows = self._list(lambda connection: connection.execute(query).all())
        by_id = {each.id: each for each in self._reader.instances(Lane.BY_HAND, rows)}
        return Page((by_id[id] for id in ids if id in by_id), next=next)

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
        read = self._list if where.ids is None else self._now
        rows = read(
            lambda connection: page_of_definitions(
                connection, self._dialect, where, order, after=after, limit=limit
            )
        )
        found = [definition_of(row) for row in rows]
        return page_of(found, order.position, limit=limit)

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """How many instances meet each of some filters, by their state."""
        return self._list(
            lambda connection: count(connection, self._dialect, filters, most)
        )

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        holder = select(slots.c.instance_id).where(slots.c.name == slot)
        query = self._both.where(
            instances.c.id == holder.scalar_subquery(),
            instances.c.completed_at.is_(None),
        )
        rows = self._now(lambda connection: connection.execute(query).all())
        return next(iter(self._reader.instances(Lane.BY_HAND, rows)), None)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        return self._list(lambda connection: read_runs(connection, instance_id))

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""

        def read(connection: Connection) -> Sequence[Backlog]:
            now = self._dialect.now(connection)
            found = (
                self._backlog(connection, queue, now, most)
                for queue in _queues(connection, queues)
            )
            return list(islice(filter(None, found), _QUEUES))

        return self._list(read)

    def _backlog(
        self, connection: Connection, queue: str, now: datetime, most: int
    ) -> Backlog | None:
        places = self._places(queue, most + 1, _column.claimable_at <= now)
        counts = union_all(
            *(select(func.count(), func.min(each.c.due_at)) for each in places)
        )
        found = [(count, oldest) for count, oldest in connection.execute(counts)]
        times = [oldest for _, oldest in found if isinstance(oldest, datetime)]
        if not times:
            return None
        due = Counted.up_to(most, sum(count for count, _ in found))
        return Backlog(queue=queue, due=due, oldest=min(times))

    def _places(
        self, queue: str, most: int, condition: ColumnElement[bool]
    ) -> Sequence[Subquery]:
        """What can be claimed first in each part of the index."""
        return [
            select(_column.id, _column.due_at, _column.definition_key)
            .where(
                _column.queue == queue,
                _column.priority == priority,
                part,
                _column.claimable_at.is_not(None),
                condition,
            )
            .order_by(_column.claimable_at)
            .limit(most)
            .subquery()
            for priority in PRIORITIES
            for part in self._dialect.parts(_column.shard)
        ]

    def _now(self, read: Callable[[Connection], Listed]) -> Listed:
        """Read what there is at this moment."""
        return self._database.run(Lane.BY_HAND, read)

    def _list(self, read: Callable[[Connection], Listed]) -> Listed:
        """Read a list; it need not be of this very moment."""
        return self._database.run(
            Lane.BY_HAND, lambda connection: self._dialect.listed(connection, read)
        )


# What reads a page by looking at so many rows, by the order, whether it is backwards,
# and the conditions beside those on queues and owners.
_BOUNDED = {
    (Order.END, True, frozenset({"states"})): SQLReads._ended,
    (Order.DUE, False, CLAIMABLE.conditions): SQLReads._claimable,
    (Order.EXECUTION, False, frozenset({"key"})): SQLReads._keyed,
    (Order.EXECUTION, True, frozenset({"definition_id", "fired"})): SQLReads._unfired,
}


def _has_index(where: Filter) -> bool:
    """Whether an index has what these values are about."""
    if where.fired is not None:
        return not where.fired and where.queues is None and where.owners is None
    if where.parked is not None:
        return where.is_claimable
    return where.states is None or (len(where.states) == 1 and not where.is_open)


def _position(row: Any) -> Position:
    # Behind an id that cannot be read, on with what ended before.
    id = row.id if isinstance(row.id, UUID) else UUID(int=0)
    return Position(at=row.completed_at, id=id)


def _due(row: Any) -> tuple[datetime, str]:
    # One that cannot be read is first, as it is in the index.
    at = row.due_at if isinstance(row.due_at, datetime) else _EARLIEST
    # Nor can each id be read; the texts of all others sort as they do.
    return at, str(row.id)


def _queues(connection: Connection, queues: Collection[str] | None) -> Iterator[str]:
    """These, or those in which anything waits or will: one step for each."""
    if queues is not None:
        yield from sorted(queues)
        return
    last = ""
    for _ in range(_QUEUES):
        query = (
            select(_column.queue)
            .where(_column.claimable_at.is_not(None), _column.queue > last)
            .order_by(_column.queue)
            .limit(1)
        )
        found = connection.execute(query).scalar()
        if found is None:
            return
        yield found
        last = found
