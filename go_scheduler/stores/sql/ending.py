"""The end of one run, recorded within a transaction of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import case, func, literal, update

from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import RunOutcome


def end_run(connection: Connection, outcome: RunOutcome, now: datetime) -> bool:
    """Record the end of a run; written so that every driver understands it.

    Args:
        connection: In a transaction.
        outcome: The claim, and how the run ended.
        now: The store's time.

    Returns:
        Whether the claim held still.
    """
    assert outcome.outcome is not None
    column = instances.c
    statement = (
        update(instances)
        .where(
            column.id == outcome.claim.instance_id,
            column.attempt == outcome.claim.attempt,
            column.completed_at.is_(None),
            column.claimed_by.is_not(None),
        )
        .values(
            outcome=outcome.outcome.value,
            completed_at=now,
            started_at=outcome.started_at,
        )
        .returning(column.definition_key, column.waits)
    )
    ended = connection.execute(statement).one_or_none()
    if ended is None:
        return False
    if ended.waits:
        _go_on(connection, ended.definition_key, outcome.next_fire_time, now)
    return True


def _go_on(
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
            # Committed by somebody else, at any time later.
            late=True,
            completed_at=case(
                (column.next_fire_time.is_not(None), None),
                else_=literal(ended, column.completed_at.type),
            ),
        )
    )
