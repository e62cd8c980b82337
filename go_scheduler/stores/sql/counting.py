"""Counts that end at a bound: each is of the end of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal_column, or_, select

from go_scheduler.models import OPEN, Outcome, State
from go_scheduler.models.looked_up import Counted
from go_scheduler.stores.sql.lists import among, instance_state
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select

_column = instances.c
# All as the indexes say it, so that they are known to have them all.
_FAILED: ColumnElement[str] = literal_column(f"'{Outcome.FAILED.value}'")
_OPEN = and_(_column.completed_at.is_(None), _column.outcome.is_(None))
_HAS_FAILED = and_(_column.completed_at.is_not(None), _column.outcome == _FAILED)
_HAS_ENDED = and_(_column.completed_at.is_not(None), _column.outcome != _FAILED)
# As the index says it.
_UNRUN = (State.CANCELLED, State.SKIPPED)
_WORDS: list[ColumnElement[str]] = [
    literal_column(f"'{each.value}'") for each in _UNRUN
]
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
    connection: Connection, key: UUID | ScalarSelect[UUID], most: int
) -> int:
    """How many instances of a definition wait, up to a bound.

    Args:
        connection: Where.
        key: Of the definition's row.
        most: So many are counted at most.
    """
    waits = or_(_column.claimed_by.is_(None), _column.started_at.is_(None))
    waiting = select(_column.id).where(_column.definition_key == key, _OPEN, waits)
    some = waiting.limit(most).subquery()
    found: int = connection.execute(select(func.count()).select_from(some)).scalar_one()
    return found


def counts_up_to(connection: Connection, most: int) -> Mapping[State, Counted]:
    """How many instances are in each state, as far as they have to be counted."""
    failed = _number(connection, _ended_in(_HAS_FAILED), most)
    ended = _by_state(connection, _ended_in(_HAS_ENDED), most)
    more = sum(ended.values()) > most
    unrun = {
        each: _number(connection, _ended_in(ended_as(each)), most) for each in _UNRUN
    }
    return {
        **_of_open(connection, most),
        State.FAILED: Counted.up_to(most, failed),
        State.COMPLETED: _at_least(ended, State.COMPLETED, most, more=more),
        **{each: Counted.up_to(most, number) for each, number in unrun.items()},
    }


def _of_open(connection: Connection, most: int) -> dict[State, Counted]:
    key = _column.definition_key
    total = _number(connection, select(key).where(_OPEN).order_by(key), most)
    if total <= most:
        counts = _by_state(connection, with_state(_OPEN).order_by(key), most)
        return {each: _at_least(counts, each, most, more=False) for each in OPEN}
    # Those that are claimed may be few amid many that are not.
    claimed = with_state(CLAIMED).order_by(_column.expires_at)
    counts = _by_state(connection, claimed, most)
    more = sum(counts.values()) > most
    queue = _column.queue
    waiting = select(queue).where(_column.claimable_at.is_not(None)).order_by(queue)
    counts[State.PENDING] = _number(connection, waiting, most)
    return {
        each: _at_least(counts, each, most, more=more or each is State.PENDING)
        for each in OPEN
    }


def counts_among(
    connection: Connection,
    most: int,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> Mapping[State, Counted]:
    """How many of some queues and owners are in each state, amid so many of all."""
    mine = among(queues, owners)
    waiting: ColumnElement[bool] = _column.claimable_at.is_not(None)
    if queues is not None:
        waiting = and_(waiting, _column.queue.in_(sorted(queues)))
    of_open = with_state(_OPEN).order_by(_column.definition_key)
    looked_for: list[tuple[Sequence[State], Select[Any]]] = [(OPEN, of_open)]
    many_open = _theirs(connection, of_open, most, mine)[1]
    if many_open:
        # Those that are claimed may be few amid many that are not.
        claimed = [each for each in OPEN if each is not State.PENDING]
        looked_for = [
            (claimed, with_state(CLAIMED).order_by(_column.expires_at)),
            ([State.PENDING], with_state(waiting).order_by(_column.queue)),
        ]
    for each in (State.FAILED, State.COMPLETED, *_UNRUN):
        looked_for.append(([each], _ended_in(ended_as(each))))
    found: dict[State, Counted] = {}
    for states, query in looked_for:
        counts, more = _theirs(connection, query, most, mine)
        # Amid many, those that are parked or paused are not looked at.
        more |= many_open and State.PENDING in states
        found |= {each: _at_least(counts, each, most, more=more) for each in states}
    return found


def _theirs(
    connection: Connection,
    query: Select[Any],
    most: int,
    mine: Sequence[ColumnElement[bool]],
) -> tuple[Mapping[str, int], bool]:
    """How many of the first of a query are theirs, by state; whether it has more."""
    key = _column.definition_key.label("key")
    first = query.add_columns(key).limit(most + 1).subquery()
    theirs = and_(definitions.c.key == first.c.key, *mine)
    rows = connection.execute(
        select(first.c.state, func.count(definitions.c.key), func.count())
        .select_from(first.outerjoin(definitions, theirs))
        .group_by(first.c.state)
    ).all()
    return {row[0]: row[1] for row in rows}, sum(row[2] for row in rows) > most


def _at_least(
    counts: Mapping[str, int], state: State, most: int, *, more: bool
) -> Counted:
    return Counted(count=min(counts.get(state.value, 0), most), more=more)


def _number(connection: Connection, query: Select[Any], most: int) -> int:
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


def _ended_in(index: ColumnElement[bool]) -> Select[Any]:
    ended = select(_column.outcome.label("state")).where(index)
    return ended.order_by(_column.completed_at.desc())
