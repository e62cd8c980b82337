"""The definitions of a ``MemoryStore``, and the sorted lists that find what is due."""

from __future__ import annotations

from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from sortedcontainers import SortedDict, SortedList

from go_scheduler.models import RUNS, Outcome, State
from go_scheduler.models.changed import changed
from go_scheduler.stores.changes import (
    check_revision,
    created,
    edited,
    fired,
    goes_on,
    kept,
    next_revision,
    rescheduled,
    resumed,
)
from go_scheduler.stores.memory.put_plan import PutPlan
from go_scheduler.stores.memory.stored import StoredDefinition, StoredInstance
from go_scheduler.stores.memory.unstarted import discard, take_back
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.remembered import ended_before, is_over
from go_scheduler.stores.slots import exclusion_of
from go_scheduler.stores.unfired import unfired

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence, Set
    from datetime import datetime

    from go_scheduler.models import Skipped, TaskDefinition
    from go_scheduler.stores.memory.instances import InstanceTable
    from go_scheduler.stores.memory.span import Entry
    from go_scheduler.stores.memory.tombstones import TombstoneTable
    from go_scheduler.stores.messages import Firing

_as_read = attrgetter("next_fire_time", "revision")


class DefinitionTable:
    """The rows by id, those with a ``next_fire_time`` in its order, and the idle ones.

    Args:
        instances: Where instances are created and removed.
        tombstones: Where ids are remembered.
    """

    def __init__(self, instances: InstanceTable, tombstones: TombstoneTable) -> None:
        self._instances = instances
        self._tombstones = tombstones
        # A new definition's revision: higher than any that a deleted one had.
        self._first = 1
        self._rows: SortedDict[int, StoredDefinition] = SortedDict()
        self._due: SortedList[Entry] = SortedList()
        self._idle: SortedList[Entry] = SortedList()

    def get(self, definition_id: UUID) -> StoredDefinition | None:
        """The row of this id."""
        return self._rows.get(definition_id.int)

    @property
    def rows(self) -> Sequence[StoredDefinition]:
        """All rows, in the order of their ids."""
        return tuple(self._rows.values())

    @property
    def first_revision(self) -> int:
        """The revision of a new definition."""
        return self._first

    def restore(self, rows: Iterable[StoredDefinition], first_revision: int) -> None:
        """Take rows as they are, with their instances."""
        for row in rows:
            self._rows[row.definition.id.int] = row
            self._list(row)
        self._first = first_revision

    def find(self, ids: Collection[UUID]) -> Sequence[StoredDefinition]:
        """The rows of those of these ids that exist, in no order."""
        keys = {id.int for id in ids}
        return [self._rows[key] for key in keys if key in self._rows]

    def walk(
        self, keys: Sequence[int] | None, last: int, limit: int
    ) -> Sequence[TaskDefinition]:
        """Definitions in the order of their ids.

        Args:
            keys: Only these ids, as sorted numbers; None: all.
            last: Only ids after this one.
            limit: The most to return.
        """
        found: Iterable[int]
        if keys is None:
            found = self._rows.irange(last, inclusive=(False, True))
        else:
            found = (key for key in keys if key > last and key in self._rows)
        return [self._rows[key].definition for key in islice(found, limit)]

    def due(
        self, until: datetime, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Definitions due by then, in the order of their next fire time and id."""
        found: Iterable[Entry]
        if after is None or after.next_fire_time is None:
            found = self._due.islice()
        else:
            last = (after.next_fire_time, after.id.int + 1)
            found = self._due.irange(last)
        return [
            self._rows[id].definition
            for _, id in takewhile(
                lambda entry: entry[0] <= until, islice(found, limit)
            )
        ]

    def plan_put(self, new: TaskDefinition) -> PutPlan:
        """Plan the put of a definition; changes nothing.

        Raises:
            ConflictError: The revision that is set is not the stored one.
        """
        row = self._rows.get(new.id.int)
        if row is not None:
            check_revision(new, row.definition)
            return PutPlan(
                new,
                row,
                equal=new.is_same(row.definition),
                goes_on=goes_on(row.definition, new),
            )
        remembered = self._tombstones.get(new.id) if new.named else None
        check_revision(new, remembered)
        over = remembered if is_over(new, remembered) else None
        return PutPlan(new, None, over=over)

    def put(
        self, plan: PutPlan, now: datetime, *, owner: str | None = None
    ) -> TaskDefinition:
        """Insert or replace a definition as planned; an owner declares it."""
        new, row = plan.definition, plan.row
        if row is None:
            if plan.over is not None:
                return ended_before(new, plan.over)
            if new.named:
                self._tombstones.forget(new.id)
            stored = created(new, now, revision=self._first, owner=owner)
            row = StoredDefinition(stored)
            self._rows[new.id.int] = row
            self._list(row)
        elif plan.equal:
            row.definition = kept(row.definition, new, owner=owner)
        elif plan.goes_on:
            if new.jitter != row.definition.jitter:
                self._take_back(row, now)
            self._replace(row, edited(row.definition, new, owner=owner))
        else:
            discard(row, self._instances, now)
            if (skipped := unfired(row.definition, now)) is not None:
                self._skip(row, skipped, now)
            self._replace(row, rescheduled(row.definition, new, now, owner=owner))
        return row.definition

    def _replace(self, row: StoredDefinition, new: TaskDefinition) -> None:
        old = row.definition
        self._unlist(row)
        row.definition = new
        self._list(row)
        self._follow(row, old)

    def _follow(self, row: StoredDefinition, old: TaskDefinition) -> None:
        """Give its instances what they have of their definition."""
        new = row.definition
        if (new.queue, new.priority) != (old.queue, old.priority):
            for instance in row.rows:
                self._instances.move(instance, new.queue, new.priority)
        if exclusion_of(new) != exclusion_of(old):
            for instance in row.rows:
                self._instances.follow(instance)

    def pause(self, row: StoredDefinition, note: str | None, now: datetime) -> None:
        """Pause a definition; one that is paused already only takes the note."""
        if row.definition.paused:
            row.definition = changed(row.definition, note=note)
            return
        self._take_back(row, now)
        for instance in row.rows:
            if instance.state is State.CLAIMED:
                self._instances.free(instance, instance.due_at)
            if instance.is_unused:
                self._instances.slots.free(instance)
        self.change(
            row,
            paused=True,
            note=note,
            paused_at=now,
            revision=next_revision(row.definition),
        )
        for instance in row.rows:
            if instance.state is State.PENDING:
                self._instances.unlist_pending(instance)

    def _take_back(self, row: StoredDefinition, now: datetime) -> None:
        """Let a definition fire anew what is to come and has not begun."""
        if removed := take_back(row, self._instances, now):
            times = filter(None, [*removed, row.definition.next_fire_time])
            self.change(row, next_fire_time=min(times), completed_at=None)

    def resume(self, row: StoredDefinition, now: datetime) -> None:
        """End a definition's pause, if it is paused."""
        if not row.definition.paused:
            return
        self._unlist(row)
        row.definition = resumed(row.definition, now)
        self._list(row)
        for instance in row.rows:
            if instance.state is State.PENDING:
                self._instances.list_pending(instance)
            elif instance.state in RUNS:
                assert instance.expires_at is not None
                self._instances.hold_until(instance, max(instance.expires_at, now))

    def delete(self, row: StoredDefinition, now: datetime) -> Set[UUID]:
        """Delete a definition and what has not started of it; cancel what runs.

        Returns:
            The ids of the instances that ran.
        """
        ran = set()
        for instance in row.rows:
            if instance.state in RUNS:
                self._instances.end(instance, Outcome.CANCELLED, now)
                ran.add(instance.id)
            elif instance.completed_at is None:
                self._instances.remove(instance)
        row.instances = None
        self._remove(row)
        return ran

    def idle_since(self, until: datetime, limit: int) -> Sequence[StoredDefinition]:
        """Rows completed by then that have no instance, first completed first."""
        return [
            self._rows[id]
            for completed_at, id in islice(self._idle, limit)
            if completed_at <= until
        ]

    def fire(self, firing: Firing, now: datetime) -> bool:
        """Create the instances of a firing, if its definition is as it was read."""
        read = firing.definition
        row = self._rows.get(read.id.int)
        if row is None or row.definition.paused:
            return False
        stored = row.definition
        if _as_read(stored) != _as_read(read):
            return False
        if stored.trigger.waits and row.open:
            return False
        self._unlist(row)
        if firing.skipped is not None:
            self._skip(row, firing.skipped, now)
        for fire_time, at in firing.instances():
            if row.instances is None or fire_time not in row.instances:
                self._instances.add(
                    StoredInstance(
                        uuid4(), row, at, fire_time=fire_time, created_at=now
                    )
                )
        row.definition = fired(stored, firing.next_fire_time, now)
        self._list(row)
        return True

    def _skip(self, row: StoredDefinition, skipped: Skipped, now: datetime) -> None:
        instance = StoredInstance(
            uuid4(), row, skipped.first, fire_time=None, created_at=now
        )
        instance.skipped = skipped
        self._instances.add(instance)
        self._instances.end(instance, Outcome.SKIPPED, now)

    def go_on(
        self, ended: StoredInstance, next_fire_time: datetime | None, now: datetime
    ) -> None:
        """Move a definition on that waited for the end of this instance."""
        row = ended.of
        definition = row.definition
        if (
            definition.next_fire_time is None
            and definition.completed_at is None
            and definition.trigger.waits
            and ended.is_fired
        ):
            self._unlist(row)
            completed_at = now if next_fire_time is None else None
            row.definition = changed(
                definition, next_fire_time=next_fire_time, completed_at=completed_at
            )
            self._list(row)

    def change(self, row: StoredDefinition, **changes: object) -> None:
        """Change fields of a definition."""
        self._unlist(row)
        row.definition = changed(row.definition, **changes)
        self._list(row)

    def _list(self, row: StoredDefinition) -> None:
        definition = row.definition
        if definition.next_fire_time is not None and not definition.paused:
            self._due.add((definition.next_fire_time, definition.id.int))
        self.note_idle(row)

    def _unlist(self, row: StoredDefinition) -> None:
        definition = row.definition
        if definition.next_fire_time is not None:
            self._due.discard((definition.next_fire_time, definition.id.int))
        self.note_busy(row)

    def note_idle(self, row: StoredDefinition) -> None:
        """Offer a completed definition without instances to ``idle_since``."""
        definition = row.definition
        if definition.completed_at is not None and not row.instances:
            self._idle.add((definition.completed_at, definition.id.int))

    def note_busy(self, row: StoredDefinition) -> None:
        """Take back that offer, if it was made."""
        if (completed_at := row.definition.completed_at) is not None:
            self._idle.discard((completed_at, row.definition.id.int))

    def bury(self, row: StoredDefinition) -> None:
        """Delete the row of a definition that has ended; remember its id if given."""
        definition = row.definition
        assert definition.completed_at is not None
        assert definition.revision is not None
        self._remove(row)
        if definition.named:
            self._tombstones.add(
                Tombstone(
                    id=definition.id,
                    trigger=definition.trigger,
                    revision=definition.revision,
                    completed_at=definition.completed_at,
                )
            )

    def _remove(self, row: StoredDefinition) -> None:
        self._first = max(self._first, next_revision(row.definition))
        self._unlist(row)
        del self._rows[row.definition.id.int]
