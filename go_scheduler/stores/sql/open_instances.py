"""The instances of definitions that have not ended, as edits of those change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import (
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    not_,
    select,
    update,
)

from go_scheduler.models import Outcome
from go_scheduler.stores.sql.instance_rows import NOT_ELSEWHERE
from go_scheduler.stores.sql.rows import EARLIEST, LATEST, read_time
from go_scheduler.stores.sql.slots import IS_FIRED, exclusion_by
from go_scheduler.stores.sql.tables import instances, runs, slots

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.sql.dialect import Dialect, Query


class OpenInstances:
    """Instances of some definitions that have not ended, in an edit's transaction.

    Args:
        connection: In that transaction.
        dialect: The engine's own words.
        keys: Of the definitions, whose rows have been changed.
    """

    def __init__(
        self, connection: Connection, dialect: Dialect, keys: Collection[UUID]
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._theirs = (
            dialect.among(instances.c.definition_key, keys),
            instances.c.completed_at.is_(None),
            instances.c.outcome.is_(None),
        )

    def lock(self) -> None:
        """Let nothing be claimed, start or end between the statements that follow."""
        self._lock()

    def lock_unused(self, after: datetime) -> None:
        """Let none of these that never ran start, of fire times after an instant."""
        self._lock(*_UNUSED, _is_coming(after))

    def _lock(self, *which: ColumnElement[bool]) -> None:
        self._connection.execute(
            self._only_theirs(select(instances.c.id))
            .where(*which)
            # One order for all nodes, so that none waits for another in a circle.
            .order_by(instances.c.id)
            .with_for_update()
        ).all()

    def follow(self, values: Mapping[str, object], now: datetime) -> None:
        """Give them the values that follow their definition.

        Args:
            values: By column, but for those that stay.
            now: The store's time.
        """
        if "queue" in values or "priority" in values:
            # An earlier time would lie below the bound of who scans the other place.
            claimable_at = _no_earlier(instances.c.claimable_at, now)
            values = {**values, "claimable_at": claimable_at}
        if "waits" in values:
            # No trigger waits for the end of what its schedule has not made.
            values = {**values, "waits": and_(IS_FIRED, literal(values["waits"]))}
        self._update(values)
        if "queue" in values:
            self.free_unstarted(now)

    def exclude(self, of: TaskDefinition, now: datetime) -> None:
        """Give them what they exclude now, but for those that run in a slot.

        What was parked goes on.

        Args:
            of: Their definition.
            now: The store's time.
        """
        self._let_go()
        column = instances.c
        slot, overlap = exclusion_by(of)
        has_slot = exists().where(
            slots.c.name == column.slot, slots.c.instance_id == column.id
        )
        goes_on = case((column.parked, _claimable_at(now)), else_=column.claimable_at)
        self._update(
            {
                "slot": slot,
                "overlap": overlap,
                "parked": False,
                "claimable_at": goes_on,
            },
            not_(has_slot),
        )

    def _let_go(self) -> None:
        """Let go of the slots of those that do not run."""
        column = instances.c
        query = self._only_theirs(select(column.slot).distinct())
        names = self._connection.execute(query).scalars()
        holder = exists().where(
            column.id == slots.c.instance_id, column.started_at.is_(None), *self._theirs
        )
        self._connection.execute(
            delete(slots).where(slots.c.name.in_(sorted(filter(None, names))), holder)
        )

    def last_to_stay(self, now: datetime) -> datetime:
        """The latest fire time to come of what has begun or ended; now: there is none.

        What ended is not open, but says as well that it was its turn.
        """
        column = instances.c
        query = select(func.max(column.fire_time)).where(
            self._theirs[0],
            _is_coming(now),
            not_(and_(column.completed_at.is_(None), *_UNUSED)),
        )
        query = self._dialect.looked_up(query, instances, "task_instances_fire_key")
        return read_time(self._connection.execute(query).scalar()) or now

    def remove_unused(self, after: datetime) -> Sequence[datetime]:
        """Remove those that never ran, of fire times after this; answer these."""
        statement = (
            self._only_theirs(delete(instances))
            .where(*_UNUSED, _is_coming(after))
            .returning(instances.c.fire_time)
        )
        removed = map(read_time, self._connection.execute(statement).scalars())
        return [each for each in removed if each is not None]

    def skip_unused(self, now: datetime, reason: str) -> None:
        """End those that never ran, whose fire times have passed."""
        column = instances.c
        self._update(
            {
                "outcome": Outcome.SKIPPED.value,
                "completed_at": now,
                "skipped_first": column.fire_time,
                "skipped_last": column.fire_time,
                "skipped_count": 1,
                "skipped_reason": reason,
                "fire_time": None,
                "claimed_by": None,
                **NOT_ELSEWHERE,
                "parked": False,
                "claimable_at": None,
            },
            *_UNUSED,
            column.fire_time.between(EARLIEST, now),
        )

    def leave_slots(self) -> None:
        """Let those that never ran go of their slots."""
        query = select(instances.c.id, instances.c.slot)
        query = self._only_theirs(query).where(*_UNUSED, instances.c.slot.is_not(None))
        unused = {row.id: row.slot for row in self._connection.execute(query)}
        if unused:
            self._connection.execute(
                delete(slots).where(
                    slots.c.name.in_(sorted(set(unused.values()))),
                    self._dialect.among(slots.c.instance_id, unused),
                )
            )

    def free_unstarted(self, now: datetime) -> None:
        """Take back the claims that have not started."""
        self._update(
            {
                "claimed_by": None,
                **NOT_ELSEWHERE,
                "expires_at": None,
                "claimable_at": _claimable_at(now),
            },
            instances.c.claimed_by.is_not(None),
            instances.c.started_at.is_(None),
        )

    def freeze(self) -> None:
        """Let none of them be claimed."""
        self._update({"frozen": True, "claimable_at": None})

    def thaw(self, now: datetime) -> None:
        """End that they are frozen."""
        # A claim that lapsed long ago would lie below the bound of every scan.
        expires_at = _no_earlier(instances.c.expires_at, now)
        self._update({"frozen": False, "expires_at": expires_at})
        self._update(
            {"claimable_at": _claimable_at(now)},
            instances.c.claimed_by.is_(None),
            not_(instances.c.parked),
        )

    def end(self, now: datetime) -> Sequence[tuple[UUID, UUID]]:
        """Cancel what runs, and remove all others.

        Returns:
            The key of the definition and the id of each that ran.
        """
        cancelled = self._connection.execute(
            self._only_theirs(update(instances))
            .where(instances.c.started_at.is_not(None))
            .values(
                outcome=Outcome.CANCELLED.value, completed_at=now, claimable_at=None
            )
            .returning(instances.c.definition_key, instances.c.id)
        ).all()
        gone = self._connection.execute(
            self._only_theirs(delete(instances))
            .where(instances.c.started_at.is_(None))
            .returning(instances.c.id, (instances.c.attempt > 0).label("failed"))
        )
        failed = [row.id for row in gone if row.failed and isinstance(row.id, UUID)]
        if failed:
            theirs = self._dialect.among(runs.c.instance_id, failed)
            self._connection.execute(delete(runs).where(theirs))
        return [
            (row.definition_key, row.id)
            for row in cancelled
            if isinstance(row.id, UUID)
        ]

    def _update(self, values: Mapping[str, Any], *which: ColumnElement[bool]) -> None:
        self._connection.execute(
            self._only_theirs(update(instances)).where(*which).values(values)
        )

    def _only_theirs(self, statement: Query) -> Query:
        return self._dialect.looked_up(
            statement.where(*self._theirs), instances, "task_instances_open_idx"
        )


# That they are a fire time's and never started.
_UNUSED = (
    IS_FIRED,
    instances.c.started_at.is_(None),
    instances.c.runs == 0,
    # One that was made to run again has failed before.
    instances.c.reopened_at.is_(None),
)


def _is_coming(now: datetime) -> ColumnElement[bool]:
    """Whether their fire time is after this; one that cannot be read is not."""
    return and_(instances.c.fire_time > now, instances.c.fire_time <= LATEST)


def _claimable_at(now: datetime) -> ColumnElement[Any]:
    """When an instance that is pending again joins the line, unless it is frozen."""
    moment = _no_earlier(instances.c.due_at, now)
    return case((instances.c.frozen, None), else_=moment)


def _no_earlier(column: ColumnElement[Any], now: datetime) -> ColumnElement[Any]:
    """The later of a time, if there is one, and now."""
    return case((column < now, literal(now, column.type)), else_=column)
