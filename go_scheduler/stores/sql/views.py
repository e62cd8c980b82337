"""The reads of a SQL store: pages and counts, which read the ends of indexes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import (
    Connection,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
    union_all,
)

from go_scheduler.checks import PRIORITIES
from go_scheduler.models import (
    OPEN,
    RUNS,
    DefinitionState,
    RunEnd,
    Stage,
    State,
    TaskRun,
)
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
from go_scheduler.stores.sql.edits import LIVE, definition_of, live_among
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
    LATEST,
    UNREADABLE,
)
from go_scheduler.stores.sql.statement import SQLPart
from go_scheduler.stores.sql.tables import (
    Dialect,
    contents,
    definitions,
    instances,
    runs,
    slots,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Row, Select, Subquery, TextClause

    from go_scheduler.models import TaskDefinition, TaskInstance

BOTH = select(
    *(instances.c[name] for name in INSTANCE_COLUMNS),
    *(definitions.c[name].label(f"d_{name}") for name in DEFINITION_COLUMNS),
).outerjoin_from(
    instances, definitions, definitions.c.key == instances.c.definition_key
)
_column = instances.c
_definition = definitions.c

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
        query = self._both.where(*self._conditions(where))
        if where.definition_id is not None:
            index = _index_of(where, order)
            query = self._dialect.looked_up(query, instances, index)
        column = _column[order.value]
        columns = [column, _column.id]
        if column.nullable:
            query = query.where(column.is_not(None))
        of_one = order is Order.FIRE_TIME and where.definition_id is not None
        if order is Order.ID or of_one:
            # Each fire time of a definition has one instance: its index has this order.
            columns = [column]
        if after is not None:
            query = query.where(_comes_after(after, order, descending=descending))
        query = query.order_by(
            *((each.desc() if descending else each) for each in columns)
        )
        query = query.limit(max(_FEWEST, limit) if order is Order.FIRE_TIME else limit)
        rows = self._rows(query, now=where.ids is not None)
        found = self._reader.instances(Lane.BY_HAND, rows[:limit])
        return page_of(found, order.position, limit=limit)

    def _ended(
        self, where: Filter, after: Position | None, limit: int, scan_limit: int
    ) -> Page[TaskInstance]:
        """What ended in one way, those that ended last first."""
        [state] = where.states or ()
        query = select(
            *(_column.id, _column.completed_at, _column.outcome),
            *(_column.definition_key, _column.queue),
        )
        query = query.where(_ENDED[state])
        if after is not None:
            query = query.where(_comes_after(after, Order.END, descending=True))
        # As a number, so that every plan knows how few it is.
        few: ColumnElement[int] = literal_column(f"{scan_limit:d}")
        query = query.order_by(_column.completed_at.desc(), _column.id.desc())
        last = self._dialect.first_of_each_shard(query.limit(few), _column.shard)
        order = (last.c.completed_at.desc(), last.c.id.desc())
        place = func.row_number().over(order_by=order).label("place")
        some = select(last, place).order_by(*order).limit(few).subquery()
        theirs = _are_of(some, where.queues, where.owners)
        is_theirs = and_(some.c.outcome == state.value, *theirs)
        # The last that was looked at tells how far that was, whosever it is.
        rows = self._rows(
            select(some, is_theirs.label("is_theirs"))
            .where(or_(is_theirs, some.c.place == few))
            .order_by(some.c.completed_at.desc(), some.c.id.desc())
            .limit(limit)
        )
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
                        *_are_of(each, None, where.owners)
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
            select(_definition.key)
            .where(_definition.deleted_at.is_(None), *_among(None, where.owners))
            .order_by(_definition.id)
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
        query = select(_column.id, _column.execute_at).where(*self._conditions(where))
        query = self._dialect.looked_up(query, instances, "task_instances_fire_key")
        some = query.limit(scan_limit).subquery()
        order = (some.c.execute_at.desc(), some.c.id.desc())
        rows = self._rows(select(some.c.id).order_by(*order).limit(limit))
        return self._first([row.id for row in rows], Order.EXECUTION, limit)

    def _first(
        self, ids: Sequence[UUID], order: Order, limit: int
    ) -> Page[TaskInstance]:
        return page_of(self._in_order(ids), order.position, limit=limit)

    def _in_order(
        self, ids: Sequence[UUID], *, next: Position | None = None
    ) -> Page[TaskInstance]:
        """The instances of these ids that are still there, in their order.

        An id that cannot be read finds nothing.
        """
        ids = [each for each in ids if isinstance(each, UUID)]
        if not ids:
            return Page(next=next)
        rows = self._rows(self._both.where(self._dialect.among(_column.id, ids)))
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
        by_time = order is DefinitionOrder.NEXT_FIRE_TIME
        rows: Sequence[Any] = ()
        # Only in this order, and of such conditions, the indexes have the page.
        of = DefinitionFilter(queues=where.queues, owners=where.owners)
        active = replace(of, state=DefinitionState.ACTIVE)
        if by_time and where == active and (after is None or after.at is not None):
            rows = self._rows(self._soonest(of, after, limit))
        # What has no fire time comes behind the others, and is in none of the indexes.
        if len(rows) < limit:
            query = LIVE if where.ids is None else live_among(self._dialect, where.ids)
            query = query.where(*self._of_definitions(where)).limit(limit)
            if by_time:
                query = query.order_by(_definition.next_fire_time.nulls_last())
            query = query.order_by(_definition.id)
            if after is not None:
                last = _fires_after(after) if by_time else _definition.id > after.id
                query = query.where(last)
            rows = self._rows(query, now=where.ids is not None)
        found = [definition_of(row) for row in rows]
        return page_of(found, order.position, limit=limit)

    def _of_definitions(self, where: DefinitionFilter) -> list[ColumnElement[bool]]:
        """What the definitions of a filter meet, but for their ids."""
        found = [*_among(where.queues, where.owners)]
        if where.metadata is not None:
            found.append(self._dialect.contains(where.metadata))
        if where.name is not None:
            found.append(contents.c.name == where.name)
        if (prefix := where.name_prefix) is not None:
            found.append(func.substr(contents.c.name, 1, len(prefix)) == prefix)
        if where.state is not None:
            found.append(_definition_state == where.state.value)
        return found

    def _soonest(
        self, of: DefinitionFilter, after: Position | None, limit: int
    ) -> Select[Any]:
        """Those that fire soonest, of the head of each index that has any."""
        query = LIVE.where(
            *self._of_definitions(of), _definition.completed_at.is_(None)
        )
        query = query.order_by(_definition.next_fire_time, _definition.id).limit(limit)
        if after is not None:
            later = _definition.next_fire_time > after.at
            query = query.where(
                _definition.next_fire_time >= after.at,
                or_(later, _definition.id > after.id),
            )
        due = self._dialect.first_of_each_shard(query.where(_IS_DUE), _definition.shard)
        late = query.where(_IS_LATE).subquery()
        found = union_all(select(due), select(late)).subquery()
        columns = (found.c.next_fire_time, found.c.id)
        return select(found).order_by(*columns).limit(limit)

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """How many instances meet each of some filters, by their state."""
        return self._list(lambda each: self._count_each(each, filters, most))

    def _count_each(
        self, connection: Connection, filters: Sequence[Filter], most: int | None
    ) -> Sequence[Mapping[State, Counted]]:
        if most is None:
            return [self._count_all(connection, each) for each in filters]
        others = [each for each in filters if not _is_of_all(each)]
        some = iter(self._count_some(connection, others, most) if others else ())
        return [
            # Whose each is has to be looked up.
            _Counting(
                connection,
                self._dialect,
                each,
                most if each == ANY else min(most, LOOKED_AT),
            ).every_state()
            if _is_of_all(each)
            else next(some)
            for each in filters
        ]

    def _count_all(
        self, connection: Connection, where: Filter
    ) -> Mapping[State, Counted]:
        source = instances if where == ANY else _BOTH
        query = select(_instance_state, func.count()).select_from(source)
        query = query.where(*self._conditions(where)).group_by(_instance_state)
        found: Counter[State] = Counter()
        for state, number in connection.execute(query):
            found[_state(state)] += number
        return {each: Counted(count=found[each]) for each in State}

    def _count_some(
        self, connection: Connection, filters: Sequence[Filter], most: int
    ) -> Sequence[Mapping[State, Counted]]:
        """Count the first instances of each filter, all by one statement."""
        heads = []
        for number, where in enumerate(filters):
            query = select(
                _instance_state.label("state"), literal(number).label("part")
            )
            query = query.select_from(_BOTH).where(*self._conditions(where))
            if where.fired_since is not None:
                query = query.order_by(_column.fire_time)
            elif where.definition_id is not None and where.is_open:
                index = "task_instances_open_idx"
                query = self._dialect.looked_up(query, instances, index)
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

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        holder = select(slots.c.instance_id).where(slots.c.name == slot)
        query = self._both.where(
            _column.id == holder.scalar_subquery(), _column.completed_at.is_(None)
        )
        rows = self._rows(query, now=True)
        return next(iter(self._reader.instances(Lane.BY_HAND, rows)), None)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        query = (
            select(*(runs.c[name] for name in _RUN_COLUMNS))
            .where(runs.c.instance_id == instance_id)
            .order_by(runs.c.attempt)
        )
        return [_run(row) for row in self._rows(query) if _is_readable(row)]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed.

        Only the gaps that these leave between them in the order of the index are walked
        over, and nothing of these queues: where claims have been made for hours, the
        traces that they leave in an index may take long to walk over.
        """

        def read(connection: Connection) -> set[str]:
            now = self._dialect.now(connection)
            several = len(apart_from) > 1
            ordered = self._dialect.ordered
            known = ordered(connection, apart_from) if several else apart_from
            found: set[str] = set()
            for low, high in pairwise(("", *known, None)):
                query = select(_column.queue).limit(1).where(_column.queue > low)
                if high is not None:
                    query = query.where(_column.queue < high)
                query = query.where(
                    _column.claimable_at.is_not(None), _column.claimable_at <= now
                )
                index = "task_instances_claimable_idx"
                query = self._dialect.looked_up(query, instances, index)
                found.update(connection.execute(query).scalars())
            return found

        return self._look(read)

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

    def _rows(self, query: Select[Any], *, now: bool = False) -> Sequence[Row[Any]]:
        """The rows of a query, as they are now, or were a moment ago."""

        def read(connection: Connection) -> Sequence[Row[Any]]:
            return connection.execute(query).all()

        return self._database.run(Lane.BY_HAND, read) if now else self._list(read)

    def _conditions(self, where: Filter) -> list[Any]:
        """What the instances of a filter meet, and their definitions beside them."""
        found = [*_of_states(where), *_among(None, where.owners)]
        if where.ids is not None:
            found.append(self._dialect.among(_column.id, where.ids))
        if where.definition_id is not None:
            live = select(_definition.key).where(
                _definition.id == where.definition_id, _definition.deleted_at.is_(None)
            )
            index = "task_definitions_id_key"
            key = self._dialect.looked_up(live, definitions, index).scalar_subquery()
            found.append(_column.definition_key == key)
        if where.name is not None:
            named = select(contents.c.key).where(contents.c.name == where.name)
            found.append(_column.definition_key.in_(named))
        if where.key is not None:
            found.append(_column.key == where.key)
        if where.parked is not None and not where.is_claimable:
            found.append(_column.parked.is_(where.parked))
        if where.unstarted:
            found.append(_UNSTARTED)
        if where.since is not None:
            found.append(_column.execute_at >= where.since)
        if where.fired is not None:
            is_fired = _column.fire_time.is_not(None)
            found.append(is_fired if where.fired else _column.fire_time.is_(None))
        if where.fired_since is not None:
            found.append(_column.fire_time >= where.fired_since)
        if where.fired_before is not None:
            found.append(_column.fire_time < where.fired_before)
        if where.queues is not None:
            found.append(_column.queue.in_(sorted(where.queues)))
        return found


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


def _is_of_all(where: Filter) -> bool:
    """Whether it has no conditions but on queues and owners."""
    return where.conditions <= {"queues", "owners"}


def _index_of(where: Filter, order: Order) -> str:
    """The index by which a definition's instances are looked up."""
    if where.key is not None:
        return "task_instances_key_key"
    by_fire_time = order is Order.FIRE_TIME
    return (
        "task_instances_open_idx"
        if where.is_open and not by_fire_time
        else "task_instances_fire_key"
    )


# All as the indexes say it, so that they are known to have them all.
_ANY: ColumnElement[str] = literal_column("''")
_IS_DUE = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
_IS_LATE = text("next_fire_time IS NOT NULL AND NOT paused AND late")


def _of(condition: str) -> TextClause:
    """What instances meet, by their columns as ``t``."""
    return text(condition.replace("t.", "task_instances."))


_IS_OPEN = _of("t.completed_at IS NULL AND t.outcome IS NULL")
_NOT_FROZEN = _of("NOT t.frozen")
_CLAIMED = _of("t.claimed_by IS NOT NULL AND t.completed_at IS NULL AND NOT t.frozen")
_UNRUN = (State.CANCELLED, State.SKIPPED)
# By how they ended, or what has an index with them: with what completed comes what
# never ran.
_ENDED = {
    State.FAILED: _of("t.completed_at IS NOT NULL AND t.outcome = 'failed'"),
    State.COMPLETED: _of("t.completed_at IS NOT NULL AND t.outcome <> 'failed'"),
    **{
        each: _of(
            "t.completed_at IS NOT NULL AND t.outcome IN ('cancelled', 'skipped')"
            f" AND t.outcome = '{each.value}'"
        )
        for each in _UNRUN
    },
}
_HELD = {State.CLAIMED, *RUNS}
_UNSTARTED = or_(
    _column.claimed_by.is_(None),
    _column.started_at.is_(None),
    # It is on a bus, and no worker has begun it.
    _column.start_by.is_not(None),
)


def _of_states(where: Filter) -> list[Any]:
    """The conditions on state and pause, as the indexes have them."""
    found: list[Any] = []
    states = None if where.states is None else set(where.states)
    # Beside these conditions, those of another index would let SQLite take that one.
    if where.definition_id is None and where.is_claimable:
        return [_column.claimable_at.is_not(None)]
    if where.definition_id is None and states == _HELD and where.paused is False:
        return [_CLAIMED]
    if where.is_open:
        # By this alone it is known that the index of what is open has them all.
        found.append(_IS_OPEN)
    elif states is not None and len(states) == 1 and not states & {*OPEN}:
        found += [_ENDED[each] for each in states]
    if where.is_claimable:
        return [*found, _column.claimable_at.is_not(None)]
    if states is not None and states <= _HELD:
        found.append(_column.claimed_by.is_not(None))
    if states not in (None, _HELD, {*OPEN}):
        found.append(_instance_state.in_([each.value for each in states or ()]))
    if where.paused is not None and where.is_open:
        found.append(_column.frozen if where.paused else _NOT_FROZEN)
    elif where.paused is not None:
        found.append(_definition.paused.is_(where.paused))
    return found


def _among(
    queues: Collection[str] | None, owners: Collection[str] | None
) -> Sequence[ColumnElement[bool]]:
    """Whether a definition has one of these queues and owners; None: any will do."""
    columns = ((_definition.queue, queues), (_definition.owner, owners))
    found = [each.in_(sorted(of)) for each, of in columns if of is not None]
    return found if queues is None else [*found, _definition.queue >= _ANY]


def _are_of(
    some: Subquery, queues: Collection[str] | None, owners: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """Whether some instances are of these queues and owners, which are looked up."""
    found: list[ColumnElement[bool]] = []
    if queues is not None:
        found.append(some.c.queue.in_(sorted(queues)))
    if owners is not None:
        of = _definition.key == some.c.definition_key
        owner = select(_definition.owner).where(of).scalar_subquery()
        found.append(owner.in_(sorted(owners)))
    return found


def _comes_after(
    last: Position, order: Order, *, descending: bool
) -> ColumnElement[bool]:
    """Whether an instance belongs on the next page."""
    id = _column.id < last.id if descending else _column.id > last.id
    if order is Order.ID:
        return id
    at = _column[order.value]
    if descending:
        return and_(at <= last.at, or_(at < last.at, id))
    if last.at == LATEST:
        # LATEST stands for all times that cannot be read: they are one place.
        return and_(at >= LATEST, id)
    return and_(at >= last.at, or_(at > last.at, id))


def _fires_after(last: Position) -> ColumnElement[bool]:
    """Whether a definition belongs on the next page, those that fire soonest first."""
    never = _definition.next_fire_time.is_(None)
    if last.at is None:
        return and_(never, _definition.id > last.id)
    same = and_(_definition.next_fire_time == last.at, _definition.id > last.id)
    return or_(_definition.next_fire_time > last.at, same, never)


_definition_state = case(
    (
        _definition.completed_at.is_not(None),
        literal(DefinitionState.COMPLETED.value),
    ),
    (_definition.paused, literal(DefinitionState.PAUSED.value)),
    else_=literal(DefinitionState.ACTIVE.value),
)
_instance_state = case(
    (_column.outcome.is_not(None), _column.outcome),
    (_column.claimed_by.is_(None), literal(State.PENDING.value)),
    (_column.started_at.is_(None), literal(State.CLAIMED.value)),
    (_column.cancel_requested, literal(State.CANCELLING.value)),
    else_=literal(State.RUNNING.value),
)


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


def _state(value: str) -> State:
    # What is no outcome of ours, and was written by hand, has not ended.
    return _STATES.get(value, State.PENDING)


@dataclass(frozen=True)
class _Counting:
    """Counts what is of some queues and owners, state by state, amid so many of all.

    Attributes:
        connection: Where.
        dialect: The engine's own words.
        where: Whose it is.
        most: So many are counted, and looked at.
    """

    connection: Connection
    dialect: Dialect
    where: Filter
    most: int

    def every_state(self) -> Mapping[State, Counted]:
        """The numbers of all states."""
        found: dict[State, Counted] = {}
        are_open = _in_state(_instance_state, _IS_OPEN).order_by(_column.definition_key)
        first = select(func.count()).select_from(self._first(are_open))
        if self.connection.execute(first).scalar_one() <= self.most:
            found |= self._counts(OPEN, are_open)
        else:
            # Those that are claimed may be few amid many that are not.
            claimed = [each for each in OPEN if each is not State.PENDING]
            by_expiry = _in_state(_instance_state, _CLAIMED)
            by_expiry = by_expiry.order_by(*self._shard, _column.expires_at)
            found |= self._counts(claimed, by_expiry)
            found[State.PENDING] = self._waiting()
        latest = [each.desc() for each in (*self._shard, _column.completed_at)]
        for each, condition in _ENDED.items():
            # Only with what completed the index has others, and the row is read.
            is_mixed = each is State.COMPLETED
            state = _column.outcome if is_mixed else literal(each.value)
            ended = _in_state(state, condition).order_by(*latest)
            found |= self._counts([each], ended)
        return found

    @property
    def _shard(self) -> Sequence[ColumnElement[int]]:
        """What comes before the time in an index."""
        return [_column.shard] if self.dialect.shards > 1 else []

    def _counts(
        self, states: Sequence[State], query: Select[Any]
    ) -> dict[State, Counted]:
        """How many of the first of a query are theirs, in each of these states."""
        counts, seen = self._theirs(query, self.where.queues)
        return {
            each: Counted(
                count=min(counts[each.value], self.most), more=seen > self.most
            )
            for each in states
        }

    def _waiting(self) -> Counted:
        """How many can be claimed, or will be when they are due."""
        pending = State.PENDING.value
        waits = _in_state(literal(pending), _column.claimable_at.is_not(None))
        order = (_column.priority, *self._shard, _column.claimable_at)
        parts = [waits.order_by(_column.queue, *order)]
        if self.where.queues is not None:
            # That of what is open follows the definition's. Without the whole order of
            # the index all that waits in a queue would be read and sorted.
            parts = [
                waits.where(_column.queue == each).order_by(*order)
                for each in sorted(self.where.queues)
            ]
        total = seen = 0
        for part in parts:
            if seen <= self.most:
                counts, looked_at = self._theirs(part, None)
                total += counts[pending]
                seen += looked_at
        # Those that are parked or paused are not looked at.
        return Counted(count=min(total, self.most), more=True)

    def _theirs(
        self, query: Select[Any], queues: Collection[str] | None
    ) -> tuple[Counter[str], int]:
        """How many of the first are theirs, by state; how many were looked at."""
        if self.where == ANY:
            first = self._first(query)
            counted = select(first.c.state, func.count()).group_by(first.c.state)
            rows = self.connection.execute(counted)
            found = Counter({row[0]: row[1] for row in rows})
            return found, found.total()
        first = self._first(query.add_columns(_column.definition_key, _column.queue))
        # What has one definition is looked up together.
        group = (first.c.state, first.c.definition_key, first.c.queue)
        by_key = (
            select(*group, func.count().label("number")).group_by(*group).subquery()
        )
        is_theirs = and_(true(), *_are_of(by_key, queues, self.where.owners))
        some = select(by_key.c.state, by_key.c.number, is_theirs.label("is_theirs"))
        each = some.subquery()
        theirs = case((each.c.is_theirs, each.c.number), else_=0)
        numbers = (each.c.state, func.sum(theirs), func.sum(each.c.number))
        summed = self.connection.execute(select(*numbers).group_by(each.c.state)).all()
        found = Counter({row[0]: int(row[1]) for row in summed})
        return found, sum(int(row[2]) for row in summed)

    def _first(self, query: Select[Any]) -> Subquery:
        """The first rows of a query, up to one more than the most."""
        return query.limit(self.most + 1).subquery()


def _in_state(state: ColumnElement[Any], condition: Any) -> Select[Any]:
    """The states of the instances that meet a condition."""
    return select(state.label("state")).select_from(instances).where(condition)
