"""Slots in SQL: by which one an instance goes, who lets go of it, and who is next.

As ``stores.rules`` has it: ``slot_of``, ``overlap_of`` and ``overlap_of_backfilled``.

Nothing here waits for a row that somebody else has locked: whoever does while it has a
slot locked might be waited for in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import uuid4

from sqlalchemy import (
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    update,
)

from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap
from go_scheduler.stores.rules import (
    LOCK,
    REPLACED,
    fate_of,
    overlap_of,
    overlap_of_backfilled,
    slot_of,
)
from go_scheduler.stores.sql.tables import definitions, instances, slots

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.sql.tables import Dialect

IS_FIRED = and_(instances.c.fire_time.is_not(None), instances.c.backfilled.is_(None))
"""Whether its definition's schedule has made an instance, and nobody by hand."""
HAS_OWN_OVERLAP = and_(
    instances.c.backfilled.is_not(None),
    instances.c.backfilled != Overlap.ALLOW.value,
)
"""Whether one was backfilled that excludes others, whatever its definition allows."""
_EXCLUDES_NONE = or_(
    and_(definitions.c.waits, IS_FIRED), instances.c.backfilled.is_not(None)
)
_LOCKS = definitions.c.slot.startswith(LOCK)
SLOT_BY_ROW = case(
    (and_(_EXCLUDES_NONE, not_(_LOCKS)), null()), else_=definitions.c.slot
)
"""The slot of an instance, beside the row of its definition.

But for what has an overlap of its own, and shares no lock: its slot is the id of its
definition as text, which engines write differently.
"""


class Exclusion(NamedTuple):
    """Expressions for what an instance has to have, and by what it is decided on.

    They say of the columns of its definition what ``slot_of`` and ``overlap_of`` in
    ``stores.rules`` say of the definition.
    """

    slot: str
    overlap: str


def exclusion(of: str) -> Exclusion:
    """What an instance excludes that has a fire time.

    Args:
        of: The name by which the row of its definition is known.
    """
    return Exclusion(
        slot=f"CASE WHEN NOT {of}.waits OR {of}.slot LIKE '{LOCK}%' THEN {of}.slot END",
        overlap=f"CASE WHEN NOT {of}.waits THEN {of}.overlap END",
    )


def exclusion_by(
    of: TaskDefinition,
) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Of any instance of a definition its slot, and its overlap."""
    column = instances.c
    fired, by_hand = overlap_of(of, fired=True), overlap_of(of, fired=False)
    slots_by = [
        (column.backfilled == each.value, slot_of(of, fired=False, backfilled=each))
        for each in Overlap
    ]
    overlaps_by = [
        (column.backfilled == each.value, overlap_of_backfilled(each))
        for each in Overlap
    ]
    slot = case(
        *slots_by,
        (column.fire_time.is_(None), slot_of(of, fired=False)),
        else_=slot_of(of, fired=True),
    )
    overlap = case(*overlaps_by, (column.fire_time.is_(None), by_hand), else_=fired)
    return slot, overlap


def free_slots(connection: Connection, names: Collection[str]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    holder = exists().where(
        instances.c.id == slots.c.instance_id, instances.c.completed_at.is_(None)
    )
    connection.execute(
        delete(slots).where(slots.c.name.in_(sorted(set(names))), not_(holder))
    )


# The key of a definition, and whether it is of what was backfilled of that.
_Class: TypeAlias = "tuple[UUID, bool]"


class Behind(NamedTuple):
    """Parked instances by how one of their own was, behind whom they were parked.

    Attributes:
        met: The ids of those for which it has ended, and not before they were due.
        open: The ids of those for which it has not ended.
    """

    met: Set[UUID]
    open: Set[UUID]


class ParkedInstances:
    """Instances that are parked, in a transaction that goes over them.

    Args:
        connection: In that transaction.
        dialect: The engine's own words.
        names: Those of their slots, by their ids.
        behind: Behind whom they were parked.

    Attributes:
        skipped: Why they were skipped, by their ids.
        replaced: What is to stop for their sake, by the ids of that.
    """

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        names: Mapping[UUID, str],
        behind: Behind,
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._names = names
        self._behind = behind
        self._now = dialect.now(connection)
        self.skipped: dict[UUID, str] = {}
        self.replaced: dict[UUID, Row[Any]] = {}

    def let_go_on(self) -> Sequence[UUID]:
        """Make them claimable, but for those that are locked; answer which.

        What has yet to be decided on stays parked.
        """
        parked = self._lock(self._parked())
        free = [row for row in parked if not self._has_met(row)]
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

    def decide(self) -> int:
        """Decide on them, but for those that are locked; answer on how many."""
        # Whoever has locked the slots decides on what waits for them, and nobody else.
        query = select(slots).where(slots.c.name.in_(sorted({*self._names.values()})))
        holding = {row.name: row.instance_id for row in self._lock(query, slots)}
        nobody = uuid4()
        free = self._hold(nobody, holding)
        holding |= dict.fromkeys(free, nobody)
        holders = self._holders([*holding.values()])
        undecided = self._parked().where(
            instances.c.overlap.is_not(None), instances.c.slot.in_([*holding])
        )
        found = self._lock(undecided)
        met = {row.id for row in found if self._has_met(row, holding[row.slot])}
        rows = [row for row in found if holding[row.slot] in holders or row.id in met]
        waiting = self._waiting({row.definition_key for row in rows})
        accepted = [
            row.id
            for row in rows
            if self._waits(
                row,
                holders.get(holding[row.slot]),
                waiting[_class_of(row)],
                met=row.id in met,
            )
        ]
        self._update(accepted, overlap=None)
        self._skip()
        self._stop()
        if free:
            theirs = delete(slots).where(slots.c.name.in_(free))
            self._connection.execute(theirs)
        return len(rows)

    def _hold(self, nobody: UUID, held: Collection[str]) -> Sequence[str]:
        """Take what is free of the other slots until all is decided; answer which.

        What is being taken is short: a start is one statement.
        """
        free = sorted({*self._names.values()}.difference(held))
        if not free:
            return ()
        statement = self._dialect.insert(slots).on_conflict_do_nothing()
        taken = statement.values(
            [{"name": each, "instance_id": nobody} for each in free]
        ).returning(slots.c.name)
        return self._connection.execute(taken).scalars().all()

    def _has_met(self, row: Row[Any], holder: UUID | None = None) -> bool:
        """Whether it was due and undecided beside one of its own that has ended."""
        if row.overlap is None or row.due_at > self._now:
            return False
        # Who had not ended at the look held the slot.
        ended_since = row.id in self._behind.open and holder != row.behind
        return row.id in self._behind.met or ended_since

    def _waits(
        self,
        row: Row[Any],
        holder: Row[Any] | None,
        waiting: list[UUID],
        *,
        met: bool,
    ) -> bool:
        """Decide on one; true: it waits."""
        runs = holder is not None and holder.definition_key == row.definition_key
        fate = fate_of(Overlap(row.overlap), runs=runs or met, waiting=tuple(waiting))
        for each in fate.replaced:
            self.skipped[each] = REPLACED
            waiting.remove(each)
        if fate.stops and runs and holder is not None and not holder.cancel_requested:
            self.replaced[holder.id] = holder
        if fate.reason is not None:
            self.skipped[row.id] = fate.reason
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

    def _holders(self, ids: Collection[UUID]) -> Mapping[UUID, Row[Any]]:
        """Those of some instances that have not ended."""
        among = self._dialect.among(instances.c.id, ids)
        query = select(instances).where(among, instances.c.completed_at.is_(None))
        return {row.id: row for row in self._lock(query)}

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
    """With which others of its definition one is decided on."""
    return row.definition_key, row.backfilled is not None
