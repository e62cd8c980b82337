"""A cancellation, recorded within a transaction of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import case, literal, or_, select, update

from go_scheduler.models import Cancelled, Outcome
from go_scheduler.stores.sql.finishing import go_on
from go_scheduler.stores.sql.slots import free_slots
from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection


def cancel_one(
    connection: Connection,
    id: UUID,
    next_fire_time: datetime | None,
    now: datetime,
) -> Cancelled | None:
    """Cancel an instance, in words that every driver understands.

    Args:
        connection: In a transaction.
        id: The instance's.
        next_fire_time: As for ``Store.cancel_instances``.
        now: The store's time.
    """
    column = instances.c
    # A lock of its own comes first, as where a run is finished.
    locked = select(column.id).where(column.id == id).correlate(None).with_for_update()
    runs = column.started_at.is_not(None)
    at = literal(now, column.completed_at.type)
    ended = connection.execute(
        update(instances)
        .where(column.id == locked.scalar_subquery(), column.completed_at.is_(None))
        .values(
            cancel_requested=or_(column.cancel_requested, runs),
            outcome=case((runs, None), else_=Outcome.CANCELLED.value),
            completed_at=case((runs, None), else_=at),
            parked=False,
            claimable_at=None,
        )
        .returning(column.definition_key, column.waits, column.outcome, column.slot)
    ).one_or_none()
    if ended is None:
        return None
    if ended.outcome is None:
        return Cancelled.REQUESTED
    if ended.slot is not None:
        free_slots(connection, [ended.slot])
    if ended.waits:
        go_on(connection, ended.definition_key, next_fire_time, now)
    return Cancelled.CANCELLED
