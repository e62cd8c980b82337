"""Queries for lists and counts: each reads the ends of indexes, up to a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

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

from go_scheduler.models import OPEN, Counted, DefinitionState, Outcome, State
from go_scheduler.stores.sql.edits import LIVE, live_among
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, INSTANCE_COLUMNS, LATEST
from go_scheduler.stores.sql.tables import contents, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, Subquery

    from go_scheduler.json import JSON
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
    *,
    ids: Collection[UUID] | None = None,
    metadata: Mapping[str, JSON] | None = None,
    name: str | None = None,
    queue: str | None = None,
    owner: str | None = None,
    queues: Collection[str] | None = None,
    owners: Collection[str] | None = None,
    state: DefinitionState | None = None,
    soonest_first: bool = False,
    after: Position | None = None,
    limit: int,
) -> Select[Any]:
    """A page of definitions with their contents, as ``Store.list_definitions``."""
    query = LIVE if ids is None else live_among(dialect, ids)
    query = query.limit(limit)
    if soonest_first:
        query = query.order_by(definitions.c.next_fire_time.nulls_last())
    query = query.order_by(definitions.c.id)
    if metadata is not None:
        query = query.where(dialect.contains(metadata))
    if name is not None:
        query = query.where(contents.c.name == name)
    if queue is not None:
        query = query.where(*among([queue], None))
    if owner is not None:
        query = query.where(definitions.c.owner == owner)
    query = query.where(*among(queues, owners))
    if state is not None:
        query = query.where(definition_state == state.value)
    if after is not None and soonest_first:
        query = query.where(fires_after(after))
    elif after is not None:
        query = query.where(definitions.c.id > after.id)
    return query


def instances_like(
    query: Select[Any],
    dialect: Dialect,
    *,
    definition_id: UUID | None,
    name: str | None,
    key: str | None,
    state: State | None,
    since: datetime | None,
    fired_since: datetime | None,
    fired_before: datetime | None,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
    newest_first: bool,
    after: Position | None,
) -> Select[Any]:
    """Instances in their order, as ``Store.list_instances``.

    Args:
        query: Selects them all.
        dialect: The engine's own words.
        definition_id: The others are as there.
        name: As there.
        key: As there.
        state: As there.
        since: As there.
        fired_since: As there.
        fired_before: As there.
        queues: As there.
        owners: As there.
        newest_first: As there.
        after: As there.
    """
    column = instances.c
    order = (column.execute_at, column.id)
    query = query.order_by(
        *((each.desc() for each in order) if newest_first else order)
    )
    if definition_id is not None:
        live = select(definitions.c.key).where(
            definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
        )
        live = dialect.looked_up(live, definitions, "task_definitions_id_key")
        query = dialect.looked_up(
            query.where(column.definition_key == live.scalar_subquery()),
            instances,
            _index_of(key, state),
        )
    if name is not None:
        named = select(contents.c.key).where(contents.c.name == name)
        query = query.where(column.definition_key.in_(named))
    if key is not None:
        query = query.where(column.key == key)
    if state is not None:
        query = query.where(instance_state == state.value)
    if state in OPEN:
        # By this alone it is known that the index of what is open has them all.
        query = query.where(column.completed_at.is_(None), column.outcome.is_(None))
    if since is not None:
        query = query.where(column.execute_at >= since)
    if fired_since is not None:
        query = query.where(column.fire_time >= fired_since)
    if fired_before is not None:
        query = query.where(column.fire_time < fired_before)
    query = query.where(*among(queues, owners))
    if after is not None:
        query = query.where(comes_after(after, newest_first=newest_first))
    return query


def _index_of(key: str | None, state: State | None) -> str:
    """The index by which a definition's instances are looked up."""
    if key is not None:
        return "task_instances_key_key"
    return "task_instances_open_idx" if state in OPEN else "task_instances_fire_key"


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
    """Whether some instances are of these queues and owners: looked up for each."""
    found: list[ColumnElement[bool]] = []
    for column, of in ((definitions.c.queue, queues), (definitions.c.owner, owners)):
        if of is not None:
            value = select(column).where(definitions.c.key == some.c.definition_key)
            found.append(value.scalar_subquery().in_(sorted(of)))
    return found


def comes_after(last: Position, *, newest_first: bool) -> ColumnElement[bool]:
    """Whether an instance belongs on the next page."""
    column = instances.c
    if newest_first:
        earlier = column.execute_at < last.at
        same = and_(column.execute_at == last.at, column.id < last.id)
        return or_(earlier, same)
    if last.at == LATEST:
        # LATEST stands for all times that cannot be read: they are one place.
        return and_(column.execute_at >= LATEST, column.id > last.id)
    same = and_(column.execute_at == last.at, column.id > last.id)
    return or_(column.execute_at > last.at, same)


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
_HAS_FAILED = and_(_column.completed_at.is_not(None), _column.outcome == _FAILED)
_HAS_ENDED = and_(_column.completed_at.is_not(None), _column.outcome != _FAILED)
# As the index says it.
UNRUN = (State.CANCELLED, State.SKIPPED)
_WORDS: list[ColumnElement[str]] = [literal_column(f"'{each.value}'") for each in UNRUN]
_ENDED_UNRUN = and_(_column.completed_at.is_not(None), _column.outcome.in_(_WORDS))
CLAIMED = and_(
    _column.claimed_by.is_not(None),
    _column.completed_at.is_(None),
    literal_column("NOT task_instances.frozen"),
)


def ended_as(state: State) -> ColumnElement[bool]:
    """What has ended in a way, or is among what has an index with others.

    Args:
        state: Which way; with that of what completed come those that never ran.
    """
    if state is State.FAILED:
        return _HAS_FAILED
    if state is State.COMPLETED:
        return _HAS_ENDED
    return and_(_ENDED_UNRUN, _column.outcome == state.value)


def count_waiting(
    connection: Connection,
    dialect: Dialect,
    *,
    key: UUID | ScalarSelect[UUID],
    most: int,
) -> int:
    """How many instances of a definition wait, up to a bound.

    Args:
        connection: Where.
        dialect: The engine's own words.
        key: Of the definition's row.
        most: So many are counted at most.
    """
    waits = or_(
        _column.claimed_by.is_(None),
        _column.started_at.is_(None),
        # It is on a bus, and no worker has begun it.
        _column.start_by.is_not(None),
    )
    waiting = select(_column.id).where(_column.definition_key == key, IS_OPEN, waits)
    waiting = dialect.looked_up(waiting, instances, "task_instances_open_idx")
    some = waiting.limit(most).subquery()
    found: int = connection.execute(select(func.count()).select_from(some)).scalar_one()
    return found


def counts_up_to(connection: Connection, most: int) -> Mapping[State, Counted]:
    """How many instances are in each state, as far as they have to be counted."""
    failed = number_up_to(connection, in_order_of_ends(_HAS_FAILED), most)
    ended = _by_state(connection, in_order_of_ends(_HAS_ENDED), most)
    more = sum(ended.values()) > most
    unrun = {
        each: number_up_to(connection, in_order_of_ends(ended_as(each)), most)
        for each in UNRUN
    }
    return {
        **_of_open(connection, most),
        State.FAILED: Counted.up_to(most, failed),
        State.COMPLETED: at_least(ended, State.COMPLETED, most, more=more),
        **{each: Counted.up_to(most, number) for each, number in unrun.items()},
    }


def _of_open(connection: Connection, most: int) -> dict[State, Counted]:
    key = _column.definition_key
    total = number_up_to(connection, select(key).where(IS_OPEN).order_by(key), most)
    if total <= most:
        counts = _by_state(connection, with_state(IS_OPEN).order_by(key), most)
        return {each: at_least(counts, each, most, more=False) for each in OPEN}
    # Those that are claimed may be few amid many that are not.
    claimed = with_state(CLAIMED).order_by(_column.expires_at)
    counts = _by_state(connection, claimed, most)
    more = sum(counts.values()) > most
    queue = _column.queue
    waiting = select(queue).where(_column.claimable_at.is_not(None)).order_by(queue)
    counts[State.PENDING] = number_up_to(connection, waiting, most)
    return {
        each: at_least(counts, each, most, more=more or each is State.PENDING)
        for each in OPEN
    }


def at_least(
    counts: Mapping[str, int], state: State, most: int, *, more: bool
) -> Counted:
    """What was counted of a state, up to the most; whether there may be more of it."""
    return Counted(count=min(counts.get(state.value, 0), most), more=more)


def number_up_to(connection: Connection, query: Select[Any], most: int) -> int:
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


def with_state(condition: ColumnElement[bool]) -> Select[Any]:
    """The states of the instances that meet a condition."""
    return select(instance_state.label("state")).where(condition)


def in_order_of_ends(index: ColumnElement[bool]) -> Select[Any]:
    """How what an index has ended, the latest first."""
    ended = select(_column.outcome.label("state")).where(index)
    return ended.order_by(_column.completed_at.desc())


def counts_among(
    connection: Connection,
    dialect: Dialect,
    most: int,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> Mapping[State, Counted]:
    """How many of some queues and owners are in each state, amid so many of all."""
    theirs = _Theirs(connection, most, queues, owners)
    found: dict[State, Counted] = {}
    key = _column.definition_key
    if number_up_to(connection, select(key).where(IS_OPEN).order_by(key), most) <= most:
        found |= theirs.counts(OPEN, with_state(IS_OPEN).order_by(key))
    else:
        # Those that are claimed may be few amid many that are not.
        claimed = [each for each in OPEN if each is not State.PENDING]
        found |= theirs.counts(
            claimed, with_state(CLAIMED).order_by(_column.expires_at)
        )
        found[State.PENDING] = theirs.waiting(dialect)
    for each in (State.FAILED, State.COMPLETED, *UNRUN):
        found |= theirs.counts([each], in_order_of_ends(ended_as(each)))
    return found


@dataclass(frozen=True)
class _Theirs:
    """Counts what is of some queues and owners.

    Attributes:
        connection: Where.
        most: So many are looked at for each number.
        queues: The definition's is among these; None: any.
        owners: Likewise.
    """

    connection: Connection
    most: int
    queues: Collection[str] | None
    owners: Collection[str] | None

    def counts(
        self, states: Sequence[State], query: Select[Any]
    ) -> dict[State, Counted]:
        """How many of the first of a query are theirs, in each of these states."""
        counts, seen = self._of(query, self.queues)
        more = seen > self.most
        return {each: at_least(counts, each, self.most, more=more) for each in states}

    def waiting(self, dialect: Dialect) -> Counted:
        """How many can be claimed, or will be when they are due."""
        waits = with_state(_column.claimable_at.is_not(None))
        shard = [_column.shard] if dialect.shards > 1 else []
        order = (_column.priority, *shard, _column.claimable_at)
        parts = [waits.order_by(_column.queue, *order)]
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
        return at_least(total, State.PENDING, self.most, more=True)

    def _of(
        self, query: Select[Any], queues: Collection[str] | None
    ) -> tuple[Mapping[str, int], int]:
        """How many of the first are theirs, by state; how many were looked at."""
        first = (
            query.add_columns(_column.definition_key).limit(self.most + 1).subquery()
        )
        # What has one definition is looked up together.
        group = (first.c.state, first.c.definition_key)
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


def ended_first(
    outcome: Outcome,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
    *,
    before: Position | None,
    most: int,
) -> Select[Any]:
    """What ended in one way, those that ended last first, and how far it was looked.

    Args:
        outcome: How they ended.
        queues: As for ``Store.list_ended``.
        owners: As there.
        before: As there.
        most: So many are looked at. The last of these is among what is found, though
            it may have another outcome, or be somebody else's: ``is_theirs`` says so.
    """
    # As a number, so that every plan knows how few it is.
    few: ColumnElement[int] = literal_column(f"{most:d}")
    some = _latest_ended(outcome, before).limit(few).subquery()
    is_theirs = and_(some.c.outcome == outcome.value, *are_of(some, queues, owners))
    return (
        select(some.c.id, some.c.completed_at, is_theirs.label("is_theirs"))
        .where(or_(is_theirs, some.c.place == few))
        .order_by(some.c.completed_at.desc(), some.c.id.desc())
    )


def _latest_ended(outcome: Outcome, before: Position | None) -> Select[Any]:
    """What ended last of what an index has beside those with this outcome."""
    order = (_column.completed_at.desc(), _column.id.desc())
    query = select(
        _column.id,
        _column.completed_at,
        _column.outcome,
        _column.definition_key,
        func.row_number().over(order_by=order).label("place"),
    )
    query = query.where(ended_as(State(outcome.value)))
    if before is not None:
        query = query.where(
            _column.completed_at <= before.at,
            or_(_column.completed_at < before.at, _column.id < before.id),
        )
    return query.order_by(*order)


_definition = definitions.c
# As the indexes say it, so that they are known to have them all.
_IS_DUE = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
_IS_LATE = text("next_fire_time IS NOT NULL AND NOT paused AND late")
_OF_CONTENTS = ("ids", "metadata", "name")


def page_of_definitions(
    connection: Connection, dialect: Dialect, *, limit: int, **conditions: Any
) -> Sequence[Row[Any]]:
    """Read a page of definitions with their contents, as ``Store.list_definitions``.

    Args:
        connection: Where.
        dialect: The engine's own words.
        limit: The most of them.
        conditions: As for ``definitions_like``.
    """
    active = conditions.get("state") is DefinitionState.ACTIVE
    if active and conditions.get("soonest_first") and _are_in_order(conditions):
        rows = connection.execute(_soonest(dialect, limit, **conditions)).all()
        if len(rows) == limit:
            return rows
    # What has no fire time comes behind the others, and is in none of the indexes.
    query = definitions_like(dialect, limit=limit, **conditions)
    return connection.execute(query).all()


def _are_in_order(conditions: dict[str, Any]) -> bool:
    """Whether the page is in the order of the indexes, and easily found by them."""
    after = conditions.get("after")
    if after is not None and after.at is None:
        return False
    return all(conditions.get(each) is None for each in _OF_CONTENTS)


def _soonest(
    dialect: Dialect, limit: int, *, after: Position | None = None, **conditions: Any
) -> Select[Any]:
    """Those that fire soonest, of the head of each index that has any."""
    query = definitions_like(dialect, limit=limit, **conditions | {"state": None})
    query = query.where(_definition.completed_at.is_(None))
    if after is not None:
        later = _definition.next_fire_time > after.at
        query = query.where(
            _definition.next_fire_time >= after.at,
            or_(later, _definition.id > after.id),
        )
    due = (query.where(part, _IS_DUE) for part in dialect.parts(_definition.shard))
    heads = [select(each.subquery()) for each in (*due, query.where(_IS_LATE))]
    found = union_all(*heads).subquery()
    order = (found.c.next_fire_time, found.c.id)
    return select(found).order_by(*order).limit(limit)


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
