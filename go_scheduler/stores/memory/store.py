"""A store in this process's memory: the reference for all others, and the default."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT, Store
from go_scheduler.stores.memory.definitions import MemoryDefinitions
from go_scheduler.stores.memory.instances import MemoryInstances
from go_scheduler.stores.memory.reads import MemoryReads
from go_scheduler.stores.memory.snapshots import restored, taken
from go_scheduler.stores.memory.tables import StatsKey, Tables
from go_scheduler.stores.messages import NodeContact
from go_scheduler.stores.rules import note_forgotten

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import QueueStats
    from go_scheduler.stores.memory.snapshots import Snapshot
    from go_scheduler.stores.messages import Announcement, Retention


class MemoryStore(MemoryDefinitions, MemoryInstances, MemoryReads, Store):
    """Keeps everything in this process's memory, and nothing when it ends.

    It is shared by the schedulers of one process only. Looking for what is due costs
    what is due, not what is stored.

    Args:
        clock: Used instead of the system's clock, for tests.
    """

    most_remembered = 100_000

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._time = (clock or SystemClock()).now
        self._lock = threading.Lock()
        self._tables = Tables()

    def initialize(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def close(self) -> None:
        """Do nothing: all that is stored stays."""

    def now(self) -> datetime:
        """The time of the clock that was passed, else the system's."""
        return self._time()

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        most = self.most_remembered
        with self._lock:
            now, tables = self._time(), self._tables
            seen_since, counted_since = now - CONTACTS_KEPT, now - STATS_KEPT
            contacts, stats = tables.contacts.items(), tables.stats.items()
            tables.contacts = {
                id: each for id, each in contacts if each.until >= seen_since
            }
            tables.stats = {key: each for key, each in stats if key.at >= counted_since}
            until, failed_until = now - retention.ended, now - retention.failed
            deleted = tables.remove_ended(until, limit, now, failed=False)
            left = limit - deleted
            deleted += tables.remove_ended(failed_until, left, now, failed=True)
            idle = tables.idle(until, limit - deleted)
            for of in idle:
                tables.bury(of)
            remembered_since = now - retention.remembered
            forgotten = tables.forget_tombstones(remembered_since, most, limit)
        note_forgotten(forgotten, most=most)
        return deleted + len(idle)

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        with self._lock:
            now = self._time()
            contact = NodeContact(announced=announced, since=now - unbroken, until=now)
            self._tables.contacts[announced.node] = contact

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        with self._lock:
            since, contacts = self._time() - within, self._tables.contacts.values()
            return [each for each in contacts if each.until >= since]

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        with self._lock:
            for each in stats:
                self._tables.stats[StatsKey(each.at, each.queue, node)] = each

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted."""
        with self._lock:
            stats = self._tables.stats
            return [stats[key] for key in sorted(stats) if since <= key.at < until]

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        with self._lock:
            return self._tables.settings.setdefault(name, value)

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name the queues in which something is due that nobody has claimed."""
        with self._lock:
            return self._tables.pending.due_queues(self._time()).difference(apart_from)

    def snapshot(self) -> Snapshot:
        """All that is stored at this moment; for stores that keep it elsewhere."""
        with self._lock:
            return taken(self._tables)

    def restore(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot holds, exactly, and nothing else."""
        with self._lock:
            self._tables = restored(snapshot)
