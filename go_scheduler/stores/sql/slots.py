"""Slots in SQL: by which one an instance goes, and how it is let go of.

As ``stores.slots`` has it: ``slot_of``, ``overlap_of`` and ``overlap_of_backfilled``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, delete, exists, not_, null, or_

from go_scheduler.policies import Overlap
from go_scheduler.stores.slots import LOCK, overlap_of, overlap_of_backfilled, slot_of
from go_scheduler.stores.sql.tables import definitions, instances, slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement, Connection

    from go_scheduler.models import TaskDefinition

IS_FIRED = and_(instances.c.fire_time.is_not(None), instances.c.backfilled.is_(None))
"""Whether its definition's schedule has made an instance, and nobody by hand."""
HAS_OWN_OVERLAP = and_(
    instances.c.backfilled.is_not(None),
    instances.c.backfilled != Overlap.ALLOW.value,
)
"""Whether one was backfilled that excludes others, whatever its definition allows."""
_EXCLUDES_NONE = or_(
    and_(definitions.c.waits, IS_FIRED), instances.c.backfilled.is_not(None)
)
_LOCKS = definitions.c.slot.startswith(LOCK)
SLOT_BY_ROW = case(
    (and_(_EXCLUDES_NONE, not_(_LOCKS)), null()), else_=definitions.c.slot
)
"""The slot of an instance, beside the row of its definition.

But for what has an overlap of its own, and shares no lock: its slot is the id of its
definition as text, which engines write differently.
"""


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


def exclusion_by(
    of: TaskDefinition,
) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Of any instance of a definition its slot, and its overlap."""
    column = instances.c
    fired, by_hand = overlap_of(of, fired=True), overlap_of(of, fired=False)
    slots_by = [
        (column.backfilled == each.value, slot_of(of, fired=False, backfilled=each))
        for each in Overlap
    ]
    overlaps_by = [
        (column.backfilled == each.value, overlap_of_backfilled(each))
        for each in Overlap
    ]
    slot = case(
        *slots_by,
        (column.fire_time.is_(None), slot_of(of, fired=False)),
        else_=slot_of(of, fired=True),
    )
    overlap = case(*overlaps_by, (column.fire_time.is_(None), by_hand), else_=fired)
    return slot, overlap


def free_slots(connection: Connection, names: Collection[str]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    holder = exists().where(
        instances.c.id == slots.c.instance_id, instances.c.completed_at.is_(None)
    )
    connection.execute(
        delete(slots).where(slots.c.name.in_(sorted(set(names))), not_(holder))
    )
