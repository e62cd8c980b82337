"""Definitions in a SQLite file that are due: how they are read and fired."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from go_scheduler.stores.messages import Answer
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.rows import DefinitionRow
from go_scheduler.stores.sql.sweep import LATE_AFTER
from go_scheduler.stores.sql.types import to_microseconds, to_sqlite_time
from go_scheduler.stores.sqlite.batches import (
    instances_of,
    run_batch,
    time_of,
    write_all,
)
from go_scheduler.stores.sqlite.statements import definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sqlite.database import SQLiteDatabase

_LATE = to_microseconds(LATE_AFTER)
# Between a next_fire_time that cannot be read, which sorts first, and any that can.
_BEFORE_ALL_TIMES = to_sqlite_time(datetime.min.replace(tzinfo=UTC)) - 1


class DueDefinitions:
    """Reads what is due, and fires it.

    Args:
        database: Where.
        reader: Makes definitions of rows.
        microseconds: The store's time.
    """

    def __init__(
        self, database: SQLiteDatabase, reader: Reader, microseconds: Callable[[], int]
    ) -> None:
        self._database = database
        self._reader = reader
        self._microseconds = microseconds

    def page(
        self, ahead: timedelta, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page, as ``Store.due_definitions``."""
        until = self._microseconds() + to_microseconds(ahead)
        parameters: dict[str, object] = {"until": until, "limit": limit}
        statement = definitions.DUE
        if after is not None:
            statement = definitions.DUE_AFTER
            parameters |= {
                "after_time": time_of(after.next_fire_time, default=_BEFORE_ALL_TIMES),
                "after_id": after.id.hex,
            }
        rows = self._database.run(
            Lane.BY_TIME,
            lambda connection: statement.fetch(connection, parameters),
        )
        return self._reader.definitions(
            Lane.BY_TIME, [DefinitionRow(*row) for row in rows]
        )

    def fire(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Fire, as ``Store.fire_definitions``."""
        if not firings:
            return Answer(done=frozenset())
        by_id = {each.definition.id.hex: each for each in firings}
        batch = [
            (
                id,
                time_of(each.definition.next_fire_time),
                each.definition.revision,
                time_of(each.next_fire_time),
            )
            for id, each in by_id.items()
        ]

        def fire(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            terms = {"now": now, "late": now - _LATE}
            won = run_batch(connection, definitions.FIRE, batch, **terms)
            made = (instances_of(by_id[row.id], row, now) for row in won)
            write_all(connection, definitions.MAKE, list(chain.from_iterable(made)))
            return {by_id[row.id].definition.id for row in won}

        return Answer(done=self._database.transact(fire))
