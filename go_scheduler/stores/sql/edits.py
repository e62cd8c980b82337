"""What users do to definitions, and to the rows of their instances, in one transaction.

Written so that every engine and every driver understands it. Whoever changes a
definition changes its row first, on the condition that it is as it was read: from then
on no fire of it wins until the transaction has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from sqlalchemy import case, delete, func, insert, literal, select, update

from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.stores.changes import (
    check_revision,
    created,
    edited,
    next_revision,
    rescheduled,
)
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.rows import (
    read_contents,
    read_definition,
    write_definition,
)
from go_scheduler.stores.sql.sweep import LATE
from go_scheduler.stores.sql.tables import contents, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row

    from go_scheduler.models import RunOutcome
    from go_scheduler.stores.sql.dialects import Dialect


class Edits:
    """Changes of definitions.

    Args:
        dialect: The engine's own words.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def live(self, connection: Connection, ids: Collection[UUID]) -> Sequence[Row[Any]]:
        """Definitions with their contents, in the order of their ids."""
        query = LIVE.where(self._dialect.among(definitions.c.id, ids)).order_by(
            definitions.c.id
        )
        return connection.execute(query).all()

    def end(self, connection: Connection, outcome: RunOutcome) -> bool:
        """Record the end of a run; written so that every driver understands it."""
        assert outcome.outcome is not None
        now = self._dialect.now(connection)
        column = instances.c
        statement = (
            update(instances)
            .where(
                column.id == outcome.claim.instance_id,
                column.attempt == outcome.claim.attempt,
                column.completed_at.is_(None),
                column.claimed_by.is_not(None),
            )
            .values(
                outcome=outcome.outcome.value,
                completed_at=now,
                started_at=outcome.started_at,
            )
            .returning(column.definition_key, column.waits)
        )
        ended = connection.execute(statement).one_or_none()
        if ended is None:
            return False
        if ended.waits:
            self._go_on(connection, ended.definition_key, outcome.next_fire_time, now)
        return True

    def _go_on(
        self,
        connection: Connection,
        key: UUID,
        next_fire_time: datetime | None,
        now: datetime,
    ) -> None:
        """Move a definition on that waited for the end of an instance."""
        column = definitions.c
        at = literal(next_fire_time, column.next_fire_time.type)
        ended = now if next_fire_time is None else None
        connection.execute(
            update(definitions)
            .where(
                column.key == key,
                column.waits,
                column.completed_at.is_(None),
                column.deleted_at.is_(None),
            )
            .values(
                next_fire_time=func.coalesce(column.next_fire_time, at),
                # Committed by somebody else, at any time later.
                late=True,
                completed_at=case(
                    (column.next_fire_time.is_not(None), None),
                    else_=literal(ended, column.completed_at.type),
                ),
            )
        )

    def put(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        *,
        late: bool = False,
    ) -> Sequence[TaskDefinition]:
        """Insert or replace definitions.

        Args:
            connection: In a transaction.
            given: The definitions.
            late: Whether others may see them only much later.
        """
        now = self._dialect.now(connection)
        ids = [each.id for each in given]
        stored = {row.id: row for row in self.live(connection, ids)}
        for new in given:
            row = stored.get(new.id)
            check_revision(new, None if row is None else definition_of(row))
        # One order for everybody, so that nobody waits for another in a circle.
        ordered = sorted(given, key=lambda each: each.id)
        fresh = [each for each in ordered if each.id not in stored]
        put = self._insert(connection, fresh, now, late=late)
        for new in ordered:
            if (row := stored.get(new.id)) is not None:
                put[new.id] = self._replace(connection, row, new, now, late=late)
        return [put[each.id] for each in given]

    def _insert(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        now: datetime,
        *,
        late: bool,
    ) -> dict[UUID, TaskDefinition]:
        if not given:
            return {}
        first = self._first_revisions(connection, [each.id for each in given])
        made = [
            created(each, now, revision=first.get(each.id, 0) + 1) for each in given
        ]
        keys = [uuid4() for _ in made]
        rows = [
            {
                **write_definition(each),
                **_moment(each, now, late=late),
                "key": key,
                "id": each.id,
                "shard": key.int % self._dialect.shards,
                "created_at": now,
            }
            for key, each in zip(keys, made, strict=True)
        ]
        inserted = connection.execute(
            self._dialect.insert_new_ids().returning(definitions.c.id), rows
        )
        if len(inserted.all()) < len(made):
            raise Overtaken
        connection.execute(
            insert(contents),
            [
                {"key": key, **self._dialect.write_contents(each)}
                for key, each in zip(keys, made, strict=True)
            ],
        )
        return {each.id: each for each in made}

    def _first_revisions(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, int]:
        """The highest revisions that deleted definitions of these ids had."""
        query = (
            select(definitions.c.id, func.max(definitions.c.revision))
            .where(
                self._dialect.among(definitions.c.id, ids),
                definitions.c.deleted_at.is_not(None),
            )
            .group_by(definitions.c.id)
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def _replace(
        self,
        connection: Connection,
        row: Row[Any],
        new: TaskDefinition,
        now: datetime,
        *,
        late: bool,
    ) -> TaskDefinition:
        old = definition_of(row)
        if new.is_same(old):
            return old
        if new.trigger == old.trigger:
            changed = edited(old, new)
            moment: dict[str, object] = {}
        else:
            changed = rescheduled(old, new, now)
            moment = _moment(changed, now, late=late)
        written = self._change(connection, row, {**write_definition(changed), **moment})
        connection.execute(
            update(contents)
            .where(contents.c.key == row.key)
            .values(self._dialect.write_contents(changed))
        )
        self._lock_open(connection, [row.key])
        self._follow(connection, row, changed, now)
        if moment:
            self._remove_unstarted(connection, row.key)
        return replace(
            changed,
            next_fire_time=written.next_fire_time,
            completed_at=written.completed_at,
        )

    def _change(
        self, connection: Connection, row: Row[Any], values: Mapping[str, object]
    ) -> Row[Any]:
        """Update a definition's row, unless somebody else has changed it since.

        From here on, no fire of this definition wins until the transaction has ended.
        """
        statement = (
            update(definitions)
            .where(
                definitions.c.key == row.key,
                definitions.c.revision == row.revision,
                definitions.c.deleted_at.is_(None),
            )
            .values(values)
            .returning(definitions.c.next_fire_time, definitions.c.completed_at)
        )
        written = connection.execute(statement).one_or_none()
        if written is None:
            raise Overtaken
        return written

    def _lock_open(self, connection: Connection, keys: Collection[UUID]) -> None:
        """Let nothing be claimed, start or end between the statements that follow."""
        connection.execute(
            select(instances.c.id)
            .where(self._dialect.among(instances.c.definition_key, keys), *_OPEN)
            # In the order in which the loops take them, so that nobody waits for
            # another in a circle.
            .order_by(instances.c.id)
            .with_for_update()
        ).all()

    def _follow(
        self,
        connection: Connection,
        row: Row[Any],
        changed: TaskDefinition,
        now: datetime,
    ) -> None:
        """Let open instances follow their definition."""
        written = write_definition(changed)
        values: dict[str, object] = {name: written[name] for name in _FOLLOWING}
        if changed.queue != row.queue:
            # Below the bound of whoever scans the other queue it would not be seen.
            values["claimable_at"] = _no_earlier(instances.c.claimable_at, now)
        connection.execute(update(instances).where(*_open_of(row.key)).values(values))
        if changed.queue != row.queue:
            self._free_unstarted(connection, row.key, now)

    def _remove_unstarted(
        self, connection: Connection, key: UUID
    ) -> Sequence[datetime]:
        """Remove what may be served anew, and answer the fire times."""
        statement = (
            delete(instances)
            .where(
                *_open_of(key),
                instances.c.started_at.is_(None),
                instances.c.runs == 0,
                instances.c.fire_time.is_not(None),
            )
            .returning(instances.c.fire_time)
        )
        return [row.fire_time for row in connection.execute(statement)]

    def _free_unstarted(self, connection: Connection, key: UUID, now: datetime) -> None:
        """Take back the claims that have not started."""
        connection.execute(
            update(instances)
            .where(
                *_open_of(key),
                instances.c.claimed_by.is_not(None),
                instances.c.started_at.is_(None),
            )
            .values(claimed_by=None, expires_at=None, claimable_at=_claimable_at(now))
        )

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
            self._change(connection, row, {"note": note})
            return replace(old, note=note)
        now = self._dialect.now(connection)
        revision = next_revision(old)
        written = self._change(
            connection, row, {"paused": True, "note": note, "revision": revision}
        )
        self._lock_open(connection, [row.key])
        connection.execute(
            update(instances)
            .where(*_open_of(row.key))
            .values(held=True, claimable_at=None)
        )
        removed = self._remove_unstarted(connection, row.key)
        self._free_unstarted(connection, row.key, now)
        again = min([*removed, *filter(None, [written.next_fire_time])], default=None)
        if removed:
            connection.execute(
                update(definitions)
                .where(definitions.c.key == row.key)
                .values(next_fire_time=again, completed_at=None)
            )
        return replace(
            old,
            paused=True,
            note=note,
            revision=revision,
            next_fire_time=again,
            completed_at=written.completed_at if again is None else None,
        )

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
        resumed = replace(old, paused=False, note=None, revision=next_revision(old))
        self._change(
            connection,
            row,
            {
                "paused": False,
                "note": None,
                "revision": resumed.revision,
                # Fire times may have passed for as long as it was paused.
                "late": True,
            },
        )
        connection.execute(
            update(instances)
            .where(*_open_of(row.key))
            # A claim that lapsed long ago would lie below the bound of every scan.
            .values(held=False, expires_at=_no_earlier(instances.c.expires_at, now))
        )
        connection.execute(
            update(instances)
            .where(*_open_of(row.key), instances.c.claimed_by.is_(None))
            .values(claimable_at=_claimable_at(now))
        )
        return resumed

    def delete(self, connection: Connection, ids: Collection[UUID]) -> Set[UUID]:
        """Delete definitions; their rows stay until their history is gone."""
        now = self._dialect.now(connection)
        statement = (
            update(definitions)
            .where(
                self._dialect.among(definitions.c.id, ids),
                definitions.c.deleted_at.is_(None),
            )
            .values(deleted_at=now, next_fire_time=None, completed_at=None)
            .returning(definitions.c.key, definitions.c.id)
        )
        deleted = {row.key: row.id for row in connection.execute(statement)}
        if not deleted:
            return set()
        theirs = [self._dialect.among(instances.c.definition_key, deleted), *_OPEN]
        self._lock_open(connection, deleted)
        connection.execute(
            update(instances)
            .where(*theirs, instances.c.started_at.is_not(None))
            .values(
                outcome=Outcome.CANCELLED.value, completed_at=now, claimable_at=None
            )
        )
        connection.execute(
            delete(instances).where(*theirs, instances.c.started_at.is_(None))
        )
        return set(deleted.values())


# What instances have of their definition's, for claims and starts without a join.
_FOLLOWING = ("queue", "expire_after", "waits")
_OPEN = (instances.c.completed_at.is_(None), instances.c.outcome.is_(None))
LIVE = (
    select(definitions, *(each for each in contents.c if each.name != "key"))
    .outerjoin(contents, contents.c.key == definitions.c.key)
    .where(definitions.c.deleted_at.is_(None))
)


def definition_of(row: Row[Any]) -> TaskDefinition:
    """The definition of a row that has its contents as well."""
    has_contents = row.trigger_kind is not None
    return read_definition(row, read_contents(row if has_contents else None))


def _open_of(key: UUID) -> Sequence[ColumnElement[bool]]:
    return (instances.c.definition_key == key, *_OPEN)


def _claimable_at(now: datetime) -> ColumnElement[Any]:
    """When an instance that is pending again joins the line, unless it is held."""
    moment = _no_earlier(instances.c.due_at, now)
    return case((instances.c.held, None), else_=moment)


def _no_earlier(column: ColumnElement[Any], now: datetime) -> ColumnElement[Any]:
    """The later of a time, if there is one, and now."""
    return case((column < now, literal(now, column.type)), else_=column)


def _moment(
    definition: TaskDefinition, now: datetime, *, late: bool
) -> dict[str, object]:
    """The columns that say when a definition fires next, if it starts anew."""
    return {
        "next_fire_time": definition.next_fire_time,
        "late": late or _is_late(definition.next_fire_time, now),
        "completed_at": definition.completed_at,
    }


def _is_late(next_fire_time: datetime | None, now: datetime) -> bool:
    return next_fire_time is not None and next_fire_time <= now - LATE
