"""How a ``MemoryStore`` lets an owner have the definitions that it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.declared import (
    Declared,
    SetVersion,
    check_owners,
    is_outdated,
    removal_note,
    was_removed,
)

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.declared import Declaration
    from go_scheduler.stores.memory.tables import Tables


def declare(declaration: Declaration, tables: Tables, now: datetime) -> Declared:
    """Let an owner have these definitions, as ``Store.declare_definitions``."""
    owner, version = declaration.owner, declaration.version
    last = tables.sets.get(owner)
    if last is not None and is_outdated(version, last.version):
        return Declared(outdated_by=last.version)
    definitions = tables.definitions
    ids = {each.id for each in declaration.definitions}
    rows = definitions.find(ids)
    check_owners(declaration, {row.definition.id: row.definition for row in rows})
    plans = [definitions.plan_put(each) for each in declaration.definitions]
    # Nothing is refused from here on.
    tables.sets[owner] = SetVersion(owner=owner, version=version, declared_at=now)
    again = [row for row in rows if was_removed(row.definition)]
    put = {
        plan.definition.id: definitions.put(plan, now, owner=owner) for plan in plans
    }
    for row in again:
        definitions.resume(row, now)
        put[row.definition.id] = row.definition
    owned = [row for row in definitions.rows if row.definition.owner == owner]
    gone = [row for row in owned if row.definition.id not in ids]
    deleted = gone if declaration.removed == "delete" else []
    for row in deleted:
        definitions.delete(row, now)
        tables.tombstones.forget(row.definition.id)
    pauses = declaration.removed == "pause"
    paused = [row for row in gone if pauses and not row.definition.paused]
    for row in paused:
        definitions.pause(row, removal_note(owner), now)
    return Declared(
        definitions=[put[each.id] for each in declaration.definitions],
        resumed=[row.definition for row in again],
        deleted={row.definition.id for row in deleted},
        paused=[row.definition for row in paused],
    )
