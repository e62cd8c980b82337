"""The part of a ``MemoryStore`` that is about definitions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.json import contains
from go_scheduler.stores.changes import check_each_once
from go_scheduler.stores.declared import is_among
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.memory.declaring import declare
from go_scheduler.stores.memory.hand_over import fire_and_start, put_and_start
from go_scheduler.stores.messages import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from threading import Lock
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import DefinitionState, TaskDefinition, TaskInstance
    from go_scheduler.stores.declared import Declaration, Declared
    from go_scheduler.stores.memory.definitions import DefinitionTable
    from go_scheduler.stores.memory.lists import Lists
    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import (
        Claimant,
        Fired,
        Firing,
        Position,
        Tombstone,
    )


class MemoryDefinitions(HandOverStore):
    """What a ``MemoryStore`` does with definitions, under its lock."""

    _lock: Lock
    _time: Callable[[], datetime]
    _tables: Tables
    _definitions: DefinitionTable
    _lists: Lists

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        check_each_once(definitions)
        with self._lock:
            # Comparing runs the triggers' own code: all of it comes before any change.
            plans = [self._definitions.plan_put(each) for each in definitions]
            now = self._time()
            return [self._definitions.put(plan, now) for plan in plans]

    def put_and_start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        """Put one definition, and start it if it is new."""
        with self._lock:
            plan = self._definitions.plan_put(firing.definition)
            return put_and_start(plan, firing, self._tables, claimant, self._time())

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""
        check_each_once(declaration.definitions)
        with self._lock:
            return declare(declaration, self._tables, self._time())

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        with self._lock:
            row = self._definitions.get(definition_id)
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
        owner: str | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        state: DefinitionState | None = None,
        soonest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        found = (
            definition
            for definition in self._lists.definitions(
                ids, after, soonest_first=soonest_first
            )
            if (name is None or definition.name == name)
            and (queue is None or definition.queue == queue)
            and (owner is None or definition.owner == owner)
            and is_among(definition, queues, owners)
            and (state is None or definition.state is state)
            and (metadata is None or contains(definition.metadata, metadata))
        )
        return list(islice(found, limit))

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

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on."""
        with self._lock:
            now = self._time()
            won = {
                firing.definition.id
                for firing in firings
                if self._definitions.fire(firing, now)
            }
        return Answer(done=won)

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        """Fire definitions, and start what they make."""
        with self._lock:
            return fire_and_start(firings, self._tables, claimant, self._time())
