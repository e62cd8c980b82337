"""Slots in SQL: how they are let go of, and what is parked is gone over.

Nothing here waits for a row that somebody else has locked: whoever does while it has a
slot locked might be waited for in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    not_,
    select,
    text,
    update,
)

from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap
from go_scheduler.stores.slots import REPLACED, judge
from go_scheduler.stores.sql.tables import instances, slots

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row, Select, Table

    from go_scheduler.stores.sql.dialect import Dialect

# The key of a definition, and whether it is of what was backfilled of that.
_Class: TypeAlias = "tuple[UUID, bool]"
_PARKED = """
SELECT id FROM task_instances WHERE parked AND NOT frozen LIMIT 1
"""
# Each name is looked up behind the one before: as many look-ups as there are names,
# however many instances are parked under one.
_TURNS = """
WITH RECURSIVE names (name) AS (
  SELECT min(slot) FROM task_instances WHERE parked AND NOT frozen
  UNION ALL
  SELECT (SELECT min(t.slot) FROM task_instances AS t
           WHERE t.parked AND NOT t.frozen AND t.slot > names.name)
    FROM names WHERE names.name IS NOT NULL)
SELECT names.name AS slot,
       (SELECT t.id FROM task_instances AS t
         WHERE t.parked AND NOT t.frozen AND t.slot = names.name
         ORDER BY t.priority, t.due_at, t.execute_at, t.id LIMIT 1) AS id
  FROM names
 WHERE names.name IS NOT NULL
   AND NOT EXISTS (
         SELECT 1 FROM task_slots AS s JOIN task_instances AS h ON h.id = s.instance_id
          WHERE s.name = names.name AND h.completed_at IS NULL)
 LIMIT :limit
"""
_UNJUDGED = """
SELECT id, slot FROM task_instances
 WHERE parked AND NOT frozen AND overlap IS NOT NULL AND due_at <= :now
 ORDER BY due_at, execute_at, id LIMIT :limit
"""
PARKED = text(_PARKED).columns(instances.c.id)
TURNS = text(_TURNS).columns(instances.c.slot, instances.c.id)
UNJUDGED = (
    text(_UNJUDGED)
    .bindparams(bindparam("now", type_=instances.c.due_at.type))
    .columns(instances.c.id, instances.c.slot)
)


def free_slots(connection: Connection, names: Collection[str]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    holder = exists().where(
        instances.c.id == slots.c.instance_id, instances.c.completed_at.is_(None)
    )
    connection.execute(
        delete(slots).where(slots.c.name.in_(sorted(set(names))), not_(holder))
    )


class ParkedInstances:
    """Instances that are parked, in a transaction that goes over them.

    Args:
        connection: In that transaction.
        dialect: The engine's own words.
        names: Those of their slots, by their ids, in their turn.
    """

    def __init__(
        self, connection: Connection, dialect: Dialect, names: Mapping[UUID, str]
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._names = names
        self._now = dialect.now(connection)
        self.skipped: dict[UUID, str] = {}
        self.replaced: dict[UUID, Row[Any]] = {}

    def let_go_on(self) -> Sequence[UUID]:
        """Make them claimable, but for those that are locked; answer which."""
        free = self._lock(self._parked())
        # Nobody is to find a slot taken by one that has ended.
        free_slots(self._connection, [row.slot for row in free])
        due_at, now = instances.c.due_at, literal(self._now, instances.c.due_at.type)
        ids = [row.id for row in free]
        self._update(
            ids,
            parked=False,
            # An earlier time would lie below the bound of every scan.
            claimable_at=case((due_at < now, now), else_=due_at),
        )
        return ids

    def judge(self) -> int:
        """Judge them, but for those that are locked; answer how many were not."""
        # Whoever has locked the slots judges what waits for them, and nobody else.
        query = select(slots).where(slots.c.name.in_(sorted({*self._names.values()})))
        holding = {row.name: row.instance_id for row in self._lock(query, slots)}
        unjudged = self._parked().where(
            instances.c.overlap.is_not(None), instances.c.slot.in_(sorted(holding))
        )
        rows = self._lock(unjudged)
        among = self._dialect.among(instances.c.id, [*holding.values()])
        query = select(instances).where(among, instances.c.completed_at.is_(None))
        holders = {row.id: row for row in self._lock(query)}
        waiting = self._waiting({row.definition_key for row in rows})
        accepted = []
        for row in rows:
            holder = holders.get(holding[row.slot])
            if holder is None:
                continue
            if self._judge(row, holder, waiting[_class_of(row)]):
                accepted.append(row.id)
        self._update(accepted, overlap=None)
        self._skip()
        self._stop()
        return len(self._names) - len(rows)

    def _judge(self, row: Row[Any], holder: Row[Any], waiting: list[UUID]) -> bool:
        """Judge one; true: it waits."""
        runs = holder.definition_key == row.definition_key
        verdict = judge(Overlap(row.overlap), runs=runs, waiting=tuple(waiting))
        for each in verdict.replaced:
            self.skipped[each] = REPLACED
            waiting.remove(each)
        if verdict.stops and not holder.cancel_requested:
            self.replaced[holder.id] = holder
        if verdict.reason is not None:
            self.skipped[row.id] = verdict.reason
            return False
        waiting.append(row.id)
        return True

    def _parked(self) -> Select[Any]:
        column = instances.c
        return (
            select(instances)
            .where(
                self._dialect.among(column.id, [*self._names]),
                column.parked,
                not_(column.frozen),
                column.completed_at.is_(None),
            )
            .order_by(column.due_at, column.execute_at, column.id)
        )

    def _waiting(self, keys: Collection[UUID]) -> Mapping[_Class, list[UUID]]:
        """What waits of some definitions, in its turn."""
        column = instances.c
        query = (
            select(instances)
            .where(
                self._dialect.among(column.definition_key, keys),
                column.completed_at.is_(None),
                column.outcome.is_(None),
                column.parked,
                column.overlap.is_(None),
            )
            .order_by(column.due_at, column.execute_at, column.id)
        )
        found: dict[_Class, list[UUID]] = defaultdict(list)
        for row in self._lock(query, index="task_instances_open_idx"):
            found[_class_of(row)].append(row.id)
        return found

    def _skip(self) -> None:
        column = instances.c
        at = func.coalesce(column.fire_time, column.execute_at)
        for reason in set(self.skipped.values()):
            self._update(
                [each for each, why in self.skipped.items() if why == reason],
                parked=False,
                outcome=Outcome.SKIPPED.value,
                completed_at=self._now,
                skipped_first=at,
                skipped_last=at,
                skipped_count=1,
                skipped_reason=reason,
            )

    def _stop(self) -> None:
        asked = {
            id
            for id, row in self.replaced.items()
            # Whoever ends one that its trigger waits for says when that fires next.
            if row.started_at is not None or row.waits
        }
        self._update(asked, cancel_requested=True)
        ended = self.replaced.keys() - asked
        self._update(
            ended,
            outcome=Outcome.CANCELLED.value,
            completed_at=self._now,
            claimable_at=None,
        )
        free_slots(self._connection, [self.replaced[each].slot for each in ended])

    def _lock(
        self,
        query: Select[Any],
        table: Table = instances,
        index: str = "task_instances_pkey",
    ) -> Sequence[Row[Any]]:
        """The rows of a query that nobody else has locked."""
        if table is instances:
            query = self._dialect.looked_up(query, table, index)
        return self._connection.execute(query.with_for_update(skip_locked=True)).all()

    def _update(self, ids: Collection[UUID], **values: object) -> None:
        if ids:
            among = self._dialect.among(instances.c.id, ids)
            statement = self._dialect.looked_up(
                update(instances).where(among), instances, "task_instances_pkey"
            )
            self._connection.execute(statement.values(values))


def _class_of(row: Row[Any]) -> _Class:
    """With which others of its definition one is judged."""
    return row.definition_key, row.backfilled is not None
