"""How instances of a ``MemoryStore`` that have failed are made to run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.memory.tables import Tables


def reopen(ids: Collection[UUID], tables: Tables, now: datetime) -> Set[UUID]:
    """Make failed instances run again, as ``Store.reopen_instances``."""
    reopened = set()
    for row in sorted(_failed(ids, tables), key=_when, reverse=True):
        if row.of.definition.trigger.waits and row.is_fired:
            # Of such a definition a single instance is open at a time.
            if any(each.is_awaited for each in row.of.rows):
                continue
            tables.definitions.change(row.of, next_fire_time=None, completed_at=None)
        tables.instances.reopen(row, now)
        row.reopened_at = now
        reopened.add(row.id)
    return reopened


def _failed(ids: Collection[UUID], tables: Tables) -> list[StoredInstance]:
    """Those of them that have failed, and whose definition is there."""
    rows = [tables.instances.get(each) for each in set(ids)]
    return [
        row
        for row in rows
        if row is not None
        and row.outcome is Outcome.FAILED
        and row.of.instances is not None
    ]


def _when(row: StoredInstance) -> tuple[datetime, int]:
    return row.execute_at, row.id.int
