"""All that a ``MemoryStore`` keeps, for stores that keep it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from go_scheduler.models import QueueStats, TaskDefinition, TaskInstance, TaskRun
from go_scheduler.stores.declared import SetVersion
from go_scheduler.stores.memory.stats import StatsKey
from go_scheduler.stores.messages import (
    NodeContact,
    Tombstone,
)


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
        stats: What they have counted, by its length, when it began, queue and node.
        tombstones: What is remembered of definitions that have ended and are gone.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
        first_revision: The revision of the next new definition.
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
