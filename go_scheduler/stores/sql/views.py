"""The reads of a SQL store: pages and counts, which read the ends of indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import Connection, and_, case, func, literal, select, true, union_all

from go_scheduler.checks import PRIORITIES
from go_scheduler.models import OPEN, RunEnd, Stage, State, TaskRun
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.base import LOOKED_AT
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
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import definition_of
from go_scheduler.stores.sql.lists import (
    CLAIMED,
    IS_OPEN,
    UNRUN,
    among,
    are_of,
    conditions,
    due_queues,
    ended_as,
    ended_first,
    instance_state,
    instances_like,
    live_key,
    page_of_definitions,
)
from go_scheduler.stores.sql.rows import UNREADABLE
from go_scheduler.stores.sql.statement import SQLPart
from go_scheduler.stores.sql.tables import (
    Dialect,
    definitions,
    instances,
    runs,
    slots,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Row, Select, Subquery

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.sql.database import Result

_column = instances.c
_QUEUES = 100
_EARLIEST = datetime.min.replace(tzinfo=UTC)
# With statistics of the table CockroachDB 26.1 answers by an internal error ("cannot
# overwrite [limit hint: 1.00]") if it is asked for less than five rows.
_FEWEST = 20


_RUN_COLUMNS = [each.name for each in fields(TaskRun)]
_STAGES = {None: None} | {stage.value: stage for stage in Stage}
_ENDS = {end.value: end for end in RunEnd}


class SQLReads(SQLPart):
    """What a SQL store reads."""

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
            lambda connection: _count(connection, self._dialect, filters, most)
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
        query = (
            select(*(runs.c[name] for name in _RUN_COLUMNS))
            .where(runs.c.instance_id == instance_id)
            .order_by(runs.c.attempt)
        )
        rows = self._list(lambda connection: connection.execute(query).all())
        return [_run(row) for row in rows if _is_readable(row)]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed."""
        return self._look(lambda each: due_queues(each, self._dialect, apart_from))

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

    def _now(self, read: Callable[[Connection], Result]) -> Result:
        """Read what there is at this moment."""
        return self._database.run(Lane.BY_HAND, read)


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


def _is_readable(row: Row[Any]) -> bool:
    known = row.outcome in _ENDS and row.lost_in in _STAGES
    return known and UNREADABLE not in row


def _run(row: Row[Any]) -> TaskRun:
    values = {**row._mapping, "outcome": _ENDS[row.outcome]}
    values["lost_in"] = _STAGES[row.lost_in]
    return TaskRun(**values)


# No engine reads the definitions if no condition is on them.
_BOTH = instances.outerjoin(
    definitions, definitions.c.key == instances.c.definition_key
)
_STATES = {each.value: each for each in State}
_UNRUN_ALONE = [[each] for each in UNRUN]


def _count(
    connection: Connection,
    dialect: Dialect,
    filters: Sequence[Filter],
    most: int | None,
) -> Sequence[Mapping[State, Counted]]:
    """How many instances meet each of some filters, as ``Store.count``."""
    if most is None:
        return [_count_all(connection, dialect, each) for each in filters]
    found: list[Mapping[State, Counted]] = [{}] * len(filters)
    others: list[int] = []
    for number, each in enumerate(filters):
        if each == Filter(queues=each.queues, owners=each.owners):
            # Whose each is has to be looked up.
            few = most if each == Filter() else min(most, LOOKED_AT)
            counting = _Counting(connection, dialect, few, each.queues, each.owners)
            found[number] = counting.every_state()
        else:
            others.append(number)
    if others:
        some = _count_some(connection, dialect, [filters[n] for n in others], most)
        for number, counts in zip(others, some, strict=True):
            found[number] = counts
    return found


def _count_all(
    connection: Connection, dialect: Dialect, where: Filter
) -> Mapping[State, Counted]:
    source = instances if where == Filter() else _BOTH
    query = select(instance_state, func.count()).select_from(source)
    query = query.where(*conditions(dialect, where)).group_by(instance_state)
    found: Counter[State] = Counter()
    for state, number in connection.execute(query):
        found[_state(state)] += number
    return {each: Counted(count=found[each]) for each in State}


def _count_some(
    connection: Connection, dialect: Dialect, filters: Sequence[Filter], most: int
) -> Sequence[Mapping[State, Counted]]:
    """Count the first instances of each filter, all by one statement."""
    ids = {each.definition_id for each in filters if each.definition_id is not None}
    # Numbered, so that the text of the statement is the same for any definition.
    keys = {
        id: live_key(dialect, id).cte(f"definition_{number}")
        for number, id in enumerate(ids)
    }
    heads = []
    for number, where in enumerate(filters):
        key = None
        if where.definition_id is not None:
            key = select(keys[where.definition_id].c.key).scalar_subquery()
        query = select(instance_state.label("state"), literal(number).label("part"))
        query = query.select_from(_BOTH)
        query = query.where(*conditions(dialect, where, key))
        if where.fired_since is not None:
            query = query.order_by(_column.fire_time)
        elif where.definition_id is not None and where.is_open:
            query = dialect.looked_up(query, instances, "task_instances_open_idx")
        head = query.limit(most + 1).subquery()
        heads.append(select(head.c.part, head.c.state))
    counts: list[Counter[State]] = [Counter() for _ in filters]
    for part, state in connection.execute(union_all(*heads)):
        counts[part][_state(state)] += 1
    return [
        {
            state: Counted(count=min(each[state], most), more=each.total() > most)
            for state in State
        }
        for each in counts
    ]


def _state(value: str) -> State:
    # What is no outcome of ours, and was written by hand, has not ended.
    return _STATES.get(value, State.PENDING)


def _at_least(
    counts: Mapping[str, int], state: State, most: int, *, more: bool
) -> Counted:
    """What was counted of a state, up to the most; whether there may be more of it."""
    return Counted(count=min(counts.get(state.value, 0), most), more=more)


def _number_up_to(connection: Connection, query: Select[Any], most: int) -> int:
    """How many rows a query has, up to one more than the most."""
    first = query.limit(most + 1).subquery()
    return connection.execute(select(func.count()).select_from(first)).scalar_one()


def _by_state(connection: Connection, query: Select[Any], most: int) -> dict[str, int]:
    """How many of the first of a query are in each state."""
    first = query.limit(most + 1).subquery()
    rows = connection.execute(
        select(first.c.state, func.count()).group_by(first.c.state)
    )
    return {row[0]: row[1] for row in rows}


def _with_state(condition: ColumnElement[bool]) -> Select[Any]:
    """The states of the instances that meet a condition."""
    return select(instance_state.label("state")).where(condition)


@dataclass(frozen=True)
class _Counting:
    """Counts what is of some queues and owners, state by state, amid so many of all.

    Attributes:
        connection: Where.
        dialect: The engine's own words.
        most: So many are looked at for each number.
        queues: Theirs is among these; None: any.
        owners: Their definition's is among these; None: any.
    """

    connection: Connection
    dialect: Dialect
    most: int
    queues: Collection[str] | None
    owners: Collection[str] | None

    def every_state(self) -> Mapping[State, Counted]:
        """The numbers of all states."""
        found: dict[State, Counted] = {}
        key = _column.definition_key
        are_open = _with_state(IS_OPEN).order_by(key)
        if _number_up_to(self.connection, are_open, self.most) <= self.most:
            found |= self._counts(OPEN, are_open)
        else:
            # Those that are claimed may be few amid many that are not.
            claimed = [each for each in OPEN if each is not State.PENDING]
            order = (*self._shard, _column.expires_at)
            by_expiry = _with_state(CLAIMED).order_by(*order)
            found |= self._counts(claimed, by_expiry)
            found[State.PENDING] = self._waiting()
        latest = [each.desc() for each in (*self._shard, _column.completed_at)]
        for each in (State.FAILED, State.COMPLETED, *UNRUN):
            ended = select(_column.outcome.label("state")).where(ended_as(each))
            found |= self._counts([each], ended.order_by(*latest))
        return found

    @property
    def _is_restricted(self) -> bool:
        return self.queues is not None or self.owners is not None

    @property
    def _shard(self) -> Sequence[ColumnElement[int]]:
        """What comes before the time in an index."""
        return [_column.shard] if self.dialect.shards > 1 else []

    def _counts(
        self, states: Sequence[State], query: Select[Any]
    ) -> dict[State, Counted]:
        """How many of the first of a query are theirs, in each of these states."""
        if not self._is_restricted and states in ([State.FAILED], *_UNRUN_ALONE):
            # All in the index are in this state, which need not be read.
            number = _number_up_to(self.connection, query, self.most)
            return {states[0]: Counted.up_to(self.most, number)}
        counts, seen = self._of(query, self.queues)
        more = seen > self.most
        return {each: _at_least(counts, each, self.most, more=more) for each in states}

    def _waiting(self) -> Counted:
        """How many can be claimed, or will be when they are due."""
        waits = _with_state(_column.claimable_at.is_not(None))
        order = (_column.priority, *self._shard, _column.claimable_at)
        parts = [waits.order_by(_column.queue, *order)]
        if not self._is_restricted:
            number = _number_up_to(self.connection, parts[0], self.most)
            return Counted(count=min(number, self.most), more=True)
        if self.queues is not None:
            # That of what is open follows the definition's. Without the whole order of
            # the index all that waits in a queue would be read and sorted.
            parts = [
                waits.where(_column.queue == each).order_by(*order)
                for each in sorted(self.queues)
            ]
        total: Counter[str] = Counter()
        seen = 0
        for part in parts:
            if seen <= self.most:
                counts, looked_at = self._of(part, None)
                total.update(counts)
                seen += looked_at
        # Those that are parked or paused are not looked at.
        return _at_least(total, State.PENDING, self.most, more=True)

    def _of(
        self, query: Select[Any], queues: Collection[str] | None
    ) -> tuple[Mapping[str, int], int]:
        """How many of the first are theirs, by state; how many were looked at."""
        if not self._is_restricted:
            found = _by_state(self.connection, query, self.most)
            return found, sum(found.values())
        whose = (_column.definition_key, _column.queue)
        first = query.add_columns(*whose).limit(self.most + 1).subquery()
        # What has one definition is looked up together.
        group = (first.c.state, first.c.definition_key, first.c.queue)
        by_key = (
            select(*group, func.count().label("number")).group_by(*group).subquery()
        )
        is_theirs = and_(true(), *are_of(by_key, queues, self.owners))
        some = select(by_key.c.state, by_key.c.number, is_theirs.label("is_theirs"))
        each = some.subquery()
        theirs = case((each.c.is_theirs, each.c.number), else_=0)
        rows = self.connection.execute(
            select(each.c.state, func.sum(theirs), func.sum(each.c.number)).group_by(
                each.c.state
            )
        ).all()
        return {row[0]: int(row[1]) for row in rows}, sum(int(row[2]) for row in rows)
