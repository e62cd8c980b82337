"""Queries for what ended last, in one way or another, of some queues and owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal_column, or_, select

from go_scheduler.models import State
from go_scheduler.stores.sql.counting import ended_as
from go_scheduler.stores.sql.lists import are_of
from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement, Select

    from go_scheduler.models import Outcome
    from go_scheduler.stores.messages import Position

_column = instances.c


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
