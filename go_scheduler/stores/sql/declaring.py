"""Declared sets: an owner has the definitions that it declares, and no others.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from go_scheduler.stores.declared import (
    Declared,
    check_owners,
    removal_note,
    was_removed,
)
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.edits import definition_of
from go_scheduler.stores.sql.tables import definitions, sets

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.declared import Declaration
    from go_scheduler.stores.sql.dialect import Dialect
    from go_scheduler.stores.sql.edits import Edits
    from go_scheduler.stores.sql.puts import Puts


class Sets:
    """Declares sets of definitions, each in one transaction.

    Args:
        puts: Puts those that are in a set.
        edits: Resumes, pauses and deletes the others.
        dialect: The engine's own words.
    """

    def __init__(self, puts: Puts, edits: Edits, dialect: Dialect) -> None:
        self._puts = puts
        self._edits = edits
        self._dialect = dialect

    def declare(
        self, connection: Connection, declaration: Declaration, *, late: bool
    ) -> Declared:
        """Let an owner have these definitions.

        Args:
            connection: In a transaction.
            declaration: The definitions, each once.
            late: Whether others may see them only much later.
        """
        owner = declaration.owner
        if not self._enter(connection, declaration):
            last = select(sets.c.version).where(sets.c.owner == owner)
            return Declared(outdated_by=connection.execute(last).scalar_one())
        ids = [each.id for each in declaration.definitions]
        rows = self._edits.live(connection, ids)
        stored = {row.id: definition_of(row) for row in rows}
        check_owners(declaration, stored)
        put = self._puts.put_over(
            connection, rows, declaration.definitions, late=late, owner=owner
        )
        again = [each.id for each in stored.values() if was_removed(each)]
        resumed = self._edits.resume(connection, again) if again else ()
        if any(each.owner != owner for each in resumed):
            # One that is kept as it was is not written, and may have been taken.
            raise Overtaken
        as_stored = {each.id: each for each in (*put, *resumed)}
        declared = Declared(
            definitions=[as_stored[each] for each in ids], resumed=resumed
        )
        if declaration.removed == "keep":
            return declared
        gone = self._owned(connection, owner, apart_from=ids)
        if declaration.removed == "pause":
            return replace(declared, paused=self._pause(connection, gone, owner))
        deleted = self._edits.delete(connection, [*gone])
        return replace(declared, deleted=deleted.keys())

    def _enter(self, connection: Connection, declaration: Declaration) -> bool:
        """Enter a declaration, unless a later one has been made.

        From here on, no other one of this owner is until the transaction has ended.
        """
        new = self._dialect.insert(sets).values(
            owner=declaration.owner,
            version=declaration.version,
            declared_at=self._dialect.now(connection),
        )
        entered = new.on_conflict_do_update(
            index_elements=[sets.c.owner],
            set_={
                "version": new.excluded.version,
                "declared_at": new.excluded.declared_at,
            },
            where=or_(sets.c.version.is_(None), new.excluded.version >= sets.c.version),
        ).returning(sets.c.owner)
        return connection.execute(entered).one_or_none() is not None

    def _owned(
        self, connection: Connection, owner: str, *, apart_from: Collection[UUID]
    ) -> dict[UUID, bool]:
        """The others that an owner has, and whether each is paused."""
        owned = select(definitions.c.id, definitions.c.paused).where(
            definitions.c.owner == owner, definitions.c.deleted_at.is_(None)
        )
        found = self._dialect.looked_up(
            owned, definitions, "task_definitions_owner_idx"
        )
        others = {row.id for row in connection.execute(found)} - set(apart_from)
        if not others:
            return {}
        # Locked: another owner may be about to take one that this one has paused.
        locked = self._dialect.looked_up(
            owned.where(self._dialect.among(definitions.c.id, others)),
            definitions,
            "task_definitions_id_key",
        ).with_for_update()
        return {row.id: row.paused for row in connection.execute(locked)}

    def _pause(
        self, connection: Connection, gone: dict[UUID, bool], owner: str
    ) -> Sequence[TaskDefinition]:
        going = [each for each, paused in gone.items() if not paused]
        return self._edits.pause(connection, going, removal_note(owner))
