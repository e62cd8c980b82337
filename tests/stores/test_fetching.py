"""Rows of the servers' are read as SQLAlchemy would read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from go_scheduler.stores.postgresql.executing import _made
from go_scheduler.stores.postgresql.statements import Statement
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.rows import UNREADABLE
from go_scheduler.stores.sql.tables import instances
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.base import Store

pytestmark = pytest.mark.parametrize("engine", SQL[1:])

VALUES = {
    "id": "CAST('00000000-0000-4000-8000-000000000001' AS uuid)",
    "definition_key": "CAST(NULL AS uuid)",
    "fire_time": "CAST('2026-01-01 12:00:00.5+00' AS timestamptz)",
    "execute_at": "CAST(NULL AS timestamptz)",
    "due_at": "CAST('20000-01-01 00:00:00+00' AS timestamptz)",
    "attempt": "CAST(7 AS bigint)",
    "outcome": "CAST(NULL AS text)",
    "cancel_requested": "true",
    "payload": "'{\"a\": [1]}'",
}


def both(
    store: Store, values: Mapping[str, str], condition: str = ""
) -> tuple[Sequence[Any], Sequence[Row[Any]]]:
    """What a statement is read as, of two rows, and what SQLAlchemy makes of them."""
    assert isinstance(store, PostgreSQLStore)
    statements = store._statements
    listed = ", ".join(f"{value} AS {name}" for name, value in values.items())
    sql = f"SELECT {listed} FROM (VALUES (1), (2)) AS x (y){condition}"
    statements._made["made"] = _made(Statement(sql, tuple(values)), None)

    def read(connection: Connection) -> tuple[Sequence[Any], Sequence[Row[Any]]]:
        columns = (instances.c[name] for name in values)
        rows = connection.execute(text(sql).columns(*columns)).all()
        return statements.execute(connection, "made", {}), rows

    return store._database.run(Lane.BY_TIME, read)


def test_rows_hold_what_others_would_by_the_same_names(store: Store) -> None:
    [row, second], [other, _] = both(store, VALUES)
    assert row == second == tuple(other)
    assert row._asdict() == other._asdict()
    assert row.due_at is UNREADABLE
    assert row.cancel_requested is True


def test_of_no_rows_none_are_read(store: Store) -> None:
    assert both(store, VALUES, " WHERE y > 2") == ([], [])
