"""Rows of the driver's own are read as SQLAlchemy would read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.rows import CLAIMED_COLUMNS, UNREADABLE
from go_scheduler.stores.sql.tables import instances
from go_scheduler.stores.sqlite import SQLiteStore
from go_scheduler.stores.sqlite.statements import INSTANCE, Statement, of_instances

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from sqlalchemy import Connection

_VALUES = """'00000000000040008000000000000001', NULL, 0, 0, 'no time', 1, 1, 0, NULL,
    7, NULL, NULL, NULL, 1, '{}', NULL, NULL, NULL, NULL, NULL"""
_ROWS = f"WITH x ({INSTANCE}) AS (VALUES ({_VALUES}), ({_VALUES}))"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A store of no tables."""
    store = SQLiteStore(f"sqlite:///{tmp_path / 'file.db'}")
    yield store
    store.close()


def test_values_are_read_as_sqlalchemy_reads_them(store: SQLiteStore) -> None:
    sql = f"{_ROWS} SELECT * FROM x"
    columns = [instances.c[name] for name in CLAIMED_COLUMNS]

    def both(connection: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
        others = connection.execute(text(sql).columns(*columns)).all()
        return Statement(sql, columns).fetch(connection, {}), others

    rows, others = store._database.run(Lane.BY_TIME, both)
    assert rows == list(map(tuple, others))
    by_name = dict(zip(CLAIMED_COLUMNS, rows[0], strict=True))
    assert by_name["due_at"] is UNREADABLE
    assert by_name["cancel_requested"] is True


def test_of_no_rows_none_are_fetched(store: SQLiteStore) -> None:
    statement = of_instances(f"{_ROWS} SELECT * FROM x WHERE 0")
    fetched = store._database.run(
        Lane.BY_TIME, lambda connection: statement.fetch(connection, {})
    )
    assert fetched == []


def test_what_fails_at_a_later_row_is_an_error_of_the_store(store: SQLiteStore) -> None:
    # The second has no absolute value in 64 bits.
    numbers = "(VALUES (1), (-9223372036854775808))"
    statement = Statement(f"SELECT abs(column1) FROM {numbers}", [instances.c.runs])
    with pytest.raises(StoreError, match="integer overflow"):
        store._database.run(
            Lane.BY_TIME,
            lambda connection: statement.fetch(connection, {}),
        )
