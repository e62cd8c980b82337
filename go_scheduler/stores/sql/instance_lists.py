"""The part of a SQL store that reads instances, as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import func, select

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import State
from go_scheduler.stores.instance_store import InstanceStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.history import read_runs
from go_scheduler.stores.sql.lists import among, instance_state, instances_like
from go_scheduler.stores.sql.tables import definitions, instances, slots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Select

    from go_scheduler.models import TaskInstance, TaskRun
    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.dialect import Dialect
    from go_scheduler.stores.sql.reader import Reader

Listed = TypeVar("Listed")
_MOST_READ = 1000


class InstanceLists(InstanceStore):
    """What a SQL store reads of instances."""

    _database: Database
    _dialect: Dialect
    _reader: Reader
    _both: Select[tuple[object, ...]]

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        found = self._read(self._both.where(instances.c.id == instance_id))
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        return found[0]

    def find_instances(self, ids: Collection[UUID]) -> Mapping[UUID, TaskInstance]:
        """Read many instances, by one statement for each thousand."""
        wanted = list(ids)
        found: dict[UUID, TaskInstance] = {}
        for start in range(0, len(wanted), _MOST_READ):
            some = wanted[start : start + _MOST_READ]
            read = self._read(self._both.where(instances.c.id.in_(some)))
            found.update((each.id, each) for each in read)
        return found

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        holder = select(slots.c.instance_id).where(slots.c.name == slot)
        query = self._both.where(
            instances.c.id == holder.scalar_subquery(),
            instances.c.completed_at.is_(None),
        )
        return next(iter(self._read(query)), None)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        return self._list(lambda connection: read_runs(connection, instance_id))

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        query = instances_like(
            self._both,
            self._dialect,
            definition_id=definition_id,
            name=name,
            key=key,
            state=state,
            since=since,
            fired_since=fired_since,
            fired_before=fired_before,
            queues=queues,
            owners=owners,
            newest_first=newest_first,
            after=after,
        ).limit(limit)
        return self._listed(query)

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        query = select(instance_state, func.count()).group_by(instance_state)
        if wanted := among(queues, owners):
            query = query.join_from(
                instances,
                definitions,
                definitions.c.key == instances.c.definition_key,
            ).where(*wanted)
        found = self._list(
            lambda connection: {row[0]: row[1] for row in connection.execute(query)}
        )
        return {state: found.get(state.value, 0) for state in State}

    def _read(self, query: Select[tuple[object, ...]]) -> Sequence[TaskInstance]:
        rows = self._database.run(
            Lane.BY_HAND, lambda connection: connection.execute(query).all()
        )
        return self._reader.instances(Lane.BY_HAND, rows)

    def _listed(self, query: Select[Any]) -> Sequence[TaskInstance]:
        rows = self._list(lambda connection: connection.execute(query).all())
        return self._reader.instances(Lane.BY_HAND, rows)

    def _in_order(self, ids: Sequence[UUID]) -> Sequence[TaskInstance]:
        """The instances of these ids that are still there, in their order.

        An id that cannot be read finds nothing.
        """
        ids = [each for each in ids if isinstance(each, UUID)]
        if not ids:
            return []
        found = self._listed(self._both.where(self._dialect.among(instances.c.id, ids)))
        by_id = {each.id: each for each in found}
        return [by_id[id] for id in ids if id in by_id]

    def _list(self, read: Callable[[Connection], Listed]) -> Listed:
        """Read a list; it need not be of this very moment."""
        return self._database.run(
            Lane.BY_HAND, lambda connection: self._dialect.listed(connection, read)
        )
