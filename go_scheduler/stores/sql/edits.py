"""Changes of definitions and their open instances, each in one transaction.

In words that every engine and every driver understands. Whoever changes a definition
changes its row first, on the condition that it is as it was read: from then on no fire
of it wins until the transaction has ended. It also locks the row as if to delete it,
which an UPDATE alone does not: whoever adds instances to it has to wait.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
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
    tuple_,
    update,
)

from go_scheduler.errors import GoSchedulerError
from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.rules import (
    next_revision,
    resumed,
)
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.locks import IS_FIRED, exclusion_by, free_slots
from go_scheduler.stores.sql.rows import (
    EARLIEST,
    LATEST,
    NOT_ELSEWHERE,
    read_contents,
    read_definition,
    read_time,
    write_policies,
)
from go_scheduler.stores.sql.tables import (
    contents,
    definitions,
    instances,
    runs,
    slots,
    tombstones,
)
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.stored import UnknownTrigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.sql.tables import Dialect, Query

_ended = (tombstones.c.completed_at, tombstones.c.id)
_TYPES = [each.type for each in _ended]


class Tombstones:
    """Remembers ids, in words that every driver understands.

    Args:
        dialect: The engine's own words.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        # A count reads as many as may be kept: it is made only when so many are new.
        self._made = math.inf

    def find(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, Tombstone]:
        """The tombstones of these ids."""
        if not ids:
            return {}
        query = select(tombstones).where(self._dialect.among(tombstones.c.id, ids))
        query = self._dialect.looked_up(query, tombstones, "task_tombstones_pkey")
        found = map(_read, connection.execute(query))
        return {each.id: each for each in found if each is not None}

    def forget(self, connection: Connection, ids: Collection[UUID]) -> None:
        """Forget these ids."""
        if ids:
            among = self._dialect.among(tombstones.c.id, ids)
            connection.execute(delete(tombstones).where(among))

    def forget_ended(
        self, connection: Connection, until: datetime, *, limit: int
    ) -> None:
        """Forget ids that ended by then, those first that ended first.

        Args:
            connection: Not in a transaction, if reads wait for locks.
            until: By when.
            limit: The most to forget.
        """
        self._forget_first(connection, tombstones.c.completed_at <= until, limit)

    def forget_most(
        self, connection: Connection, most: int, *, made: int, limit: int
    ) -> int:
        """Forget, of more than so many, those that ended first.

        Args:
            connection: Not in a transaction, if reads wait for locks.
            most: How many are kept, and a hundredth more.
            made: How many may have been added since the last call.
            limit: The most to forget.

        Returns:
            How many were forgotten.
        """
        self._made += made
        if self._made * 100 < most:
            return 0
        last = select(*_ended).order_by(*(each.desc() for each in _ended))
        found = connection.execute(last.offset(most).limit(1)).one_or_none()
        forgotten = 0
        if found is not None:
            at, id = (literal(*each) for each in zip(found, _TYPES, strict=True))
            too_many = tuple_(*_ended) <= tuple_(at, id)
            forgotten = self._forget_first(connection, too_many, limit)
        if forgotten < limit:
            self._made = 0
        return forgotten

    def _forget_first(
        self, connection: Connection, which: ColumnElement[bool], limit: int
    ) -> int:
        query = select(tombstones.c.id).where(which).order_by(*_ended).limit(limit)
        found = self._dialect.past_locks(
            connection, lambda each: each.execute(query).scalars().all()
        )
        if not found:
            return 0
        # A tombstone that a user's transaction has locked stays until the next time.
        free = (
            select(tombstones.c.id)
            .where(self._dialect.among(tombstones.c.id, found))
            .with_for_update(skip_locked=True)
        )
        ids = connection.execute(free).scalars().all()
        self.forget(connection, ids)
        return len(ids)


def _read(row: Row[Any]) -> Tombstone | None:
    """The tombstone of a row; None if it cannot be read."""
    try:
        return Tombstone(
            id=row.id,
            trigger=load_trigger(row.trigger_kind, json.loads(row.trigger_state)),
            revision=row.revision,
            completed_at=utc(row.completed_at, name="completed_at"),
        )
    except (GoSchedulerError, ValueError):
        return None


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


class Edits:
    """Changes of definitions.

    Args:
        dialect: The engine's own words.
        tombstones: What is remembered of ids.
    """

    def __init__(self, dialect: Dialect, tombstones: Tombstones) -> None:
        self._dialect = dialect
        self._tombstones = tombstones

    def live(self, connection: Connection, ids: Collection[UUID]) -> Sequence[Row[Any]]:
        """Definitions with their contents, in the order of their ids."""
        query = live_among(self._dialect, ids).order_by(definitions.c.id)
        return connection.execute(query).all()

    def change(
        self,
        connection: Connection,
        row: Row[Any],
        values: Mapping[str, object],
        *,
        unless_fired: bool = False,
    ) -> Row[Any]:
        """Update a definition's row, unless somebody else has changed it since.

        From here on, no fire of this definition wins until the transaction has ended.

        Args:
            connection: In that transaction.
            row: As it was read.
            values: By column.
            unless_fired: Whether a fire since then is a change as well.

        Raises:
            Overtaken: Somebody has.
        """
        locked = _keys().where(definitions.c.key == row.key).with_for_update()
        statement = (
            update(definitions)
            .where(
                definitions.c.key == locked.scalar_subquery(),
                definitions.c.revision == row.revision,
                # Which may change without the revision.
                definitions.c.owner.is_not_distinct_from(row.owner),
                definitions.c.deleted_at.is_(None),
            )
            .values(values)
            .returning(definitions.c.next_fire_time, definitions.c.completed_at)
        )
        if unless_fired:
            unmoved = definitions.c.next_fire_time == row.next_fire_time
            statement = statement.where(unmoved)
        written = connection.execute(statement).one_or_none()
        if written is None:
            raise Overtaken
        return written

    def pause(
        self, connection: Connection, ids: Collection[UUID], note: str | None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions."""
        return [
            self._pause(connection, row, note) for row in self.live(connection, ids)
        ]

    def _pause(
        self, connection: Connection, row: Row[Any], note: str | None
    ) -> TaskDefinition:
        old = definition_of(row)
        if row.paused:
            self.change(connection, row, {"note": note})
            return replace(old, note=note)
        now = self._dialect.now(connection)
        revision = next_revision(old)
        values = {"paused": True, "note": note, "paused_at": now, "revision": revision}
        written = self.change(connection, row, values)
        open_instances = OpenInstances(connection, self._dialect, [row.key])
        open_instances.lock()
        open_instances.freeze()
        written = self.take_back(connection, row, written, now)
        open_instances.free_unstarted(now)
        if row.slot is not None:
            open_instances.leave_slots()
        return replace(
            old,
            paused=True,
            note=note,
            paused_at=now,
            revision=revision,
            next_fire_time=read_time(written.next_fire_time),
            completed_at=read_time(written.completed_at),
        )

    def take_back(
        self, connection: Connection, row: Row[Any], written: Row[Any], now: datetime
    ) -> Row[Any]:
        """Let a definition fire anew what is to come and has not begun.

        That is what comes after the last that has, so that nothing is fired twice.

        Args:
            connection: In a transaction that has changed it.
            row: The definition's, as it was.
            written: What ``change`` answered.
            now: The store's time.

        Returns:
            The same, as it is by then.
        """
        open_instances = OpenInstances(connection, self._dialect, [row.key])
        open_instances.lock_unused(now)
        removed = open_instances.remove_unused(open_instances.last_to_stay(now))
        if row.slot is not None:
            free_slots(connection, [row.slot])
        if not removed:
            return written
        times = filter(None, [*removed, read_time(written.next_fire_time)])
        statement = (
            update(definitions)
            .where(definitions.c.key == row.key)
            .values(
                next_fire_time=min(times),
                completed_at=None,
                # It may be seen only when that has passed, if the transaction is long.
                late=True,
            )
            .returning(definitions.c.next_fire_time, definitions.c.completed_at)
        )
        return connection.execute(statement).one()

    def resume(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Sequence[TaskDefinition]:
        """End a pause."""
        return [self._resume(connection, row) for row in self.live(connection, ids)]

    def _resume(self, connection: Connection, row: Row[Any]) -> TaskDefinition:
        old = definition_of(row)
        if not row.paused:
            return old
        now = self._dialect.now(connection)
        new = resumed(old, now)
        self.change(
            connection,
            row,
            {
                "paused": False,
                "note": None,
                "paused_at": None,
                "revision": new.revision,
                # Fire times may have passed for as long as it was paused.
                "late": True,
            },
        )
        OpenInstances(connection, self._dialect, [row.key]).thaw(now)
        self._dialect.hint(connection, [now], now)
        if isinstance(old.trigger, UnknownTrigger):
            # What cannot be read is not written anew.
            return replace(new, last_pause=old.last_pause)
        connection.execute(
            update(contents)
            .where(contents.c.key == row.key)
            .values(policies=write_policies(new))
        )
        return new

    def delete(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions; their rows stay until their history is gone.

        Returns:
            By the id of each that there was: the ids of its instances that ran.
        """
        now = self._dialect.now(connection)
        live = _keys().where(
            self._dialect.among(definitions.c.id, ids),
            definitions.c.deleted_at.is_(None),
        )
        locked = self._dialect.looked_up(live, definitions, "task_definitions_id_key")
        statement = (
            update(definitions)
            .where(definitions.c.key.in_(locked.with_for_update()))
            .values(deleted_at=now, next_fire_time=None, completed_at=None)
            .returning(definitions.c.key, definitions.c.id, definitions.c.slot)
        )
        rows = connection.execute(statement).all()
        deleted = {row.key: row.id for row in rows}
        ran: dict[UUID, set[UUID]] = {id: set() for id in deleted.values()}
        if deleted:
            open_instances = OpenInstances(connection, self._dialect, deleted)
            open_instances.lock()
            for key, instance_id in open_instances.end(now):
                ran[deleted[key]].add(instance_id)
            free_slots(connection, [row.slot for row in rows if row.slot is not None])
        # A live one may have a tombstone too: of a former life, if this process could
        # not read it.
        self._tombstones.forget(connection, ids)
        return ran


WITH_CONTENTS = select(
    definitions, *(each for each in contents.c if each.name != "key")
).outerjoin(contents, contents.c.key == definitions.c.key)
LIVE = WITH_CONTENTS.where(definitions.c.deleted_at.is_(None))


def _keys() -> Select[Any]:
    """Keys of definitions, for an UPDATE of these to name its rows by."""
    return select(definitions.c.key).correlate(None)


def live_among(dialect: Dialect, ids: Collection[UUID]) -> Select[Any]:
    """The rows of those definitions that there are, with their contents."""
    query = LIVE.where(dialect.among(definitions.c.id, ids))
    query = dialect.looked_up(query, definitions, "task_definitions_id_key")
    return dialect.looked_up(query, contents, "task_contents_pkey")


def definition_of(row: Row[Any]) -> TaskDefinition:
    """The definition of a row that has its contents as well."""
    has_contents = row.trigger_kind is not None
    return read_definition(row, read_contents(row if has_contents else None))
