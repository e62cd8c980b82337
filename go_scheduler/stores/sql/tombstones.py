"""Ids of definitions that have ended and are gone, in a SQL store."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, literal, select, tuple_

from go_scheduler.errors import GoSchedulerError
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.sql.tables import tombstones
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.stored import load_trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Row

    from go_scheduler.stores.sql.dialect import Dialect

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
