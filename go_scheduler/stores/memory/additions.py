"""How instances come into a ``MemoryStore`` that are no fire times'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.models import WAITING
from go_scheduler.stores.memory.stored import StoredInstance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.stored import StoredDefinition
    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import Addition


def add(
    definition_id: UUID, additions: Sequence[Addition], tables: Tables, now: datetime
) -> Sequence[TaskInstance]:
    """Make instances, as ``Store.add_instances``."""
    of = tables.definitions.get(definition_id)
    if of is None:
        raise TaskDefinitionNotFoundError(definition_id)
    _check_room(of, additions, tables)
    return [_row(of, each, tables, now).view() for each in additions]


def _check_room(
    of: StoredDefinition, additions: Sequence[Addition], tables: Tables
) -> None:
    """Refuse what would be more than may wait."""
    most, rows = of.definition.max_queue, tables.instances
    if most is None:
        return
    new = {
        each.key or each.id
        for each in additions
        if not (rows.get(each.id) or rows.keyed(of, each.key))
    }
    waiting = sum(row.state in WAITING for row in of.rows)
    if new and waiting + len(new) > most:
        raise QueueFullError(of.definition.id, most)


def _row(
    of: StoredDefinition, addition: Addition, tables: Tables, now: datetime
) -> StoredInstance:
    """The row that there is already, or a new one."""
    rows = tables.instances
    known = rows.get(addition.id) or rows.keyed(of, addition.key)
    if known is not None:
        return known
    made = StoredInstance(
        addition.id, of, addition.execute_at(now), fire_time=None, created_at=now
    )
    made.payload, made.key = addition.payload, addition.key
    made.own_trace_context = addition.trace_context
    rows.add(made)
    tables.definitions.note_busy(of)
    return made
