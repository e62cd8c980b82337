"""A store in this process's memory: the reference for all others, and the default."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.stores.base import DefinitionStore, Store
from go_scheduler.stores.memory.additions import add, backfill, declare, fire, put
from go_scheduler.stores.memory.lists import MemoryReads
from go_scheduler.stores.memory.runs import (
    cancel,
    finish,
    release,
    renew,
    reopen,
    review_parked,
)
from go_scheduler.stores.memory.tables import Tables
from go_scheduler.stores.messages import Answer, NodeContact
from go_scheduler.stores.rules import (
    check_each_once,
    note_forgotten,
    with_silences,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from threading import Lock
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import (
        Cancelled,
        QueueStats,
        TaskDefinition,
        TaskInstance,
    )
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.memory.tables import (
        DefinitionTable,
        Snapshot,
        StoredInstance,
    )
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Claim,
        Claimant,
        Fired,
        Firing,
        Put,
        Release,
        Renewal,
        Retention,
        Reviewed,
        RunOutcome,
        Tombstone,
    )
    from go_scheduler.stores.rules import Declaration, Declared


class MemoryDefinitions(DefinitionStore):
    """What a ``MemoryStore`` does with definitions, under its lock."""

    _lock: Lock
    _time: Callable[[], datetime]
    _tables: Tables
    _definitions: DefinitionTable

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        check_each_once(definitions)
        with self._lock:
            # Comparing runs the triggers' own code: all of it comes before any change.
            plans = [self._definitions.plan_put(each) for each in definitions]
            return put(plans, firings, claimant, self._tables, self._time())

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""
        check_each_once(declaration.definitions)
        with self._lock:
            return declare(declaration, self._tables, self._time())

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        with self._lock:
            now = self._time()
            rows = self._definitions.find(ids)
            ran = {
                row.definition.id: self._definitions.delete(row, now) for row in rows
            }
            for each in ids:
                self._tables.tombstones.forget(each)
            return ran

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        with self._lock:
            found = [self._tables.tombstones.get(each) for each in set(ids)]
        return [each for each in found if each is not None]

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        with self._lock:
            now = self._time()
            rows = self._definitions.find(ids)
            for row in rows:
                self._definitions.pause(row, note, now)
            return [row.definition for row in rows]

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        with self._lock:
            now = self._time()
            rows = self._definitions.find(ids)
            for row in rows:
                self._definitions.resume(row, now)
            return [row.definition for row in rows]

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        with self._lock:
            return self._definitions.due(self._time() + ahead, after, limit)

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        with self._lock:
            return fire(firings, claimant, self._tables, self._time())


class MemoryStore(MemoryDefinitions, MemoryReads, Store):
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
        self._use(Tables())

    def initialize(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def close(self) -> None:
        """Do nothing: all that is stored stays."""

    def now(self) -> datetime:
        """The time of the clock that was passed, else the system's."""
        return self._time()

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        with self._lock:
            return add(definition_id, additions, claimant, self._tables, self._time())

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        with self._lock:
            now = self._time()
            return backfill(definition, fire_times, overlap, self._tables, now)

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        with self._lock:
            now = self._time()
            table, queues = self._instances, claimant.queues
            rows: list[StoredInstance] = []
            if lapsed is not None and now <= deadline:
                rows = table.take_lapsed(queues, now - lapsed, limit)
            silent = {row.id: row.silent() for row in rows}
            rows += table.take_pending(queues, now + ahead, limit - len(rows))
            table.claim(rows, claimant, now, now + lead)
            return with_silences([row.view() for row in rows], silent)

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        with self._lock:
            now = self._time()
            rows = self._instances.start(claims, claimant, now)
            return Answer(done=[row.view() for row in rows])

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        with self._lock:
            now = self._time()
            owned = {}
            for renewal in renewals:
                if (stops := renew(renewal, self._instances, now)) is not None:
                    owned[renewal.claim.instance_id] = stops
        return Answer(done=owned)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        with self._lock:
            now = self._time()
            recorded = {
                outcome.claim.instance_id
                for outcome in outcomes
                if finish(outcome, self._tables, now)
            }
        return Answer(done=recorded)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        with self._lock:
            now = self._time()
            released = {
                each.claim.instance_id
                for each in releases
                if release(each, self._tables, now)
            }
        return Answer(done=released)

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        with self._lock:
            now = self._time()
            found = {
                id: cancel(id, at, self._tables, now)
                for id, at in cancellations.items()
            }
        return {id: each for id, each in found.items() if each is not None}

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
        with self._lock:
            return review_parked(self._tables, self._time(), limit)

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        with self._lock:
            deleted = self._tables.delete_finished(retention, self._time(), limit)
            most = self.most_remembered
            forgotten = self._tables.tombstones.forget_most(most, limit)
        note_forgotten(forgotten, most=most)
        return deleted

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        with self._lock:
            now = self._time()
            self._tables.contacts.note(
                NodeContact(announced=announced, since=now - unbroken, until=now)
            )

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        with self._lock:
            return self._tables.contacts.since(self._time() - within)

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        with self._lock:
            self._tables.stats.note(node, stats)

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted."""
        with self._lock:
            return self._tables.stats.within(since, until)

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        with self._lock:
            return self._tables.settings.setdefault(name, value)

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name the queues in which something is due that nobody has claimed."""
        with self._lock:
            return self._instances.due_queues(self._time()).difference(apart_from)

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed."""
        with self._lock:
            return reopen(ids, self._tables, self._time())

    def snapshot(self) -> Snapshot:
        """All that is stored at this moment; for stores that keep it elsewhere."""
        with self._lock:
            return self._tables.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot holds, exactly, and nothing else."""
        with self._lock:
            self._use(Tables.restored(snapshot))

    def _use(self, tables: Tables) -> None:
        self._tables = tables
        self._instances = tables.instances
        self._definitions = tables.definitions
