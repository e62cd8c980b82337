"""Reading within a transaction of a kind, on a connection that is in autocommit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from go_scheduler.stores.sql.dialect import Read


def within(
    kind: str, connection: Connection, read: Callable[[Connection], Read]
) -> Read:
    """Read within a transaction of a kind."""
    connection.exec_driver_sql(f"BEGIN {kind}")
    try:
        found = read(connection)
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
        raise
    # COMMIT also where nothing was written: after a ROLLBACK psycopg would prepare
    # every statement anew.
    connection.exec_driver_sql("COMMIT")
    return found
