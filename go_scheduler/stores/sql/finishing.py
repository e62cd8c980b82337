"""The end of a run, recorded within a transaction of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, func, literal, or_, select, update

from go_scheduler.models import Cancelled, Outcome
from go_scheduler.stores.sql.locks import free_slots
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.sql.dml import ReturningUpdate

    from go_scheduler.stores.messages import RunOutcome


def finish_run(connection: Connection, outcome: RunOutcome, now: datetime) -> bool:
    """Record that a run succeeded; in words that every driver understands.

    A second transaction waits for the row, and finds what the first has made of it.

    Args:
        connection: In a transaction.
        outcome: Of the run that succeeded.
        now: The store's time.

    Returns:
        Whether it was the first of its instance that did.
    """
    ended = connection.execute(_succeed(outcome, now)).one_or_none()
    if ended is None:
        return False
    if ended.slot is not None:
        free_slots(connection, [ended.slot])
    if ended.waits:
        go_on(connection, ended.definition_key, outcome.next_fire_time, now)
    return True


def _succeed(outcome: RunOutcome, now: datetime) -> ReturningUpdate[Any]:
    column = instances.c
    # A lock of its own comes first. The row may have been renewed since the transaction
    # began, for which CockroachDB would have the whole transaction repeated.
    mine = instances.alias("mine")
    locked = select(mine.c.id).where(mine.c.id == outcome.claim.instance_id)
    return (
        update(instances)
        .where(
            column.id == locked.with_for_update().scalar_subquery(),
            column.attempt >= outcome.claim.attempt,
            or_(column.completed_at.is_(None), column.outcome == Outcome.FAILED.value),
        )
        .values(
            outcome=Outcome.COMPLETED.value,
            ended_attempt=outcome.claim.attempt,
            completed_at=now,
            started_at=outcome.started_at,
            result=outcome.result,
            client=func.coalesce(outcome.client, column.client),
            claimable_at=None,
            # An instance that had failed has moved its definition on already.
            waits=and_(column.waits, column.completed_at.is_(None)),
        )
        .returning(column.definition_key, column.waits, column.slot)
    )


def go_on(
    connection: Connection,
    key: UUID,
    next_fire_time: datetime | None,
    now: datetime,
) -> None:
    """Move a definition on that waited for the end of an instance."""
    column = definitions.c
    at = literal(next_fire_time, column.next_fire_time.type)
    ended = now if next_fire_time is None else None
    connection.execute(
        update(definitions)
        .where(
            column.key == key,
            column.waits,
            column.completed_at.is_(None),
            column.deleted_at.is_(None),
        )
        .values(
            next_fire_time=func.coalesce(column.next_fire_time, at),
            # The user may commit at any time later, below the bound of every scan.
            late=True,
            completed_at=case(
                (column.next_fire_time.is_not(None), None),
                else_=literal(ended, column.completed_at.type),
            ),
        )
    )


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
