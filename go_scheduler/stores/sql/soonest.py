"""Pages of definitions; those that fire soonest are read from the heads of indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, or_, select, text, union_all

from go_scheduler.models import DefinitionState
from go_scheduler.stores.sql.lists import definitions_like
from go_scheduler.stores.sql.tables import definitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Select

    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.sql.dialect import Dialect

_column = definitions.c
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
    query = query.where(_column.completed_at.is_(None))
    if after is not None:
        later = _column.next_fire_time > after.at
        query = query.where(
            _column.next_fire_time >= after.at, or_(later, _column.id > after.id)
        )
    due = (
        query.where(and_(_column.shard == shard, _IS_DUE))
        for shard in range(dialect.shards)
    )
    heads = [select(each.subquery()) for each in (*due, query.where(_IS_LATE))]
    found = union_all(*heads).subquery()
    order = (found.c.next_fire_time, found.c.id)
    return select(found).order_by(*order).limit(limit)
