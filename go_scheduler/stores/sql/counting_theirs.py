"""Counts of what is of some queues and owners, of so many that are looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, case, func, select, true

from go_scheduler.models import OPEN, State
from go_scheduler.stores.sql.counting import (
    CLAIMED,
    IS_OPEN,
    UNRUN,
    at_least,
    ended_as,
    in_order_of_ends,
    number_up_to,
    with_state,
)
from go_scheduler.stores.sql.lists import are_of
from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Select

    from go_scheduler.models.looked_up import Counted

_column = instances.c


def counts_among(
    connection: Connection,
    most: int,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> Mapping[State, Counted]:
    """How many of some queues and owners are in each state, amid so many of all."""
    theirs = _Theirs(connection, most, queues, owners)
    found: dict[State, Counted] = {}
    key = _column.definition_key
    if number_up_to(connection, select(key).where(IS_OPEN).order_by(key), most) <= most:
        found |= theirs.counts(OPEN, with_state(IS_OPEN).order_by(key))
    else:
        # Those that are claimed may be few amid many that are not.
        claimed = [each for each in OPEN if each is not State.PENDING]
        found |= theirs.counts(
            claimed, with_state(CLAIMED).order_by(_column.expires_at)
        )
        found[State.PENDING] = theirs.waiting()
    for each in (State.FAILED, State.COMPLETED, *UNRUN):
        found |= theirs.counts([each], in_order_of_ends(ended_as(each)))
    return found


@dataclass(frozen=True)
class _Theirs:
    """Counts what is of some queues and owners.

    Attributes:
        connection: Where.
        most: So many are looked at for each number.
        queues: The definition's is among these; None: any.
        owners: Likewise.
    """

    connection: Connection
    most: int
    queues: Collection[str] | None
    owners: Collection[str] | None

    def counts(
        self, states: Sequence[State], query: Select[Any]
    ) -> dict[State, Counted]:
        """How many of the first of a query are theirs, in each of these states."""
        counts, seen = self._of(query, self.queues)
        more = seen > self.most
        return {each: at_least(counts, each, self.most, more=more) for each in states}

    def waiting(self) -> Counted:
        """How many can be claimed, or will be when they are due."""
        waits = with_state(_column.claimable_at.is_not(None))
        order = (_column.priority, _column.shard, _column.claimable_at)
        parts = [waits.order_by(_column.queue, *order)]
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
        first = (
            query.add_columns(_column.definition_key).limit(self.most + 1).subquery()
        )
        # What has one definition is looked up together.
        group = (first.c.state, first.c.definition_key)
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
