"""How instances come into a ``MemoryStore`` that are no fire times'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, Skipped
from go_scheduler.stores.full import FULL, dropped
from go_scheduler.stores.memory.stored import StoredInstance

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
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
    beyond = _dropped(of, additions, tables)
    found = []
    for each in additions:
        row = _row(of, each, tables, now)
        if each.id in beyond:
            _drop(row, tables, now)
        found.append(row.view())
    return found


def _dropped(
    of: StoredDefinition, additions: Sequence[Addition], tables: Tables
) -> Collection[UUID]:
    """What is beyond how many may wait."""
    if of.definition.max_queue is None:
        return ()
    rows = tables.instances
    known: set[UUID | str] = {each.id for each in additions if rows.get(each.id)}
    known.update(
        each.key for each in additions if each.key and rows.keyed(of, each.key)
    )
    waiting = sum(row.is_waiting for row in of.rows)
    return dropped(of.definition, additions, known=known, waiting=waiting)


def _drop(row: StoredInstance, tables: Tables, now: datetime) -> None:
    """Have it skipped, as too many wait."""
    reason = FULL % row.of.definition.max_queue
    row.skipped = Skipped.itself(row.execute_at, reason)
    tables.instances.end(row, Outcome.SKIPPED, now)


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
