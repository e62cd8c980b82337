"""Rows of a SQLite file whose time is over, and how they are deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.sql.types import to_microseconds
from go_scheduler.stores.sqlite.statements import cleanup as sql
from go_scheduler.stores.sqlite.statements.history import DELETE_RUNS

if TYPE_CHECKING:
    from sqlalchemy import Connection, TextClause

    from go_scheduler.stores.messages import Retention

_CONTACTS_KEPT = to_microseconds(CONTACTS_KEPT)
_STATS_KEPT = [
    (to_microseconds(every), to_microseconds(kept))
    for every, kept in STATS_KEPT.items()
]


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

    connection.execute(sql.DELETE_CONTACTS, {"since": now - _CONTACTS_KEPT})
    since = [{"every": each, "since": now - kept} for each, kept in _STATS_KEPT]
    connection.execute(sql.DELETE_STATS, since)
    left -= delete_over(sql.DELETE_ENDED, until)
    left -= delete_over(sql.DELETE_FAILED, failed_until)
    # Rows that a delete has left behind for their history count for nobody.
    _delete_definitions(connection, sql.DELETE_DELETED, until, limit)
    completed = _delete_definitions(connection, sql.DELETE_COMPLETED, until, left)
    return limit - left + completed, completed


def _delete_definitions(
    connection: Connection, statement: TextClause, until: int, limit: int
) -> int:
    """Delete definitions, and remember the ids of those that have ended."""
    gone = connection.execute(statement, {"until": until, "limit": limit}).all()
    keys = json.dumps([each.key for each in gone])
    rows = connection.execute(sql.DELETE_CONTENTS, {"keys": keys})
    triggers = {row.key: row._asdict() for row in rows}
    remembered = [
        {**triggers[each.key], **each._asdict()}
        for each in gone
        if each.named and each.completed_at is not None and each.key in triggers
    ]
    if remembered:
        connection.execute(sql.REMEMBER, remembered)
    return len(gone)
