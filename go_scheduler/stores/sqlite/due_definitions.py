"""Definitions in a SQLite file that are due, and rows whose time is over."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.messages import Fired
from go_scheduler.stores.sql.database import LATE_AFTER, Lane
from go_scheduler.stores.sql.rows import DefinitionRow, to_microseconds, to_sqlite_time
from go_scheduler.stores.sqlite import statements
from go_scheduler.stores.sqlite.batches import (
    instances_of,
    run_batch,
    time_of,
    write_all,
)
from go_scheduler.stores.sqlite.statements import DELETE_RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Connection, TextClause

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing, Retention
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
        statement = statements.DUE
        if after is not None:
            statement = statements.DUE_AFTER
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

    def fire(self, firings: Sequence[Firing]) -> Fired:
        """Fire, as ``Store.fire_definitions``."""
        if not firings:
            return Fired(done=frozenset())
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
            won = run_batch(connection, statements.FIRE, batch, **terms)
            made = (instances_of(by_id[row.id], row, now) for row in won)
            write_all(connection, statements.MAKE, list(chain.from_iterable(made)))
            return {by_id[row.id].definition.id for row in won}

        return Fired(done=self._database.transact(fire))


_CONTACTS_KEPT = to_microseconds(CONTACTS_KEPT)
_STATS_KEPT = to_microseconds(STATS_KEPT)


def delete_ended(
    connection: Connection, retention: Retention, now: int, limit: int
) -> tuple[int, int]:
    """Delete instances that ended long ago, then completed definitions without any.

    Args:
        connection: In a transaction.
        retention: For how long they are kept.
        now: The store's time, in microseconds.
        limit: Most rows to delete.

    Returns:
        How many rows went, and how many definitions among them.
    """
    until = now - to_microseconds(retention.ended)
    failed_until = now - to_microseconds(retention.failed)
    left = limit

    def delete_over(statement: TextClause, bound: int) -> int:
        bounds = {"until": bound, "limit": left}
        gone = connection.execute(statement, bounds).all()
        if failed := [row.id for row in gone if row.failed]:
            connection.exec_driver_sql(DELETE_RUNS, {"ids": json.dumps(failed)})
        return len(gone)

    connection.execute(statements.DELETE_CONTACTS, {"since": now - _CONTACTS_KEPT})
    connection.execute(statements.DELETE_STATS, {"since": now - _STATS_KEPT})
    left -= delete_over(statements.DELETE_ENDED, until)
    left -= delete_over(statements.DELETE_FAILED, failed_until)
    # Rows that a delete has left behind for their history count for nobody.
    _delete_definitions(connection, statements.DELETE_DELETED, until, limit)
    completed = _delete_definitions(
        connection, statements.DELETE_COMPLETED, until, left
    )
    return limit - left + completed, completed


def _delete_definitions(
    connection: Connection, statement: TextClause, until: int, limit: int
) -> int:
    """Delete definitions, and remember the ids of those that have ended."""
    gone = connection.execute(statement, {"until": until, "limit": limit}).all()
    keys = json.dumps([each.key for each in gone])
    rows = connection.execute(statements.DELETE_CONTENTS, {"keys": keys})
    triggers = {row.key: row._asdict() for row in rows}
    remembered = [
        {**triggers[each.key], **each._asdict()}
        for each in gone
        if each.named and each.completed_at is not None and each.key in triggers
    ]
    if remembered:
        connection.execute(statements.REMEMBER, remembered)
    return len(gone)
