"""Changes of definitions and their open instances, each in one transaction.

In words that every engine and every driver understands. Whoever changes a definition
changes its row first, on the condition that it is as it was read: from then on no fire
of it wins until the transaction has ended. It also locks the row as if to delete it,
which an UPDATE alone does not: whoever adds instances to it has to wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from go_scheduler.json import to_text
from go_scheduler.stores.changes import (
    next_revision,
    resumed,
)
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.open_instances import OpenInstances
from go_scheduler.stores.sql.policy_json import dump_policies
from go_scheduler.stores.sql.rows import (
    read_contents,
    read_definition,
    read_time,
)
from go_scheduler.stores.sql.slots import free_slots
from go_scheduler.stores.sql.tables import contents, definitions
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row, Select

    from go_scheduler.models import TaskDefinition
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
            .values(policies=to_text(dump_policies(new)))
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
