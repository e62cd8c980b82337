"""How instances that have failed are made to run again, in one transaction.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, literal, select, update

from go_scheduler.models import Outcome
from go_scheduler.stores.sql.instance_rows import NOT_ELSEWHERE
from go_scheduler.stores.sql.slots import HAS_OWN_OVERLAP, IS_FIRED, SLOT_BY_ROW
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.sql.dialect import Dialect


def reopen(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Set[UUID]:
    """Make failed instances run again, as ``Store.reopen_instances``.

    Args:
        connection: In a transaction.
        dialect: The engine's own words.
        ids: Those of the instances.
    """
    failed = _lock_failed(connection, dialect, ids)
    locked = _lock_definitions(
        connection, dialect, {row.definition_key for row in failed}
    )
    # Those whose trigger waits for the end of it, if its schedule has made it.
    keys = {row.id: row.definition_key for row in failed if row.fired}
    waiting = {each for each in keys.values() if each in locked and locked[each].waits}
    awaited = _awaited(connection, dialect, waiting)
    chosen: list[UUID] = []
    begun: set[UUID] = set()
    for row in failed:
        key = keys.get(row.id)
        if row.definition_key in locked and key not in awaited:
            chosen.append(row.id)
            # Of such a definition a single instance is open at a time.
            if key is not None and key in waiting:
                awaited.add(key)
                begun.add(key)
    _await(connection, dialect, begun)
    reopened = _reopen(connection, dialect, chosen)
    for key in {row.definition_key for row in failed if row.excludes} & locked.keys():
        _exclude(connection, dialect, locked[key], reopened)
    return reopened


def _lock_failed(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Sequence[Row[Any]]:
    """Those that have failed, latest first; none of them succeeds after all now."""
    column = instances.c
    query = (
        select(
            column.id,
            column.definition_key,
            IS_FIRED.label("fired"),
            HAS_OWN_OVERLAP.label("excludes"),
        )
        .where(dialect.among(column.id, ids), column.outcome == Outcome.FAILED.value)
        .order_by(column.execute_at.desc(), column.id.desc())
        .with_for_update()
    )
    return connection.execute(query).all()


def _lock_definitions(
    connection: Connection, dialect: Dialect, keys: Collection[UUID]
) -> Mapping[UUID, Row[Any]]:
    """Those that are there; none is edited, or fires, until then."""
    column = definitions.c
    query = (
        select(column.key, column.id, column.waits, column.slot)
        .where(
            dialect.among(definitions.c.key, keys), definitions.c.deleted_at.is_(None)
        )
        .order_by(definitions.c.key)
        .with_for_update()
    )
    return {row.key: row for row in connection.execute(query)}


def _awaited(
    connection: Connection, dialect: Dialect, keys: Collection[UUID]
) -> set[UUID]:
    """Those that wait for the end of an instance already."""
    column = instances.c
    query = select(column.definition_key).where(
        dialect.among(column.definition_key, keys),
        column.completed_at.is_(None),
        column.outcome.is_(None),
        IS_FIRED,
    )
    query = dialect.looked_up(query, instances, "task_instances_open_idx")
    return set(connection.execute(query).scalars())


def _await(connection: Connection, dialect: Dialect, keys: Collection[UUID]) -> None:
    """Let definitions wait for the end of an instance, and not fire before."""
    connection.execute(
        update(definitions)
        .where(dialect.among(definitions.c.key, keys))
        .values(next_fire_time=None, completed_at=None)
    )


def _reopen(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Set[UUID]:
    """Make rows as those of new instances that are due, and follow their definition."""
    column, of = instances.c, definitions.c
    now: datetime = dialect.now(connection)
    at = literal(now, column.due_at.type)
    statement = (
        update(instances)
        .where(dialect.among(column.id, ids), column.definition_key == of.key)
        .values(
            queue=of.queue,
            priority=of.priority,
            expire_after=of.expire_after,
            slot=SLOT_BY_ROW,
            # Somebody wants it to run: it waits for its turn, whatever runs.
            overlap=None,
            waits=and_(of.waits, IS_FIRED),
            frozen=of.paused,
            parked=False,
            due_at=at,
            reopened_at=at,
            claimable_at=case((of.paused, None), else_=at),
            runs=0,
            hangs=0,
            claimed_by=None,
            expires_at=None,
            started_at=None,
            completed_at=None,
            outcome=None,
            ended_attempt=None,
            cancel_requested=False,
            **NOT_ELSEWHERE,
        )
        .returning(column.id)
    )
    reopened = set(connection.execute(statement).scalars())
    dialect.hint(connection, [now for _ in reopened], now)
    return reopened


def _exclude(
    connection: Connection, dialect: Dialect, of: Row[Any], ids: Collection[UUID]
) -> None:
    """Let what was backfilled of a definition exclude others by its own overlap."""
    column = instances.c
    connection.execute(
        update(instances)
        .where(
            dialect.among(column.id, ids),
            column.definition_key == of.key,
            column.slot.is_(None),
            HAS_OWN_OVERLAP,
        )
        .values(slot=f"{of.id}")
    )
