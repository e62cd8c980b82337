"""All that a ``MemoryStore`` keeps, in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.stores.memory.contacts import ContactTable
from go_scheduler.stores.memory.definitions import DefinitionTable
from go_scheduler.stores.memory.instances import InstanceTable
from go_scheduler.stores.memory.snapshot import Snapshot
from go_scheduler.stores.memory.stats import StatsTable
from go_scheduler.stores.memory.stored import StoredDefinition
from go_scheduler.stores.memory.tombstones import TombstoneTable

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.declared import SetVersion
    from go_scheduler.stores.messages import (
        Retention,
    )


class Tables:
    """The tables of one store; all of them are used under its lock.

    Attributes:
        definitions: Definitions.
        instances: Their instances.
        tombstones: What is remembered of definitions that have ended and are gone.
        contacts: When nodes were in contact.
        stats: What they have counted.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
    """

    def __init__(self) -> None:
        self.instances = InstanceTable()
        self.tombstones = TombstoneTable()
        self.definitions = DefinitionTable(self.instances, self.tombstones)
        self.contacts = ContactTable()
        self.stats = StatsTable()
        self.sets: dict[str, SetVersion] = {}
        self.settings: dict[str, str] = {}

    def delete_finished(self, retention: Retention, now: datetime, limit: int) -> int:
        """Delete what ended long ago, as ``Store.delete_finished``."""
        self.contacts.forget(now - CONTACTS_KEPT)
        self.stats.forget(now)
        until = now - retention.ended
        over = list(self.instances.forget_ended(until, limit, failed=False))
        left, failed_until = limit - len(over), now - retention.failed
        over += self.instances.forget_ended(failed_until, left, failed=True)
        for row in {instance.of for instance in over}:
            if self.definitions.get(row.definition.id) is row:
                self.definitions.note_idle(row)
        idle = self.definitions.idle_since(until, limit - len(over))
        for row in idle:
            self.definitions.bury(row)
        self.tombstones.forget_ended(now - retention.remembered, limit)
        return len(over) + len(idle)

    def snapshot(self) -> Snapshot:
        """All that they hold."""
        rows = self.definitions.rows
        instances = [each for row in rows for each in row.rows]
        orphans = self.instances.orphans
        return Snapshot(
            definitions=[row.definition for row in rows],
            instances=[each.view() for each in instances],
            orphans=[each.view() for each in orphans],
            runs=[run for each in (*instances, *orphans) for run in each.past],
            handed_on=[each.id for each in instances if each.is_handed_on],
            slots=self.instances.slots.holders,
            accepted=[each.id for each in instances if each.is_accepted],
            behind={
                each.id: each.behind
                for each in instances
                if each.parked and each.behind is not None
            },
            contacts=self.contacts.rows,
            stats=dict(self.stats.rows),
            tombstones=self.tombstones.rows,
            sets=tuple(self.sets.values()),
            settings=dict(self.settings),
            first_revision=self.definitions.first_revision,
        )

    @classmethod
    def restored(cls, snapshot: Snapshot) -> Tables:
        """Tables that hold what a snapshot does."""
        tables = cls()
        rows = {each.id: StoredDefinition(each) for each in snapshot.definitions}
        gone = [(each, StoredDefinition(each.definition)) for each in snapshot.orphans]
        kept = [(each, rows[each.definition.id]) for each in snapshot.instances]
        tables.instances.restore(
            kept + gone,
            handed_on=set(snapshot.handed_on),
            slots=snapshot.slots,
            accepted=set(snapshot.accepted),
            behind=snapshot.behind,
        )
        for run in snapshot.runs:
            row = tables.instances.get(run.instance_id)
            assert row is not None
            row.past = (*row.past, run)
        for _, deleted in gone:
            deleted.instances = None
        tables.definitions.restore(rows.values(), snapshot.first_revision)
        for tombstone in snapshot.tombstones:
            tables.tombstones.add(tombstone)
        for contact in snapshot.contacts:
            tables.contacts.note(contact)
        tables.stats = StatsTable(snapshot.stats)
        tables.sets = {each.owner: each for each in snapshot.sets}
        tables.settings = dict(snapshot.settings)
        return tables
