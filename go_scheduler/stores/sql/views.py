"""The part of a SQL store that people look at: each read is of the end of an index."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import func, select, true, union_all

from go_scheduler.checks import PRIORITIES
from go_scheduler.models.looked_up import Backlog, Counted
from go_scheduler.stores.messages import Position
from go_scheduler.stores.sql.counting import CLAIMED, counts_up_to
from go_scheduler.stores.sql.counting_theirs import counts_among
from go_scheduler.stores.sql.edits import LIVE, definition_of
from go_scheduler.stores.sql.ended import ended_first
from go_scheduler.stores.sql.fired import SQLFired
from go_scheduler.stores.sql.lists import among, are_of
from go_scheduler.stores.sql.tables import contents, definitions, instances
from go_scheduler.stores.view_store import (
    KEYS_LOOKED_AT,
    LOOKED_AT,
    STRETCH,
    Stretch,
    ViewStore,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Subquery

    from go_scheduler.models import Outcome, State, TaskDefinition, TaskInstance

_column = instances.c
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
            lambda connection: counts_among(connection, few, queues, owners)
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
                _column.shard == shard,
                _column.claimable_at.is_not(None),
                condition,
            )
            .order_by(_column.claimable_at)
            .limit(most)
            .subquery()
            for priority in PRIORITIES
            for shard in range(self._dialect.shards)
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
