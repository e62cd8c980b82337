"""Counts that end at a bound: each is of the end of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal_column, or_, select

from go_scheduler.models import OPEN, Outcome, State
from go_scheduler.models.looked_up import Counted
from go_scheduler.stores.sql.lists import instance_state
from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select

    from go_scheduler.stores.sql.dialect import Dialect

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
