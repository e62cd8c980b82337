"""What a ``MemoryStore`` creates and starts in one step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.stores.hand_over_store import may_start
from go_scheduler.stores.memory.additions import add
from go_scheduler.stores.messages import Fired

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.memory.put_plan import PutPlan
    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import Addition, Claimant, Firing


def put_and_start(
    plan: PutPlan, firing: Firing, tables: Tables, claimant: Claimant, now: datetime
) -> tuple[TaskDefinition, TaskInstance | None]:
    """Put and start, as ``Store.put_and_start``."""
    put = tables.definitions.put(plan, now)
    if not plan.is_new:
        return put, None
    tables.definitions.fire(replace(firing, definition=put), now)
    of = tables.definitions.get(put.id)
    assert of is not None
    [row] = of.rows
    _start([row], tables, claimant, now)
    return put, row.view()


def fire_and_start(
    firings: Sequence[Firing], tables: Tables, claimant: Claimant, now: datetime
) -> Fired:
    """Fire and start, as ``Store.fire_and_start``."""
    done: set[UUID] = set()
    started: list[StoredInstance] = []
    for firing in firings:
        [fire_time] = firing.fire_times
        of = tables.definitions.get(firing.definition.id)
        before = None if of is None else of.fired_at(fire_time)
        if of is not None and tables.definitions.fire(firing, now):
            done.add(firing.definition.id)
            made = of.fired_at(fire_time)
            if made is not None and before is None:
                started.append(made)
    _start(started, tables, claimant, now)
    return Fired(done=done, started=[row.view() for row in started])


def add_and_start(
    definition_id: UUID,
    additions: Sequence[Addition],
    tables: Tables,
    claimant: Claimant,
    names: Collection[str] | None,
    now: datetime,
) -> Sequence[TaskInstance]:
    """Add and start, as ``Store.add_and_start``."""
    rows = tables.instances
    ids = {each.id for each in additions}
    added = add(definition_id, additions, tables, now)
    found = [row for each in added if (row := rows.get(each.id)) is not None]
    startable = (
        row
        for row, each in zip(found, added, strict=True)
        if each.id in ids and each.due_at <= now and may_start(each, claimant, names)
    )
    _start(startable, tables, claimant, now)
    return [row.view() for row in found]


def _start(
    rows: Iterable[StoredInstance], tables: Tables, claimant: Claimant, now: datetime
) -> None:
    for row in rows:
        tables.instances.unlist_pending(row)
        tables.instances.claim([row], claimant, now, row.due_at)
