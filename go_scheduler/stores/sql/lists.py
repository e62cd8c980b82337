"""The queries of reads: a filter as conditions, an order as that of an index."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    and_,
    case,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    union_all,
)

from go_scheduler.models import OPEN, RUNS, DefinitionState, Outcome, State
from go_scheduler.stores.filters import DefinitionFilter, DefinitionOrder, Filter, Order
from go_scheduler.stores.sql.edits import LIVE, live_among
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, INSTANCE_COLUMNS, LATEST
from go_scheduler.stores.sql.tables import contents, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, Subquery

    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.sql.tables import Dialect

BOTH = select(
    *(instances.c[name] for name in INSTANCE_COLUMNS),
    *(definitions.c[name].label(f"d_{name}") for name in DEFINITION_COLUMNS),
).outerjoin_from(
    instances, definitions, definitions.c.key == instances.c.definition_key
)


def definitions_like(
    dialect: Dialect,
    where: DefinitionFilter,
    order: DefinitionOrder,
    *,
    after: Position | None,
    limit: int,
) -> Select[Any]:
    """A page of definitions with their contents, as ``Store.select_definitions``."""
    query = LIVE if where.ids is None else live_among(dialect, where.ids)
    query = query.limit(limit)
    by_time = order is DefinitionOrder.NEXT_FIRE_TIME
    if by_time:
        query = query.order_by(definitions.c.next_fire_time.nulls_last())
    query = query.order_by(definitions.c.id)
    if where.metadata is not None:
        query = query.where(dialect.contains(where.metadata))
    if where.name is not None:
        query = query.where(contents.c.name == where.name)
    if (prefix := where.name_prefix) is not None:
        query = query.where(func.substr(contents.c.name, 1, len(prefix)) == prefix)
    query = query.where(*among(where.queues, where.owners))
    if where.state is not None:
        query = query.where(definition_state == where.state.value)
    if after is not None and by_time:
        query = query.where(fires_after(after))
    elif after is not None:
        query = query.where(definitions.c.id > after.id)
    return query


def instances_like(
    query: Select[Any],
    dialect: Dialect,
    where: Filter,
    order: Order,
    *,
    descending: bool,
    after: Position | None,
) -> Select[Any]:
    """Those of the instances that meet a filter, in an order.

    Args:
        query: Selects them all, with their definitions.
        dialect: The engine's own words.
        where: As for ``Store.select``.
        order: As there.
        descending: As there.
        after: As there.
    """
    query = query.where(*conditions(dialect, where))
    if where.definition_id is not None:
        index = _index_of(where, order)
        query = dialect.looked_up(query, instances, index)
    column = instances.c[order.value]
    columns = [column, instances.c.id]
    if column.nullable:
        query = query.where(column.is_not(None))
    of_one = order is Order.FIRE_TIME and where.definition_id is not None
    if order is Order.ID or of_one:
        # Each fire time of a definition has one instance: its index has this order.
        columns = [column]
    query = query.order_by(*((each.desc() if descending else each) for each in columns))
    if after is not None:
        query = query.where(comes_after(after, order, descending=descending))
    return query


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


def conditions(
    dialect: Dialect, where: Filter, key: ScalarSelect[Any] | None = None
) -> list[ColumnElement[bool]]:
    """What the instances of a filter meet, and their definitions beside them.

    Args:
        dialect: The engine's own words.
        where: The filter.
        key: Selects the key of its definition; None: that is made here.
    """
    found: list[ColumnElement[bool]] = []
    if where.ids is not None:
        found.append(dialect.among(_column.id, where.ids))
    if where.definition_id is not None:
        if key is None:
            key = live_key(dialect, where.definition_id).scalar_subquery()
        found.append(_column.definition_key == key)
    if where.name is not None:
        named = select(contents.c.key).where(contents.c.name == where.name)
        found.append(_column.definition_key.in_(named))
    if where.key is not None:
        found.append(_column.key == where.key)
    found += _of_states(where)
    if where.parked is not None and not where.is_claimable:
        found.append(_column.parked.is_(where.parked))
    if where.unstarted:
        found.append(UNSTARTED)
    if where.since is not None:
        found.append(_column.execute_at >= where.since)
    if where.fired is not None:
        has_none = _column.fire_time.is_(None)
        found.append(not_(has_none) if where.fired else has_none)
    if where.fired_since is not None:
        found.append(_column.fire_time >= where.fired_since)
    if where.fired_before is not None:
        found.append(_column.fire_time < where.fired_before)
    if where.queues is not None:
        found.append(_column.queue.in_(sorted(where.queues)))
    return [*found, *among(None, where.owners)]


def _of_states(where: Filter) -> list[ColumnElement[bool]]:
    """The conditions on state and pause, as the indexes have them."""
    found: list[ColumnElement[bool]] = []
    states = None if where.states is None else set(where.states)
    # Beside these conditions, those of another index would let SQLite take that one.
    if where.definition_id is None and where.is_claimable:
        return [_column.claimable_at.is_not(None)]
    if where.definition_id is None and states == HELD and where.paused is False:
        return [CLAIMED]
    if where.is_open:
        # By this alone it is known that the index of what is open has them all.
        found.append(IS_OPEN)
    elif states is not None and len(states) == 1 and not states & {*OPEN}:
        found.append(ended_as(*states))
    if where.is_claimable:
        return [*found, _column.claimable_at.is_not(None)]
    if states is not None and states <= HELD:
        found.append(_column.claimed_by.is_not(None))
    if states not in (None, HELD, {*OPEN}):
        found.append(instance_state.in_([each.value for each in states or ()]))
    if where.paused is not None and where.is_open:
        found.append(_column.frozen if where.paused else _NOT_FROZEN)
    elif where.paused is not None:
        found.append(definitions.c.paused.is_(where.paused))
    return found


def live_key(dialect: Dialect, definition_id: UUID) -> Select[Any]:
    """Selects the key of a definition, if there is one of this id."""
    live = select(definitions.c.key).where(
        definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
    )
    return dialect.looked_up(live, definitions, "task_definitions_id_key")


_ANY: ColumnElement[str] = literal_column("''")


def among(
    queues: Collection[str] | None, owners: Collection[str] | None
) -> Sequence[ColumnElement[bool]]:
    """Whether a definition has one of these queues and owners; None: any will do."""
    columns = ((definitions.c.queue, queues), (definitions.c.owner, owners))
    found = [each.in_(sorted(of)) for each, of in columns if of is not None]
    # As the index of queues says it, so that it is known to have them all.
    return found if queues is None else [*found, definitions.c.queue >= _ANY]


def are_of(
    some: Subquery, queues: Collection[str] | None, owners: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """Whether some instances are of these queues and owners, which are looked up."""
    found: list[ColumnElement[bool]] = []
    if queues is not None:
        found.append(some.c.queue.in_(sorted(queues)))
    if owners is not None:
        of = definitions.c.key == some.c.definition_key
        owner = select(definitions.c.owner).where(of).scalar_subquery()
        found.append(owner.in_(sorted(owners)))
    return found


def comes_after(
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


def fires_after(last: Position) -> ColumnElement[bool]:
    """Whether a definition belongs on the next page, those that fire soonest first."""
    column = definitions.c
    never = column.next_fire_time.is_(None)
    if last.at is None:
        return and_(never, column.id > last.id)
    same = and_(column.next_fire_time == last.at, column.id > last.id)
    return or_(column.next_fire_time > last.at, same, never)


definition_state = case(
    (
        definitions.c.completed_at.is_not(None),
        literal(DefinitionState.COMPLETED.value),
    ),
    (definitions.c.paused, literal(DefinitionState.PAUSED.value)),
    else_=literal(DefinitionState.ACTIVE.value),
)
instance_state = case(
    (instances.c.outcome.is_not(None), instances.c.outcome),
    (instances.c.claimed_by.is_(None), literal(State.PENDING.value)),
    (instances.c.started_at.is_(None), literal(State.CLAIMED.value)),
    (instances.c.cancel_requested, literal(State.CANCELLING.value)),
    else_=literal(State.RUNNING.value),
)


_column = instances.c
# All as the indexes say it, so that they are known to have them all.
_FAILED: ColumnElement[str] = literal_column(f"'{Outcome.FAILED.value}'")
IS_OPEN = and_(_column.completed_at.is_(None), _column.outcome.is_(None))
HAS_FAILED = and_(_column.completed_at.is_not(None), _column.outcome == _FAILED)
HAS_ENDED = and_(_column.completed_at.is_not(None), _column.outcome != _FAILED)
# As the index says it.
UNRUN = (State.CANCELLED, State.SKIPPED)
_WORDS: list[ColumnElement[str]] = [literal_column(f"'{each.value}'") for each in UNRUN]
_ENDED_UNRUN = and_(_column.completed_at.is_not(None), _column.outcome.in_(_WORDS))
# As the index says it, and without a type: SQLite would be asked for frozen = 0.
_NOT_FROZEN: ColumnElement[bool] = literal_column("NOT task_instances.frozen")
HELD = {State.CLAIMED, *RUNS}
CLAIMED = and_(
    _column.claimed_by.is_not(None), _column.completed_at.is_(None), _NOT_FROZEN
)
UNSTARTED = or_(
    _column.claimed_by.is_(None),
    _column.started_at.is_(None),
    # It is on a bus, and no worker has begun it.
    _column.start_by.is_not(None),
)


def ended_as(state: State) -> ColumnElement[bool]:
    """What has ended in a way, or is among what has an index with others.

    Args:
        state: Which way; with that of what completed come those that never ran.
    """
    if state is State.FAILED:
        return HAS_FAILED
    if state is State.COMPLETED:
        return HAS_ENDED
    return and_(_ENDED_UNRUN, _column.outcome == state.value)


def ended_first(
    dialect: Dialect,
    state: State,
    where: Filter,
    *,
    after: Position | None,
    scan_limit: int,
) -> Select[Any]:
    """What ended in one way, those that ended last first, and how far it was looked.

    Args:
        dialect: The engine's own words.
        state: How they ended.
        where: Of which queues and owners they are.
        after: They come after this.
        scan_limit: So many are looked at. The last of these is among what is found,
            though it may have another outcome, or be of another queue: ``is_theirs``
            says so.
    """
    # As a number, so that every plan knows how few it is.
    few: ColumnElement[int] = literal_column(f"{scan_limit:d}")
    some = _latest_ended(dialect, state, after, few).subquery()
    theirs = are_of(some, where.queues, where.owners)
    is_theirs = and_(some.c.outcome == state.value, *theirs)
    return (
        select(
            some.c.id, some.c.completed_at, some.c.place, is_theirs.label("is_theirs")
        )
        .where(or_(is_theirs, some.c.place == few))
        .order_by(some.c.completed_at.desc(), some.c.id.desc())
    )


def _latest_ended(
    dialect: Dialect, state: State, after: Position | None, few: ColumnElement[int]
) -> Select[Any]:
    """What ended last of what an index has beside those with this outcome."""
    query = select(
        _column.id,
        _column.completed_at,
        _column.outcome,
        _column.definition_key,
        _column.queue,
    )
    query = query.where(ended_as(state))
    if after is not None:
        query = query.where(comes_after(after, Order.END, descending=True))
    query = query.order_by(_column.completed_at.desc(), _column.id.desc()).limit(few)
    found = dialect.first_of_each_shard(query, _column.shard)
    order = (found.c.completed_at.desc(), found.c.id.desc())
    place = func.row_number().over(order_by=order).label("place")
    return select(found, place).order_by(*order).limit(few)


_definition = definitions.c
# As the indexes say it, so that they are known to have them all.
_IS_DUE = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
_IS_LATE = text("next_fire_time IS NOT NULL AND NOT paused AND late")


def page_of_definitions(
    connection: Connection,
    dialect: Dialect,
    where: DefinitionFilter,
    order: DefinitionOrder,
    *,
    after: Position | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Read a page of definitions with their contents."""
    # Only in these orders, and of such conditions, the indexes have the page.
    is_indexed = (
        order is DefinitionOrder.NEXT_FIRE_TIME
        and where.state is DefinitionState.ACTIVE
        and (after is None or after.at is not None)
        and where
        == DefinitionFilter(queues=where.queues, owners=where.owners, state=where.state)
    )
    if is_indexed:
        query = _soonest(dialect, where, after=after, limit=limit)
        rows = connection.execute(query).all()
        if len(rows) == limit:
            return rows
    # What has no fire time comes behind the others, and is in none of the indexes.
    query = definitions_like(dialect, where, order, after=after, limit=limit)
    return connection.execute(query).all()


def _soonest(
    dialect: Dialect, where: DefinitionFilter, *, after: Position | None, limit: int
) -> Select[Any]:
    """Those that fire soonest, of the head of each index that has any."""
    order = DefinitionOrder.NEXT_FIRE_TIME
    where = replace(where, state=None)
    query = definitions_like(dialect, where, order, after=None, limit=limit)
    query = query.where(_definition.completed_at.is_(None))
    if after is not None:
        later = _definition.next_fire_time > after.at
        query = query.where(
            _definition.next_fire_time >= after.at,
            or_(later, _definition.id > after.id),
        )
    due = dialect.first_of_each_shard(query.where(_IS_DUE), _definition.shard)
    late = query.where(_IS_LATE).subquery()
    found = union_all(select(due), select(late)).subquery()
    columns = (found.c.next_fire_time, found.c.id)
    return select(found).order_by(*columns).limit(limit)


def due_queues(
    connection: Connection, dialect: Dialect, apart_from: Collection[str]
) -> set[str]:
    """One of each gap that these leave between them in the order of the index.

    Only the gaps are walked over, and nothing of these queues: where claims have been
    made for hours, the traces that they leave in an index may take long to walk over.
    """
    now = dialect.now(connection)
    several = len(apart_from) > 1
    known = dialect.ordered(connection, apart_from) if several else apart_from
    bounds = ("", *known, None)
    found: set[str] = set()
    for low, high in pairwise(bounds):
        queue = instances.c.queue
        query = select(queue).limit(1).where(queue > low)
        if high is not None:
            query = query.where(queue < high)
        query = query.where(
            instances.c.claimable_at.is_not(None), instances.c.claimable_at <= now
        )
        query = dialect.looked_up(query, instances, "task_instances_claimable_idx")
        found.update(connection.execute(query).scalars())
    return found
