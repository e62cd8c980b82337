"""All that a ``MemoryStore`` keeps, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from go_scheduler.models import QueueStats, TaskDefinition, TaskInstance, TaskRun
from go_scheduler.stores.memory.rows import SHOWN, StoredDefinition, StoredInstance
from go_scheduler.stores.memory.tables import StatsKey, Tables
from go_scheduler.stores.messages import NodeContact, Tombstone
from go_scheduler.stores.rules import SetVersion, overlap_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a ``MemoryStore`` keeps at one moment.

    Attributes:
        definitions: The definitions.
        instances: Their instances.
        orphans: What has ended of definitions that have been deleted.
        runs: What is kept of their runs, earliest attempt first.
        handed_on: The ids of those instances whose run is handed on.
        slots: Which instances have which slot: their ids by its name.
        accepted: The ids of those that may wait for a slot, whatever the ``overlap``.
        behind: Which instance had the slot of a parked one when it was parked.
        contacts: When nodes were in contact with the store, one for each.
        stats: What they have counted, by minute, queue and node.
        tombstones: What is remembered of definitions that have ended and are gone.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
        first_revision: The revision of the next new definition.
        fired_until: By the ids of definitions the fire times that had begun when they
            were given another trigger.
    """

    definitions: Sequence[TaskDefinition] = ()
    instances: Sequence[TaskInstance] = ()
    orphans: Sequence[TaskInstance] = ()
    runs: Sequence[TaskRun] = ()
    handed_on: Sequence[UUID] = ()
    slots: Mapping[str, UUID] = field(default_factory=dict)
    accepted: Sequence[UUID] = ()
    behind: Mapping[UUID, UUID] = field(default_factory=dict)
    contacts: Sequence[NodeContact] = ()
    stats: Mapping[StatsKey, QueueStats] = field(default_factory=dict)
    tombstones: Sequence[Tombstone] = ()
    sets: Sequence[SetVersion] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    first_revision: int = 1
    fired_until: Mapping[UUID, datetime] = field(default_factory=dict)


def taken(tables: Tables) -> Snapshot:
    """All that tables hold."""
    rows = [row for of in tables.definitions.values() for row in of.instances.values()]
    ended = [row for each in tables.ended.values() for row in each.values()]
    orphans = [row for row in ended if row.of.deleted]
    return Snapshot(
        definitions=[of.definition for of in tables.definitions.values()],
        instances=[row.view() for row in rows],
        orphans=[row.view() for row in orphans],
        runs=[run for row in (*rows, *orphans) for run in row.past],
        handed_on=[row.id for row in rows if row.is_handed_on],
        slots={name: row.id for name, row in tables.slots.holders.items()},
        accepted=[row.id for row in rows if _is_accepted(row)],
        behind={row.id: row.behind for row in rows if row.parked and row.behind},
        contacts=tuple(tables.contacts.values()),
        stats=dict(tables.stats),
        tombstones=tuple(tables.tombstones.values()),
        sets=tuple(tables.sets.values()),
        settings=dict(tables.settings),
        first_revision=tables.first_revision,
        fired_until={
            of.definition.id: of.fired_until
            for of in tables.definitions.values()
            if of.fired_until is not None
        },
    )


def _is_accepted(row: StoredInstance) -> bool:
    """Whether it may wait for its slot, though its overlap may end others."""
    decides = overlap_of(row.of.definition, fired=row.fire_time is not None)
    return row.completed_at is None and row.overlap is not decides


def restored(snapshot: Snapshot) -> Tables:
    """Tables that hold what a snapshot does."""
    tables = Tables()
    for definition in snapshot.definitions:
        fired_until = snapshot.fired_until.get(definition.id)
        tables.add_definition(StoredDefinition(definition, fired_until=fired_until))
    names = {holder: name for name, holder in snapshot.slots.items()}
    rows: list[StoredInstance] = []
    for each in (*snapshot.instances, *snapshot.orphans):
        of = tables.definitions.get(each.definition.id.int)
        if of is None or len(rows) >= len(snapshot.instances):
            of = StoredDefinition(each.definition, deleted=True)
        shown = {name: getattr(each, name) for name in SHOWN if name != "silence"}
        row = StoredInstance(id=each.id, of=of, **shown)
        rows.append(row)
        row.queue = each.definition.queue
        row.behind = snapshot.behind.get(row.id)
        if row.id in snapshot.handed_on:
            row.handed_on = row.attempt
        if row.id in snapshot.accepted:
            row.overlap = None
        if row.id in names:
            row.slot = names[row.id]
            tables.slots.take(row)
        tables.add_apart(row)
    # What has ended is listed in the order of the ends.
    for row in sorted(rows, key=lambda row: row.completed_at or _NEVER):
        tables.enter(row)
    for run in snapshot.runs:
        row = tables.instances[run.instance_id.int]
        row.past = (*row.past, run)
    for remembered in snapshot.tombstones:
        tables.remember(remembered)
    tables.contacts = {each.announced.node: each for each in snapshot.contacts}
    tables.stats = dict(snapshot.stats)
    tables.sets = {each.owner: each for each in snapshot.sets}
    tables.settings = dict(snapshot.settings)
    tables.first_revision = snapshot.first_revision
    return tables


_NEVER = datetime.max.replace(tzinfo=UTC)
