"""A store in this process's memory: the reference for all others, and the default."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from go_scheduler.clock import Clock, SystemClock
from go_scheduler.models import (
    QueueStats,
    State,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT, Store
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    counted,
    sorted_page,
)
from go_scheduler.stores.memory.definitions import MemoryDefinitions
from go_scheduler.stores.memory.instances import MemoryInstances
from go_scheduler.stores.memory.tables import (
    NEVER,
    SHOWN,
    StatsKey,
    StoredDefinition,
    StoredInstance,
    Tables,
)
from go_scheduler.stores.messages import NodeContact, Tombstone
from go_scheduler.stores.rules import SetVersion, note_forgotten, overlap_of

if TYPE_CHECKING:
    from go_scheduler.models import Counted
    from go_scheduler.stores.messages import Announcement, Position, Retention

_Value = TypeVar("_Value")
_CHUNK = 1000


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


class MemoryStore(MemoryDefinitions, MemoryInstances, Store):
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

    @contextmanager
    def _locked(self) -> Iterator[Tables]:
        """Let one call at a time change what is kept, by one time."""
        with self._lock:
            self._tables.now = self._time()
            yield self._tables

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
        with self._locked() as tables:
            now = tables.now
            contacts, stats = tables.contacts.items(), tables.stats.items()
            tables.contacts = {
                id: each for id, each in contacts if each.until >= now - CONTACTS_KEPT
            }
            tables.stats = {
                key: each for key, each in stats if key.at >= now - STATS_KEPT
            }
            until, failed_until = now - retention.ended, now - retention.failed
            deleted = tables.remove_ended(until, limit, failed=False)
            deleted += tables.remove_ended(failed_until, limit - deleted, failed=True)
            idle = tables.idle(until, limit - deleted)
            for of in idle:
                tables.bury(of)
            forgotten = tables.forget_tombstones(
                now - retention.remembered, most, limit
            )
        note_forgotten(forgotten, most=most)
        return deleted + len(idle)

    # Reads, which let go of the lock every thousand rows: a long list delays no fire.

    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter."""
        last = None if after is None else (after.at or NEVER, after.id.int)

        def place(row: StoredInstance) -> tuple[Any, int, StoredInstance]:
            at = NEVER if order is Order.ID else getattr(row, order.value)
            return at, row.id.int, row

        placed = [each for each in self._scan(where, place) if each[0] is not None]
        if last is not None and descending:
            placed = [each for each in placed if each[:2] < last]
        elif last is not None:
            placed = [each for each in placed if each[:2] > last]
        found = (nlargest if descending else nsmallest)(limit, placed)
        with self._lock:
            views = [row.view() for *_, row in found]
        page = Page(filter(where.matches, views))
        if len(found) >= limit:
            page.next = order.position(views[-1])
        return page

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """Count the instances that meet each of some filters, by their state."""
        numbers: list[Mapping[State, Counted]] = []
        for where in filters:
            if where.definition_id is not None:
                numbers += super().count([where], most=most)
            else:
                found = Counter(self._scan(where, attrgetter("state")))
                numbers.append({each: counted(found[each], most) for each in State})
        return numbers

    def _scan(
        self, where: Filter, read: Callable[[StoredInstance], _Value]
    ) -> list[_Value]:
        """Read something of each row that meets a filter."""
        with self._lock:
            rows = self._narrowed(where)
        found: list[_Value] = []
        for start in range(0, len(rows), _CHUNK):
            with self._lock:
                some = rows[start : start + _CHUNK]
                # A row has the fields of an instance.
                found += map(read, filter(where.matches, some))  # type: ignore[arg-type]
        return found

    def _narrowed(self, where: Filter) -> Sequence[StoredInstance]:
        """Rows among which all are that meet a filter."""
        tables = self._tables
        if where.ids is not None:
            found = (tables.instances.get(each.int) for each in where.ids)
            return [row for row in found if row is not None]
        if where.definition_id is None:
            return list(tables.instances.values())
        of = tables.definitions.get(where.definition_id.int)
        if of is None:
            return ()
        if where.key is not None:
            return [of.keyed[where.key]] if where.key in of.keyed else ()
        return list(of.instances.values())

    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter."""
        with self._lock:
            tables = self._tables
            stored: Iterable[StoredDefinition] = tables.definitions.values()
            if where.ids is not None:
                stored = tables.find_definitions(where.ids)
            found = [of.definition for of in stored]
        matching = filter(where.matches, found)
        return sorted_page(matching, order.position, after=after, limit=limit)

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        with self._lock:
            rows = self._tables.leases.values()
            found = [row for row in rows if row.claimed_by == node]
            held = [row.view() for row in found if not row.is_handed_on]
        position = None if after is None else Order.ID.position(after)
        return sorted_page(held, Order.ID.position, after=position, limit=limit)

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        with self._lock:
            row = self._tables.slots.holder(slot)
            return None if row is None else row.view()

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        with self._lock:
            row = self._tables.instances.get(instance_id.int)
            return () if row is None else row.past

    # What nodes tell.

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
            return _taken(self._tables)

    def restore(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot holds, exactly, and nothing else."""
        with self._lock:
            self._tables = _restored(snapshot)


def _taken(tables: Tables) -> Snapshot:
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


def _restored(snapshot: Snapshot) -> Tables:
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
    for row in sorted(rows, key=lambda row: row.completed_at or NEVER):
        tables.enter(row)
    for run in snapshot.runs:
        row = tables.instances[run.instance_id.int]
        row.past = (*row.past, run)
    tables.tombstones = {each.id: each for each in snapshot.tombstones}
    tables.contacts = {each.announced.node: each for each in snapshot.contacts}
    tables.stats = dict(snapshot.stats)
    tables.sets = {each.owner: each for each in snapshot.sets}
    tables.settings = dict(snapshot.settings)
    tables.first_revision = snapshot.first_revision
    return tables
