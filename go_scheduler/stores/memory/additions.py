"""How instances come into a ``MemoryStore`` that users ask for, and declared sets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, Skipped
from go_scheduler.stores.base import may_start
from go_scheduler.stores.memory.tables import StoredInstance
from go_scheduler.stores.messages import Fired, Put
from go_scheduler.stores.rules import (
    FULL,
    Declared,
    SetVersion,
    check_is_as_read,
    check_owners,
    dropped,
    is_outdated,
    removal_note,
    was_removed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.memory.tables import PutPlan, StoredDefinition, Tables
    from go_scheduler.stores.messages import Addition, Claimant, Firing
    from go_scheduler.stores.rules import Declaration


def add(
    definition_id: UUID,
    additions: Sequence[Addition],
    claimant: Claimant | None,
    tables: Tables,
    now: datetime,
) -> Sequence[TaskInstance]:
    """Make instances, as ``Store.add_instances``."""
    of = tables.definitions.get(definition_id)
    if of is None:
        raise TaskDefinitionNotFoundError(definition_id)
    beyond = _dropped(of, additions, tables)
    rows = []
    for each in additions:
        row = _row(of, each, tables, now)
        if each.id in beyond:
            _drop(row, tables, now)
        rows.append(row)
    if claimant is not None:
        ids = {each.id for each in additions}
        due = {row.id: row for row in rows if row.id in ids and row.due_at <= now}
        mine = [row for row in due.values() if may_start(row.view(), claimant)]
        _start(mine, tables, claimant, now)
    return [row.view() for row in rows]


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


def put(
    plans: Sequence[PutPlan],
    firings: Sequence[Firing],
    claimant: Claimant | None,
    tables: Tables,
    now: datetime,
) -> Put:
    """Put definitions as planned, as ``Store.put_definitions``."""
    put = [tables.definitions.put(plan, now) for plan in plans]
    if claimant is None:
        return Put(definitions=put)
    first = {each.definition.id: each for each in firings}
    steps = [
        replace(first[each.id], definition=each)
        for plan, each in zip(plans, put, strict=True)
        if plan.is_new and each.id in first
    ]
    return Put(definitions=put, started=fire(steps, claimant, tables, now).started)


def fire(
    firings: Sequence[Firing],
    claimant: Claimant | None,
    tables: Tables,
    now: datetime,
) -> Fired:
    """Fire definitions, as ``Store.fire_definitions``."""
    done: set[UUID] = set()
    made: list[StoredInstance] = []
    for firing in firings:
        rows = tables.definitions.fire(firing, now)
        if rows is not None:
            done.add(firing.definition.id)
            made += rows
    if claimant is None:
        return Fired(done=done)
    _start(made, tables, claimant, now)
    return Fired(done=done, started=[row.view() for row in made])


def _start(
    rows: Iterable[StoredInstance], tables: Tables, claimant: Claimant, now: datetime
) -> None:
    for row in rows:
        tables.instances.unlist_pending(row)
        tables.instances.claim([row], claimant, now, row.due_at)
