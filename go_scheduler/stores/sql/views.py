"""The part of a SQL store that people look at: each read is of the end of an index."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import func, literal, select, true, union_all

from go_scheduler.checks import PRIORITIES
from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import State
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.base import (
    KEYS_LOOKED_AT,
    LOOKED_AT,
    STRETCH,
    FiredStore,
    InstanceStore,
    Stretch,
    ViewStore,
)
from go_scheduler.stores.messages import Position
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import LIVE, definition_of
from go_scheduler.stores.sql.lists import (
    CLAIMED,
    among,
    are_of,
    count_waiting,
    counts_among,
    counts_up_to,
    ended_first,
    instance_state,
    instances_like,
    with_state,
)
from go_scheduler.stores.sql.tables import (
    contents,
    definitions,
    instances,
    read_runs,
    slots,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, Subquery

    from go_scheduler.models import Outcome, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.tables import Dialect

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


_column = instances.c
_STATES = {each.value: each for each in State}
# With statistics of the table CockroachDB 26.1 answers by an internal error ("cannot
# overwrite [limit hint: 1.00]") if it is asked for less than five rows.
_FEWEST = 20


class SQLFired(InstanceLists, FiredStore):
    """What a SQL store reads of one definition."""

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired, in the order of fire times."""
        order = _column.fire_time.desc() if newest_first else _column.fire_time
        query = self._both.where(
            _column.definition_key == self._live(definition_id),
            _column.fire_time >= since,
            _column.fire_time < before,
        )
        index = "task_instances_fire_key"
        query = self._dialect.looked_up(query, instances, index)
        query = query.order_by(order).limit(max(_FEWEST, limit))
        return self._listed(query)[:limit]

    def count_fired(
        self, definition_id: UUID, bounds: Sequence[datetime], *, most: int
    ) -> Sequence[Mapping[State, int]]:
        """How many a definition has fired, by their state, in some spans of time."""
        counts: list[Counter[State]] = [Counter() for _ in bounds[1:]]

        def read(connection: Connection) -> Sequence[Any]:
            key = connection.execute(select(self._live(definition_id))).scalar()
            if key is None:
                return []
            parts = (
                with_state(_column.definition_key == key)
                .add_columns(literal(number).label("part"))
                .where(_column.fire_time >= since, _column.fire_time < before)
                .order_by(_column.fire_time)
                .limit(most)
                .subquery()
                for number, (since, before) in enumerate(pairwise(bounds))
            )
            heads = (select(each.c.part, each.c.state) for each in parts)
            return connection.execute(union_all(*heads)).all()

        for part, state in self._list(read):
            # What is no outcome of ours, and was written by hand, has not ended.
            counts[part][_STATES.get(state, State.PENDING)] += 1
        return counts

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first."""
        without = select(_column.id, _column.execute_at).where(
            _column.definition_key == self._live(definition_id),
            _column.fire_time.is_(None),
        )
        index = "task_instances_fire_key"
        without = self._dialect.looked_up(without, instances, index)
        some = without.limit(LOOKED_AT).subquery()
        order = (some.c.execute_at.desc(), some.c.id.desc())
        latest = select(some.c.id).order_by(*order).limit(limit)
        ids = self._list(lambda connection: connection.execute(latest).scalars().all())
        return self._in_order(ids)

    def count_waiting(self, definition_id: UUID, *, most: int) -> int:
        """How many instances of a definition have not ended, and have not begun."""
        key = self._live(definition_id)
        found: int = self._list(
            lambda each: count_waiting(each, self._dialect, key=key, most=most)
        )
        return found

    def _live(self, definition_id: UUID) -> ScalarSelect[Any]:
        live = select(definitions.c.key).where(
            definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
        )
        return self._dialect.looked_up(
            live, definitions, "task_definitions_id_key"
        ).scalar_subquery()


_QUEUES = 100
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class SQLViews(SQLFired, ViewStore):
    """What pages show of a SQL store."""

    def counts_up_to(
        self,
        most: int,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, Counted]:
        """How many instances are in each state, as far as they have to be counted."""
        if queues is None and owners is None:
            return self._list(lambda connection: counts_up_to(connection, most))
        # Whose each is has to be looked up.
        few = min(most, LOOKED_AT)
        return self._list(
            lambda connection: counts_among(
                connection, self._dialect, few, queues, owners
            )
        )

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""

        def read(connection: Connection) -> Sequence[Backlog]:
            now = self._dialect.now(connection)
            found = (
                self._backlog(connection, queue, now, most)
                for queue in _queues(connection, queues)
            )
            return list(islice(filter(None, found), _QUEUES))

        return self._list(read)

    def _backlog(
        self, connection: Connection, queue: str, now: datetime, most: int
    ) -> Backlog | None:
        places = self._places(queue, most + 1, _column.claimable_at <= now)
        counts = union_all(
            *(select(func.count(), func.min(each.c.due_at)) for each in places)
        )
        found = [(count, oldest) for count, oldest in connection.execute(counts)]
        times = [oldest for _, oldest in found if isinstance(oldest, datetime)]
        if not times:
            return None
        due = Counted.up_to(most, sum(count for count, _ in found))
        return Backlog(queue=queue, due=due, oldest=min(times))

    def _places(
        self, queue: str, most: int, condition: ColumnElement[bool]
    ) -> Sequence[Subquery]:
        """What can be claimed first in each part of the index."""
        return [
            select(_column.id, _column.due_at, _column.definition_key)
            .where(
                _column.queue == queue,
                _column.priority == priority,
                part,
                _column.claimable_at.is_not(None),
                condition,
            )
            .order_by(_column.claimable_at)
            .limit(most)
            .subquery()
            for priority in PRIORITIES
            for part in self._dialect.parts(_column.shard)
        ]

    def list_waiting(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what can be claimed, or will be when it is due, earliest due first."""

        def read(connection: Connection) -> Sequence[UUID]:
            found: list[Any] = []
            waiting = list(_queues(connection, queues))
            most = limit
            if owners is not None:
                most = max(limit, LOOKED_AT // max(1, len(waiting)))
            for queue in waiting:
                heads = (
                    select(each.c.id, each.c.due_at).where(*are_of(each, None, owners))
                    for each in self._places(queue, most, true())
                )
                found += connection.execute(union_all(*heads))
            return [id for id, _ in sorted(found, key=_due)[:limit]]

        return self._in_order(self._list(read))

    def list_ended(
        self,
        outcome: Outcome,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        before: Position | None = None,
        limit: int,
    ) -> Stretch:
        """Read instances that ended in one way, those that ended last first."""
        query = ended_first(outcome, queues, owners, before=before, most=STRETCH).limit(
            limit
        )
        rows = self._list(lambda connection: connection.execute(query).all())
        ids = [row.id for row in rows if row.is_theirs]
        more = len(rows) == limit or len(ids) < len(rows)
        end = _position(rows[-1]) if more else None
        return Stretch(found=self._in_order(ids), next=end)

    def list_claims(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, those first whose claims expire first."""
        query = self._both.where(CLAIMED, _column.expires_at.is_not(None))
        query = query.where(*among(None, owners))
        if queues is not None:
            # Theirs follows the definition's, and the index has it.
            query = query.where(_column.queue.in_(sorted(queues)))
        return self._listed(query.order_by(_column.expires_at).limit(limit))

    def search_names(
        self,
        prefix: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, in the order of their ids."""
        begins = func.substr(contents.c.name, 1, len(prefix)) == prefix
        query = LIVE.where(begins, *among(queues, owners))
        query = query.order_by(definitions.c.id).limit(limit)
        return self._list(
            lambda connection: [definition_of(row) for row in connection.execute(query)]
        )

    def search_key(
        self,
        key: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand definitions at most."""
        keys = (
            select(definitions.c.key)
            .where(definitions.c.deleted_at.is_(None), *among(queues, owners))
            .order_by(definitions.c.id)
            .limit(KEYS_LOOKED_AT)
        )

        def read(connection: Connection) -> Sequence[UUID]:
            of_these = self._dialect.among(
                _column.definition_key, connection.execute(keys).scalars().all()
            )
            query = select(_column.id).where(of_these, _column.key == key)
            query = query.order_by(_column.execute_at, _column.id).limit(limit)
            query = self._dialect.looked_up(query, instances, "task_instances_key_key")
            return connection.execute(query).scalars().all()

        return self._in_order(self._list(read))


def _position(row: Any) -> Position:
    # Behind an id that cannot be read, on with what ended before.
    id = row.id if isinstance(row.id, UUID) else UUID(int=0)
    return Position(at=row.completed_at, id=id)


def _due(row: Any) -> tuple[datetime, str]:
    # One that cannot be read is first, as it is in the index.
    at = row.due_at if isinstance(row.due_at, datetime) else _EARLIEST
    # Nor can each id be read; the texts of all others sort as they do.
    return at, str(row.id)


def _queues(connection: Connection, queues: Collection[str] | None) -> Iterator[str]:
    """These, or those in which anything waits or will: one step for each."""
    if queues is not None:
        yield from sorted(queues)
        return
    last = ""
    for _ in range(_QUEUES):
        query = (
            select(_column.queue)
            .where(_column.claimable_at.is_not(None), _column.queue > last)
            .order_by(_column.queue)
            .limit(1)
        )
        found = connection.execute(query).scalar()
        if found is None:
            return
        yield found
        last = found
