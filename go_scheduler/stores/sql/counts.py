"""The counts of a SQL store: each reads the ends of indexes, up to a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, case, func, literal, select, true, union_all

from go_scheduler.models import OPEN, Counted, State
from go_scheduler.stores.base import LOOKED_AT
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.sql.lists import (
    CLAIMED,
    IS_OPEN,
    UNRUN,
    are_of,
    conditions,
    ended_as,
    instance_state,
    live_key,
)
from go_scheduler.stores.sql.tables import Dialect, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Select


_column = instances.c
# No engine reads the definitions if no condition is on them.
_BOTH = instances.outerjoin(
    definitions, definitions.c.key == instances.c.definition_key
)
_STATES = {each.value: each for each in State}
_UNRUN_ALONE = [[each] for each in UNRUN]


def count(
    connection: Connection,
    dialect: Dialect,
    filters: Sequence[Filter],
    most: int | None,
) -> Sequence[Mapping[State, Counted]]:
    """How many instances meet each of some filters, as ``Store.count``."""
    if most is None:
        return [_count_all(connection, dialect, each) for each in filters]
    found: list[Mapping[State, Counted]] = [{}] * len(filters)
    others: list[int] = []
    for number, each in enumerate(filters):
        if each == Filter(queues=each.queues, owners=each.owners):
            # Whose each is has to be looked up.
            few = most if each == Filter() else min(most, LOOKED_AT)
            counting = _Counting(connection, dialect, few, each.queues, each.owners)
            found[number] = counting.every_state()
        else:
            others.append(number)
    if others:
        some = _count_some(connection, dialect, [filters[n] for n in others], most)
        for number, counts in zip(others, some, strict=True):
            found[number] = counts
    return found


def _count_all(
    connection: Connection, dialect: Dialect, where: Filter
) -> Mapping[State, Counted]:
    source = instances if where == Filter() else _BOTH
    query = select(instance_state, func.count()).select_from(source)
    query = query.where(*conditions(dialect, where)).group_by(instance_state)
    found: Counter[State] = Counter()
    for state, number in connection.execute(query):
        found[_state(state)] += number
    return {each: Counted(count=found[each]) for each in State}


def _count_some(
    connection: Connection, dialect: Dialect, filters: Sequence[Filter], most: int
) -> Sequence[Mapping[State, Counted]]:
    """Count the first instances of each filter, all by one statement."""
    ids = {each.definition_id for each in filters if each.definition_id is not None}
    # Numbered, so that the text of the statement is the same for any definition.
    keys = {
        id: live_key(dialect, id).cte(f"definition_{number}")
        for number, id in enumerate(ids)
    }
    heads = []
    for number, where in enumerate(filters):
        key = None
        if where.definition_id is not None:
            key = select(keys[where.definition_id].c.key).scalar_subquery()
        query = select(instance_state.label("state"), literal(number).label("part"))
        query = query.select_from(_BOTH)
        query = query.where(*conditions(dialect, where, key))
        if where.fired_since is not None:
            query = query.order_by(_column.fire_time)
        elif where.definition_id is not None and where.is_open:
            query = dialect.looked_up(query, instances, "task_instances_open_idx")
        head = query.limit(most + 1).subquery()
        heads.append(select(head.c.part, head.c.state))
    counts: list[Counter[State]] = [Counter() for _ in filters]
    for part, state in connection.execute(union_all(*heads)):
        counts[part][_state(state)] += 1
    return [
        {
            state: Counted(count=min(each[state], most), more=each.total() > most)
            for state in State
        }
        for each in counts
    ]


def _state(value: str) -> State:
    # What is no outcome of ours, and was written by hand, has not ended.
    return _STATES.get(value, State.PENDING)


def at_least(
    counts: Mapping[str, int], state: State, most: int, *, more: bool
) -> Counted:
    """What was counted of a state, up to the most; whether there may be more of it."""
    return Counted(count=min(counts.get(state.value, 0), most), more=more)


def number_up_to(connection: Connection, query: Select[Any], most: int) -> int:
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


def with_state(condition: ColumnElement[bool]) -> Select[Any]:
    """The states of the instances that meet a condition."""
    return select(instance_state.label("state")).where(condition)


@dataclass(frozen=True)
class _Counting:
    """Counts what is of some queues and owners, state by state, amid so many of all.

    Attributes:
        connection: Where.
        dialect: The engine's own words.
        most: So many are looked at for each number.
        queues: Theirs is among these; None: any.
        owners: Their definition's is among these; None: any.
    """

    connection: Connection
    dialect: Dialect
    most: int
    queues: Collection[str] | None
    owners: Collection[str] | None

    def every_state(self) -> Mapping[State, Counted]:
        """The numbers of all states."""
        found: dict[State, Counted] = {}
        key = _column.definition_key
        are_open = with_state(IS_OPEN).order_by(key)
        if number_up_to(self.connection, are_open, self.most) <= self.most:
            found |= self._counts(OPEN, are_open)
        else:
            # Those that are claimed may be few amid many that are not.
            claimed = [each for each in OPEN if each is not State.PENDING]
            order = (*self._shard, _column.expires_at)
            by_expiry = with_state(CLAIMED).order_by(*order)
            found |= self._counts(claimed, by_expiry)
            found[State.PENDING] = self._waiting()
        latest = [each.desc() for each in (*self._shard, _column.completed_at)]
        for each in (State.FAILED, State.COMPLETED, *UNRUN):
            ended = select(_column.outcome.label("state")).where(ended_as(each))
            found |= self._counts([each], ended.order_by(*latest))
        return found

    @property
    def _is_restricted(self) -> bool:
        return self.queues is not None or self.owners is not None

    @property
    def _shard(self) -> Sequence[ColumnElement[int]]:
        """What comes before the time in an index."""
        return [_column.shard] if self.dialect.shards > 1 else []

    def _counts(
        self, states: Sequence[State], query: Select[Any]
    ) -> dict[State, Counted]:
        """How many of the first of a query are theirs, in each of these states."""
        if not self._is_restricted and states in ([State.FAILED], *_UNRUN_ALONE):
            # All in the index are in this state, which need not be read.
            number = number_up_to(self.connection, query, self.most)
            return {states[0]: Counted.up_to(self.most, number)}
        counts, seen = self._of(query, self.queues)
        more = seen > self.most
        return {each: at_least(counts, each, self.most, more=more) for each in states}

    def _waiting(self) -> Counted:
        """How many can be claimed, or will be when they are due."""
        waits = with_state(_column.claimable_at.is_not(None))
        order = (_column.priority, *self._shard, _column.claimable_at)
        parts = [waits.order_by(_column.queue, *order)]
        if not self._is_restricted:
            number = number_up_to(self.connection, parts[0], self.most)
            return Counted(count=min(number, self.most), more=True)
        if self.queues is not None:
            # That of what is open follows the definition's. Without the whole order of
            # the index all that waits in a queue would be read and sorted.
            parts = [
                waits.where(_column.queue == each).order_by(*order)
                for each in sorted(self.queues)
            ]
        total: Counter[str] = Counter()
        seen = 0
        for part in parts:
            if seen <= self.most:
                counts, looked_at = self._of(part, None)
                total.update(counts)
                seen += looked_at
        # Those that are parked or paused are not looked at.
        return at_least(total, State.PENDING, self.most, more=True)

    def _of(
        self, query: Select[Any], queues: Collection[str] | None
    ) -> tuple[Mapping[str, int], int]:
        """How many of the first are theirs, by state; how many were looked at."""
        if not self._is_restricted:
            found = _by_state(self.connection, query, self.most)
            return found, sum(found.values())
        whose = (_column.definition_key, _column.queue)
        first = query.add_columns(*whose).limit(self.most + 1).subquery()
        # What has one definition is looked up together.
        group = (first.c.state, first.c.definition_key, first.c.queue)
        by_key = (
            select(*group, func.count().label("number")).group_by(*group).subquery()
        )
        is_theirs = and_(true(), *are_of(by_key, queues, self.owners))
        some = select(by_key.c.state, by_key.c.number, is_theirs.label("is_theirs"))
        each = some.subquery()
        theirs = case((each.c.is_theirs, each.c.number), else_=0)
        rows = self.connection.execute(
            select(each.c.state, func.sum(theirs), func.sum(each.c.number)).group_by(
                each.c.state
            )
        ).all()
        return {row[0]: int(row[1]) for row in rows}, sum(int(row[2]) for row in rows)
