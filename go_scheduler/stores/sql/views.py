"""The part of a SQL store that people look at: each read is of the end of an index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, literal_column, or_, select, true, union_all

from go_scheduler.checks import PRIORITIES
from go_scheduler.models import Outcome, State
from go_scheduler.models.looked_up import Backlog, Counted
from go_scheduler.stores.messages import Position
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import LIVE, definition_of
from go_scheduler.stores.sql.instance_lists import InstanceLists
from go_scheduler.stores.sql.lists import instance_state
from go_scheduler.stores.sql.tables import contents, definitions, instances
from go_scheduler.stores.view_store import (
    KEYS_LOOKED_AT,
    LOOKED_AT,
    Stretch,
    ViewStore,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, Subquery

    from go_scheduler.models import TaskDefinition, TaskInstance

_column = instances.c
_QUEUES = 100
_EARLIEST = datetime.min.replace(tzinfo=UTC)
# As the indexes say it, so that they are known to have them all.
_FAILED: ColumnElement[str] = literal_column(f"'{Outcome.FAILED.value}'")
_OPEN = and_(_column.completed_at.is_(None), _column.outcome.is_(None))
_HAS_FAILED = and_(_column.completed_at.is_not(None), _column.outcome == _FAILED)
_HAS_ENDED = and_(_column.completed_at.is_not(None), _column.outcome != _FAILED)
_CLAIMED = and_(
    _column.claimed_by.is_not(None),
    _column.completed_at.is_(None),
    literal_column("NOT task_instances.frozen"),
)
_STILL_OPEN = (State.PENDING, State.CLAIMED, State.RUNNING)
_ENDED_WELL = (State.COMPLETED, State.CANCELLED, State.SKIPPED)


class SQLViews(InstanceLists, ViewStore):
    """What pages show of a SQL store."""

    def counts_up_to(self, most: int) -> Mapping[State, Counted]:
        """How many instances are in each state, as far as they have to be counted."""
        return self._list(lambda connection: _counts(connection, most))

    def list_backlog(self, most: int) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""

        def read(connection: Connection) -> Sequence[Backlog]:
            now = self._dialect.now(connection)
            found = (
                self._backlog(connection, queue, now, most)
                for queue in _queues(connection)
            )
            return [each for each in found if each is not None]

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
            select(_column.id, _column.due_at)
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

    def list_waiting(self, *, limit: int) -> Sequence[TaskInstance]:
        """Read what can be claimed, or will be when it is due, earliest due first."""

        def read(connection: Connection) -> Sequence[UUID]:
            found: list[Any] = []
            for queue in _queues(connection):
                places = self._places(queue, limit, true())
                heads = union_all(
                    *(select(each.c.id, each.c.due_at) for each in places)
                )
                found += connection.execute(heads)
            return [id for id, _ in sorted(found, key=_due)[:limit]]

        return self._in_order(self._list(read))

    def list_ended(
        self, outcome: Outcome, *, before: Position | None = None, limit: int
    ) -> Stretch:
        """Read instances that ended in one way, those that ended last first."""
        latest = _latest_ended(outcome, before)
        looked_at = latest.limit(LOOKED_AT).subquery()
        ids = (
            select(looked_at.c.id, looked_at.c.completed_at)
            .where(looked_at.c.outcome == outcome.value)
            .order_by(looked_at.c.completed_at.desc(), looked_at.c.id.desc())
            .limit(limit)
        )

        def read(connection: Connection) -> tuple[Sequence[Any], Position | None]:
            rows = connection.execute(ids).all()
            if len(rows) == limit:
                return rows, Position(at=rows[-1].completed_at, id=rows[-1].id)
            last = connection.execute(latest.offset(LOOKED_AT - 1).limit(1)).first()
            end = None if last is None else Position(at=last.completed_at, id=last.id)
            return rows, end

        rows, end = self._list(read)
        return Stretch(found=self._in_order([row.id for row in rows]), next=end)

    def list_claims(self, *, limit: int) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, those first whose claims expire first."""
        query = self._both.where(_CLAIMED, _column.expires_at.is_not(None))
        return self._listed(query.order_by(_column.expires_at).limit(limit))

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
        # Asked for a single row, CockroachDB 26 answers with an internal error.
        return self._listed(query.order_by(order).limit(max(2, limit)))[:limit]

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first."""
        some = (
            select(_column.id, _column.execute_at)
            .where(
                _column.definition_key == self._live(definition_id),
                _column.fire_time.is_(None),
            )
            .limit(LOOKED_AT)
            .subquery()
        )
        order = (some.c.execute_at.desc(), some.c.id.desc())
        latest = select(some.c.id).order_by(*order).limit(limit)
        ids = self._list(lambda connection: connection.execute(latest).scalars().all())
        return self._in_order(ids)

    def search_names(self, prefix: str, *, limit: int) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, in the order of their ids."""
        begins = func.substr(contents.c.name, 1, len(prefix)) == prefix
        query = LIVE.where(begins).order_by(definitions.c.id).limit(limit)
        return self._list(
            lambda connection: [definition_of(row) for row in connection.execute(query)]
        )

    def search_key(self, key: str, *, limit: int) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand definitions at most."""
        keys = (
            select(definitions.c.key)
            .where(definitions.c.deleted_at.is_(None))
            .order_by(definitions.c.id)
            .limit(KEYS_LOOKED_AT)
        )

        def read(connection: Connection) -> Sequence[UUID]:
            among = self._dialect.among(
                _column.definition_key, connection.execute(keys).scalars().all()
            )
            query = select(_column.id).where(among, _column.key == key)
            query = query.order_by(_column.execute_at, _column.id).limit(limit)
            return connection.execute(query).scalars().all()

        return self._in_order(self._list(read))

    def _live(self, definition_id: UUID) -> ScalarSelect[Any]:
        live = select(definitions.c.key).where(
            definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
        )
        return self._dialect.looked_up(
            live, definitions, "task_definitions_id_key"
        ).scalar_subquery()

    def _listed(self, query: Select[Any]) -> Sequence[TaskInstance]:
        rows = self._list(lambda connection: connection.execute(query).all())
        return self._reader.instances(Lane.BY_HAND, rows)

    def _in_order(self, ids: Sequence[UUID]) -> Sequence[TaskInstance]:
        """The instances of these ids that are still there, in their order."""
        if not ids:
            return []
        found = self._listed(self._both.where(self._dialect.among(_column.id, ids)))
        by_id = {each.id: each for each in found}
        return [by_id[id] for id in ids if id in by_id]


def _due(row: Any) -> tuple[datetime, UUID]:
    # One that cannot be read is first, as it is in the index.
    at = row.due_at if isinstance(row.due_at, datetime) else _EARLIEST
    return at, row.id


def _counts(connection: Connection, most: int) -> Mapping[State, Counted]:
    failed = _number(connection, _ended_in(_HAS_FAILED), most)
    ended = _by_state(connection, _ended_in(_HAS_ENDED), most)
    more = sum(ended.values()) > most
    return {
        **_of_open(connection, most),
        State.FAILED: Counted.up_to(most, failed),
        **{each: _at_least(ended, each, most, more=more) for each in _ENDED_WELL},
    }


def _of_open(connection: Connection, most: int) -> dict[State, Counted]:
    key = _column.definition_key
    total = _number(connection, select(key).where(_OPEN).order_by(key), most)
    if total <= most:
        counts = _by_state(connection, _with_state(_OPEN).order_by(key), most)
        return {each: _at_least(counts, each, most, more=False) for each in _STILL_OPEN}
    # Those that are claimed may be few amid many that are not.
    claimed = _with_state(_CLAIMED).order_by(_column.expires_at)
    counts = _by_state(connection, claimed, most)
    more = sum(counts.values()) > most
    queue = _column.queue
    waiting = select(queue).where(_column.claimable_at.is_not(None)).order_by(queue)
    counts[State.PENDING] = _number(connection, waiting, most)
    return {
        each: _at_least(counts, each, most, more=more or each is State.PENDING)
        for each in _STILL_OPEN
    }


def _at_least(
    counts: Mapping[str, int], state: State, most: int, *, more: bool
) -> Counted:
    return Counted(count=min(counts.get(state.value, 0), most), more=more)


def _number(connection: Connection, query: Select[Any], most: int) -> int:
    """How many rows a query has, up to one more than the most."""
    first = query.limit(most + 1).subquery()
    return connection.execute(select(func.count()).select_from(first)).scalar_one()


def _by_state(connection: Connection, query: Select[Any], most: int) -> dict[str, int]:
    """How many of the first of a query are in each state."""
    first = query.limit(most + 1).subquery()
    rows = connection.execute(
        select(first.c.state, func.count()).group_by(first.c.state)
    )
    return {row[0]: row[1] for row in rows}


def _with_state(condition: ColumnElement[bool]) -> Select[Any]:
    return select(instance_state.label("state")).where(condition)


def _ended_in(index: ColumnElement[bool]) -> Select[Any]:
    ended = select(_column.outcome.label("state")).where(index)
    return ended.order_by(_column.completed_at.desc())


def _latest_ended(outcome: Outcome, before: Position | None) -> Select[Any]:
    """What ended last of what an index has beside those with this outcome."""
    query = select(_column.id, _column.completed_at, _column.outcome).where(
        _HAS_FAILED if outcome is Outcome.FAILED else _HAS_ENDED
    )
    if before is not None:
        query = query.where(
            _column.completed_at <= before.at,
            or_(_column.completed_at < before.at, _column.id < before.id),
        )
    return query.order_by(_column.completed_at.desc(), _column.id.desc())


def _queues(connection: Connection) -> Iterator[str]:
    """The queues in which anything can be claimed, or will be: one step for each."""
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
