"""A store in this process's memory: the reference for all others, and the default."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING
from uuid import uuid4

from sortedcontainers import SortedDict, SortedList

from go_scheduler.clock import SystemClock
from go_scheduler.errors import (
    ConflictError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.json import contains
from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory_instances import (
    DefinitionRow,
    InstanceRow,
    InstanceTable,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import (
        Claim,
        Claimant,
        Firing,
        Release,
        Renewal,
        RunOutcome,
        TaskDefinition,
        TaskInstance,
    )

_CHUNK = 1000


class MemoryStore(Store):
    """Keeps everything in this process's memory, and nothing when it ends.

    It is shared by the schedulers of one process only. Looking for what is due costs
    what is due, not what is stored.

    Args:
        clock: Used instead of the system's clock, for tests.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._time = (clock or SystemClock()).now
        self._lock = threading.Lock()
        self._definitions: SortedDict[int, DefinitionRow] = SortedDict()
        self._due: SortedList[tuple[datetime, int, DefinitionRow]] = SortedList()
        self._idle: SortedList[tuple[datetime, int, DefinitionRow]] = SortedList()
        self._instances = InstanceTable()

    def initialize(self) -> None:
        """Nothing needs to be done."""

    def close(self) -> None:
        """Nothing needs to be done; what is stored stays."""

    def now(self) -> datetime:
        """The time of the clock that was passed, else the system's."""
        return self._time()

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        with self._lock:
            # Comparing runs the triggers' own code: all of it comes before any change.
            plans = [self._plan_put(definition) for definition in definitions]
            now = self._time()
            return [self._put(*plan, now) for plan in plans]

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        with self._lock:
            row = self._definitions.get(definition_id.int)
        if row is None:
            raise TaskDefinitionNotFoundError(definition_id)
        return row.definition

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        after: UUID | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        found = (
            definition
            for definition in self._walk_definitions(ids, after)
            if (name is None or definition.name == name)
            and (queue is None or definition.queue == queue)
            and (metadata is None or contains(definition.metadata, metadata))
        )
        return list(islice(found, limit))

    def delete_definitions(self, ids: Collection[UUID]) -> Set[UUID]:
        """Delete definitions, at once and with all that is not running."""
        with self._lock:
            now = self._time()
            rows = self._rows(ids)
            for row in rows:
                for instance in row.rows:
                    if instance.state is State.RUNNING:
                        self._instances.end(instance, Outcome.CANCELLED, now)
                    elif instance.completed_at is None:
                        self._instances.remove(instance)
                row.instances = None
                self._forget(row)
            return {row.definition.id for row in rows}

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        with self._lock:
            rows = self._rows(ids)
            for row in rows:
                if row.definition.paused:
                    row.definition = replace(row.definition, note=note)
                else:
                    self._pause(row, note)
            return [row.definition for row in rows]

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        with self._lock:
            rows = self._rows(ids)
            for row in rows:
                if row.definition.paused:
                    self._change(row, paused=False, note=None, revision=_next(row))
                    for instance in row.rows:
                        if instance.state is State.PENDING:
                            self._instances.list_pending(instance)
            return [row.definition for row in rows]

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        with self._lock:
            until = self._time() + ahead
            if after is None or after.next_fire_time is None:
                found = self._due.islice()
            else:
                last = (after.next_fire_time, after.id.int + 1)
                found = self._due.irange(last)  # type: ignore[arg-type]
            page = []
            for next_fire_time, _, row in islice(found, limit):
                if next_fire_time > until:
                    break
                page.append(row.definition)
            return page

    def fire_definitions(self, firings: Sequence[Firing]) -> Set[UUID]:
        """Create the instances of each firing and move its definition on."""
        with self._lock:
            now = self._time()
            return {
                firing.definition.id for firing in firings if self._fire(firing, now)
            }

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: bool,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        with self._lock:
            now = self._time()
            table, queues = self._instances, claimant.queues
            rows = table.take_lapsed(queues, now, limit) if lapsed else []
            rows += table.take_pending(queues, now + ahead, limit - len(rows))
            table.claim(rows, claimant, now, now + lead)
            return [row.view() for row in rows]

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Sequence[TaskInstance]:
        """Record that handlers are about to be called."""
        with self._lock:
            now = self._time()
            rows = [row for each in claims if (row := self._instances.current(each))]
            for row in rows:
                if row.state is State.CLAIMED:
                    self._instances.start(row, claimant, now)
            return [row.view() for row in rows]

    def renew_claims(self, renewals: Sequence[Renewal]) -> Mapping[UUID, bool]:
        """Let claims hold for their ``lease`` from the store's time on."""
        with self._lock:
            now = self._time()
            owned = {}
            for renewal in renewals:
                if row := self._instances.current(renewal.claim):
                    self._instances.renew(row, now + renewal.lease)
                    owned[row.id] = row.cancel_requested
            return owned

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Set[UUID]:
        """Record what became of runs."""
        with self._lock:
            now = self._time()
            return {
                outcome.claim.instance_id
                for outcome in outcomes
                if self._finish(outcome, now)
            }

    def release_instances(self, releases: Sequence[Release]) -> Set[UUID]:
        """Give back what was claimed and not called."""
        with self._lock:
            now = self._time()
            released = set()
            for release in releases:
                if row := self._instances.current(release.claim):
                    row.runs -= row.state is State.RUNNING
                    due_at = max(row.due_at, now + release.delay)
                    self._instances.free(row, due_at if release.delay else row.due_at)
                    released.add(row.id)
            return released

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        with self._lock:
            now = self._time()
            answers = {}
            for id, next_fire_time in cancellations.items():
                row = self._instances.get(id)
                if row is None or row.completed_at is not None:
                    continue
                if row.state is State.RUNNING:
                    row.cancel_requested = True
                    answers[id] = Cancelled.REQUESTED
                else:
                    self._instances.end(row, Outcome.CANCELLED, now)
                    self._go_on(row.of, next_fire_time, now)
                    answers[id] = Cancelled.CANCELLED
            return answers

    def delete_finished(self, *, older_than: timedelta, limit: int) -> int:
        """Delete what ended long ago."""
        with self._lock:
            until = self._time() - older_than
            ended = self._instances.forget_ended(until, limit)
            for row in {instance.of for instance in ended}:
                if self._definitions.get(row.definition.id.int) is row:
                    self._note_idle(row)
            idle = [
                row
                for completed_at, _, row in islice(self._idle, limit - len(ended))
                if completed_at <= until
            ]
            for row in idle:
                self._forget(row)
            return len(ended) + len(idle)

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        with self._lock:
            row = self._instances.get(instance_id)
            if row is None:
                raise TaskInstanceNotFoundError(instance_id)
            return row.view()

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        state: State | None = None,
        after: TaskInstance | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        if definition_id is None:
            found: Iterator[TaskInstance] = self._walk_instances(after)
        else:
            found = self._instances_of(definition_id, after)
        return list(
            islice((one for one in found if state is None or one.state is state), limit)
        )

    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        with self._lock:
            return {state: self._instances.counts[state] for state in State}

    def _plan_put(
        self, new: TaskDefinition
    ) -> tuple[TaskDefinition, DefinitionRow | None, bool, bool]:
        row = self._definitions.get(new.id.int)
        revision = None if row is None else row.definition.revision
        if new.revision is not None and new.revision != revision:
            raise ConflictError(new.id, expected=new.revision, revision=revision)
        if row is None:
            return new, None, False, False
        return new, row, new == row.definition, new.trigger == row.definition.trigger

    def _put(
        self,
        new: TaskDefinition,
        row: DefinitionRow | None,
        equal: bool,
        same_trigger: bool,
        now: datetime,
    ) -> TaskDefinition:
        if row is None:
            row = DefinitionRow(
                replace(new, revision=1, paused=False, note=None, completed_at=None)
            )
            self._definitions[new.id.int] = row
            self._settle(row, now)
        elif same_trigger and not equal:
            self._edit(row, new)
        elif not equal:
            self._reschedule(row, new, now)
        return row.definition

    def _edit(self, row: DefinitionRow, new: TaskDefinition) -> None:
        old = row.definition
        self._unlist(row)
        row.definition = replace(
            new,
            trigger=old.trigger,
            next_fire_time=old.next_fire_time,
            paused=old.paused,
            note=old.note,
            completed_at=old.completed_at,
            revision=_next(row),
        )
        self._list(row)
        if new.queue != old.queue:
            self._move(row)

    def _move(self, row: DefinitionRow) -> None:
        for instance in row.rows:
            self._instances.move(instance, row.definition.queue)

    def _reschedule(
        self, row: DefinitionRow, new: TaskDefinition, now: datetime
    ) -> None:
        old = row.definition
        self._unlist(row)
        for instance in row.rows:
            if instance.removable:
                self._instances.remove(instance)
        row.definition = replace(
            new,
            paused=old.paused,
            note=old.note,
            completed_at=None,
            revision=_next(row),
        )
        self._settle(row, now)
        if new.queue != old.queue:
            self._move(row)

    def _pause(self, row: DefinitionRow, note: str | None) -> None:
        again = row.definition.next_fire_time
        for instance in row.rows:
            if instance.removable:
                self._instances.remove(instance)
                assert instance.fire_time is not None
                again = min(again or instance.fire_time, instance.fire_time)
            elif instance.state is State.CLAIMED:
                self._instances.free(instance, instance.due_at)
        completed_at = row.definition.completed_at if again is None else None
        self._change(
            row,
            paused=True,
            note=note,
            next_fire_time=again,
            completed_at=completed_at,
            revision=_next(row),
        )
        for instance in row.rows:
            if instance.state is State.PENDING:
                self._instances.unlist_pending(instance)

    def _fire(self, firing: Firing, now: datetime) -> bool:
        read = firing.definition
        row = self._definitions.get(read.id.int)
        if row is None or row.definition.paused:
            return False
        stored = row.definition
        if (stored.next_fire_time, stored.revision) != (
            read.next_fire_time,
            read.revision,
        ):
            return False
        if stored.trigger.waits and any(one.completed_at is None for one in row.rows):
            return False
        self._unlist(row)
        if firing.skipped is not None:
            self._skip(row, firing, now)
        for fire_time in firing.fire_times:
            if row.instances is None or fire_time not in row.instances:
                self._instances.add(
                    InstanceRow(uuid4(), row, fire_time, fire_time=fire_time)
                )
        row.definition = replace(stored, next_fire_time=firing.next_fire_time)
        self._settle(row, now)
        return True

    def _skip(self, row: DefinitionRow, firing: Firing, now: datetime) -> None:
        assert firing.skipped is not None
        first = firing.skipped.first
        if row.instances is None or first not in row.instances:
            instance = InstanceRow(uuid4(), row, first, fire_time=first)
            instance.skipped = firing.skipped
            self._instances.add(instance)
            self._instances.end(instance, Outcome.SKIPPED, now)

    def _finish(self, outcome: RunOutcome, now: datetime) -> bool:
        row = self._instances.current(outcome.claim)
        if row is None:
            return False
        if outcome.error is not None:
            row.error = outcome.error
        if outcome.started_at is None:
            row.runs -= row.state is State.RUNNING
        if outcome.outcome is None:
            self._instances.free(row, now + outcome.retry_in)
            return True
        row.started_at = outcome.started_at
        self._instances.end(row, outcome.outcome, now)
        self._go_on(row.of, outcome.next_fire_time, now)
        return True

    def _go_on(
        self, row: DefinitionRow, next_fire_time: datetime | None, now: datetime
    ) -> None:
        """Move a definition on that waited for the end of an instance."""
        definition = row.definition
        if (
            definition.trigger.waits
            and definition.next_fire_time is None
            and definition.completed_at is None
        ):
            self._unlist(row)
            completed_at = now if next_fire_time is None else None
            row.definition = replace(
                definition, next_fire_time=next_fire_time, completed_at=completed_at
            )
            self._list(row)

    def _change(self, row: DefinitionRow, **changes: object) -> None:
        self._unlist(row)
        row.definition = replace(row.definition, **changes)  # type: ignore[arg-type]
        self._list(row)

    def _settle(self, row: DefinitionRow, now: datetime) -> None:
        """List a definition, completed if nothing is left to wait for."""
        definition = row.definition
        if definition.next_fire_time is None and not definition.trigger.waits:
            row.definition = replace(definition, completed_at=now)
        self._list(row)

    def _list(self, row: DefinitionRow) -> None:
        definition = row.definition
        if definition.next_fire_time is not None and not definition.paused:
            self._due.add((definition.next_fire_time, definition.id.int, row))
        self._note_idle(row)

    def _unlist(self, row: DefinitionRow) -> None:
        definition = row.definition
        if definition.next_fire_time is not None:
            self._due.discard((definition.next_fire_time, definition.id.int, row))
        if definition.completed_at is not None:
            self._idle.discard((definition.completed_at, definition.id.int, row))

    def _note_idle(self, row: DefinitionRow) -> None:
        """Offer a completed definition without instances to ``delete_finished``."""
        definition = row.definition
        if definition.completed_at is not None and not row.instances:
            self._idle.add((definition.completed_at, definition.id.int, row))

    def _forget(self, row: DefinitionRow) -> None:
        self._unlist(row)
        del self._definitions[row.definition.id.int]

    def _rows(self, ids: Collection[UUID]) -> Sequence[DefinitionRow]:
        keys = {id.int for id in ids}
        return [self._definitions[key] for key in keys if key in self._definitions]

    def _walk_definitions(
        self, ids: Collection[UUID] | None, after: UUID | None
    ) -> Iterator[TaskDefinition]:
        keys = None if ids is None else sorted({id.int for id in ids})
        last = -1 if after is None else after.int
        while chunk := self._definition_chunk(keys, last):
            yield from chunk
            last = chunk[-1].id.int

    def _definition_chunk(
        self, keys: Sequence[int] | None, last: int
    ) -> Sequence[TaskDefinition]:
        """The lock is let go between chunks: a long list must not delay a fire."""
        with self._lock:
            if keys is None:
                found = self._definitions.irange(last, inclusive=(False, True))
            else:
                found = (key for key in keys if key > last and key in self._definitions)
            return [self._definitions[key].definition for key in islice(found, _CHUNK)]

    def _walk_instances(self, after: TaskInstance | None) -> Iterator[TaskInstance]:
        while chunk := self._instance_chunk(after):
            yield from chunk
            after = chunk[-1]

    def _instance_chunk(self, after: TaskInstance | None) -> Sequence[TaskInstance]:
        with self._lock:
            return [row.view() for row in self._instances.walk(after, _CHUNK)]

    def _instances_of(
        self, definition_id: UUID, after: TaskInstance | None
    ) -> Iterator[TaskInstance]:
        with self._lock:
            row = self._definitions.get(definition_id.int)
            views = [] if row is None else [one.view() for one in row.rows]
        views.sort(key=_order)
        if after is None:
            return iter(views)
        return iter(views[bisect_right(views, _order(after), key=_order) :])


def _order(instance: TaskInstance) -> tuple[datetime, int]:
    return instance.execute_at, instance.id.int


def _next(row: DefinitionRow) -> int:
    return (row.definition.revision or 0) + 1
