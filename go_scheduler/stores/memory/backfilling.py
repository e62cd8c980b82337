"""How fire times that have passed get their instances in a ``MemoryStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome
from go_scheduler.stores.changes import check_is_as_read
from go_scheduler.stores.memory.stored import StoredInstance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.memory.stored import StoredDefinition
    from go_scheduler.stores.memory.tables import Tables


def backfill(
    definition: TaskDefinition,
    fire_times: Sequence[datetime],
    overlap: Overlap,
    tables: Tables,
    now: datetime,
) -> Sequence[datetime]:
    """Make instances, as ``Store.backfill_instances``."""
    of = tables.definitions.get(definition.id)
    if of is None:
        raise TaskDefinitionNotFoundError(definition.id)
    check_is_as_read(definition, of.definition.revision)
    done = [each for each in fire_times if _make(of, each, overlap, tables, now)]
    for each in done:
        made = of.fired_at(each)
        assert made is not None
        made.own_trace_context = definition.trace_context
    return done


def _make(
    of: StoredDefinition,
    fire_time: datetime,
    overlap: Overlap,
    tables: Tables,
    now: datetime,
) -> bool:
    rows = tables.instances
    known = None if of.instances is None else of.instances.get(fire_time)
    if known is None:
        rows.add(
            StoredInstance(
                uuid4(),
                of,
                fire_time,
                fire_time=fire_time,
                created_at=now,
                backfilled=overlap,
            )
        )
        tables.definitions.note_busy(of)
        return True
    if known.outcome is not Outcome.SKIPPED or known.backfilled is not None:
        return False
    known.backfilled, known.skipped = overlap, None
    rows.reopen(known, now)
    rows.unlist_pending(known)
    known.due_at = known.execute_at
    known.follow()
    rows.list_pending(known)
    return True
