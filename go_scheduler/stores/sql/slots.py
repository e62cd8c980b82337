"""Slots in SQL: what takes one, and how it is let go of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, not_

from go_scheduler.stores.sql.tables import instances, slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection


def free_slots(connection: Connection, names: Collection[str]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    holder = exists().where(
        instances.c.id == slots.c.instance_id, instances.c.completed_at.is_(None)
    )
    connection.execute(
        delete(slots).where(slots.c.name.in_(sorted(set(names))), not_(holder))
    )
