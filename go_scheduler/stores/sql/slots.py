"""Slots in SQL: what takes one, and how it is let go of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, exists, not_

from go_scheduler.stores.slots import LOCK
from go_scheduler.stores.sql.tables import instances, slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection


class Exclusion(NamedTuple):
    """Expressions for what an instance has to have, and by what it is decided on.

    They say of the columns of its definition what ``slot_of`` and ``overlap_of`` in
    ``stores.slots`` say of the definition.
    """

    slot: str
    overlap: str


def exclusion(of: str) -> Exclusion:
    """What an instance excludes that has a fire time.

    Args:
        of: The name by which the row of its definition is known.
    """
    return Exclusion(
        slot=f"CASE WHEN NOT {of}.waits OR {of}.slot LIKE '{LOCK}%' THEN {of}.slot END",
        overlap=f"CASE WHEN NOT {of}.waits THEN {of}.overlap END",
    )


def free_slots(connection: Connection, names: Collection[str]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    holder = exists().where(
        instances.c.id == slots.c.instance_id, instances.c.completed_at.is_(None)
    )
    connection.execute(
        delete(slots).where(slots.c.name.in_(sorted(set(names))), not_(holder))
    )
