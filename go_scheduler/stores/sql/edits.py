"""What users do to definitions and their open instances, each in one transaction.

Written so that every engine and every driver understands it. Whoever changes a
definition changes its row first, on the condition that it is as it was read: from then
on no fire of it wins until the transaction has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select, update

from go_scheduler.stores.changes import (
    check_revision,
    created,
    edited,
    next_revision,
    rescheduled,
)
from go_scheduler.stores.remembered import ended_before, is_over
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.open_instances import OpenInstances
from go_scheduler.stores.sql.rows import (
    read_contents,
    read_definition,
    read_time,
    write_definition,
)
from go_scheduler.stores.sql.sweep import LATE
from go_scheduler.stores.sql.tables import contents, definitions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime

    from sqlalchemy import Connection, Row, Select

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Tombstone
    from go_scheduler.stores.sql.dialect import Dialect
    from go_scheduler.stores.sql.tombstones import Tombstones


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
            given: The definitions, each once.
            late: Whether others may see them only much later.
        """
        now = self._dialect.now(connection)
        ids = [each.id for each in given]
        stored = {row.id: row for row in self.live(connection, ids)}
        named = [each.id for each in given if each.named and each.id not in stored]
        remembered = self._tombstones.find(connection, named)
        for new in given:
            row = stored.get(new.id)
            check_revision(
                new, remembered.get(new.id) if row is None else definition_of(row)
            )
        over = {
            new.id: ended_before(new, remembered[new.id])
            for new in given
            if is_over(new, remembered.get(new.id))
        }
        # One order for everybody, so that nobody waits for another in a circle.
        ordered = sorted(given, key=lambda each: each.id)
        known = stored.keys() | over.keys()
        fresh = [each for each in ordered if each.id not in known]
        put = over | self._insert(connection, fresh, remembered, now, late=late)
        for new in ordered:
            if (row := stored.get(new.id)) is not None:
                put[new.id] = self._replace(connection, row, new, now, late=late)
        return [put[each.id] for each in given]

    def _insert(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        remembered: Mapping[UUID, Tombstone],
        now: datetime,
        *,
        late: bool,
    ) -> dict[UUID, TaskDefinition]:
        if not given:
            return {}
        ids = [each.id for each in given]
        last = self._last_revisions(connection, ids)
        again = [remembered[each] for each in ids if each in remembered]
        self._tombstones.forget(connection, [each.id for each in again])
        last |= {each.id: each.revision for each in again}
        made = [created(each, now, revision=last.get(each.id, 0) + 1) for each in given]
        keys = [uuid4() for _ in made]
        rows = [
            {
                **write_definition(each),
                **_moment(each, now, late=late),
                "paused": each.paused,
                "note": each.note,
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
        # For what it returns they are written by one statement, not one by one.
        connection.execute(
            insert(contents).returning(contents.c.key),
            [
                {"key": key, **self._dialect.write_contents(each)}
                for key, each in zip(keys, made, strict=True)
            ],
        )
        return {each.id: each for each in made}

    def _last_revisions(
        self, connection: Connection, ids: Collection[UUID]
    ) -> dict[UUID, int]:
        """The highest revisions that deleted definitions of these ids had."""
        query = (
            select(definitions.c.id, func.max(definitions.c.revision))
            .where(
                self._dialect.among(definitions.c.id, ids),
                definitions.c.deleted_at.is_not(None),
            )
            .group_by(definitions.c.id)
        )
        query = self._dialect.looked_up(
            query, definitions, "task_definitions_former_idx"
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
            return self._named(connection, row, old, new)
        if new.trigger == old.trigger:
            changed = edited(old, new)
            moment: dict[str, object] = {}
        else:
            changed = rescheduled(old, new, now)
            moment = _moment(changed, now, late=late)
        columns = write_definition(changed)
        written = self._change(connection, row, {**columns, **moment})
        connection.execute(
            update(contents)
            .where(contents.c.key == row.key)
            .values(self._dialect.write_contents(changed))
        )
        open_instances = OpenInstances(connection, self._dialect, [row.key])
        # What stays as it is is not locked: it goes on while the edit is open.
        follows = {
            name: columns[name]
            for name in _FOLLOWING
            if columns[name] != getattr(row, name)
        }
        if follows:
            open_instances.lock()
            open_instances.follow(follows, now)
        if moment:
            open_instances.remove_unstarted()
        return replace(
            changed,
            next_fire_time=written.next_fire_time,
            completed_at=written.completed_at,
        )

    def _named(
        self,
        connection: Connection,
        row: Row[Any],
        old: TaskDefinition,
        new: TaskDefinition,
    ) -> TaskDefinition:
        """What is stored; from now on named, if somebody has passed its id."""
        if old.named or not new.named:
            return old
        self._change(connection, row, {"named": True})
        return replace(old, named=True)

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
        open_instances = OpenInstances(connection, self._dialect, [row.key])
        open_instances.lock()
        open_instances.freeze()
        removed = open_instances.remove_unstarted()
        open_instances.free_unstarted(now)
        times = [*removed, read_time(written.next_fire_time)]
        again = min(filter(None, times), default=None)
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
            completed_at=read_time(written.completed_at) if again is None else None,
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
        OpenInstances(connection, self._dialect, [row.key]).thaw(now)
        return resumed

    def delete(self, connection: Connection, ids: Collection[UUID]) -> Set[UUID]:
        """Delete definitions; their rows stay until their history is gone."""
        now = self._dialect.now(connection)
        live = update(definitions).where(
            self._dialect.among(definitions.c.id, ids),
            definitions.c.deleted_at.is_(None),
        )
        statement = (
            self._dialect.looked_up(live, definitions, "task_definitions_id_key")
            .values(deleted_at=now, next_fire_time=None, completed_at=None)
            .returning(definitions.c.key, definitions.c.id)
        )
        deleted = {row.key: row.id for row in connection.execute(statement)}
        if deleted:
            open_instances = OpenInstances(connection, self._dialect, deleted)
            open_instances.lock()
            open_instances.end(now)
        # Of one that lived as well: of a former life that could not be read here.
        self._tombstones.forget(connection, ids)
        return set(deleted.values())


# What instances have of their definition's, for claims and starts without a join.
_FOLLOWING = ("queue", "expire_after", "waits")
LIVE = (
    select(definitions, *(each for each in contents.c if each.name != "key"))
    .outerjoin(contents, contents.c.key == definitions.c.key)
    .where(definitions.c.deleted_at.is_(None))
)


def live_among(dialect: Dialect, ids: Collection[UUID]) -> Select[Any]:
    """The rows of those definitions that there are, with their contents."""
    query = LIVE.where(dialect.among(definitions.c.id, ids))
    query = dialect.looked_up(query, definitions, "task_definitions_id_key")
    return dialect.looked_up(query, contents, "task_contents_pkey")


def definition_of(row: Row[Any]) -> TaskDefinition:
    """The definition of a row that has its contents as well."""
    has_contents = row.trigger_kind is not None
    return read_definition(row, read_contents(row if has_contents else None))


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
