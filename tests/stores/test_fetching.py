"""Rows that are made of the driver's own are those that SQLAlchemy would make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.fetching import fetch
from go_scheduler.stores.sql.instance_rows import INSTANCE_COLUMNS
from go_scheduler.stores.sql.tables import instances
from go_scheduler.stores.sql.types import UNREADABLE
from go_scheduler.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from sqlalchemy import Connection, Row
    from sqlalchemy.sql.expression import TextualSelect

INSTANCE = ", ".join(INSTANCE_COLUMNS)
_VALUES = """'00000000000040008000000000000001', NULL, 0, 0, 'no time', 1, 1, 0, NULL,
    7, NULL, NULL, NULL, 1, '{}', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL,
    NULL"""
_ROWS = f"WITH x ({INSTANCE}) AS (VALUES ({_VALUES}), ({_VALUES}))"


def of_instances(statement: str) -> TextualSelect:
    return text(statement).columns(*(instances.c[name] for name in INSTANCE_COLUMNS))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A store of no tables."""
    store = SQLiteStore(f"sqlite:///{tmp_path / 'file.db'}")
    yield store
    store.close()


def both(
    connection: Connection, statement: TextualSelect
) -> tuple[Sequence[Any], Sequence[Row[Any]]]:
    """What is fetched, and what SQLAlchemy would have fetched."""
    return fetch(connection, statement, {}), connection.execute(statement).all()


def test_rows_hold_what_others_would_by_the_same_names(store: SQLiteStore) -> None:
    statement = of_instances(f"{_ROWS} SELECT * FROM x")
    [row, _], [other, _] = store._database.run(
        Lane.BY_TIME, lambda connection: both(connection, statement)
    )
    assert row == tuple(other)
    assert row._asdict() == other._asdict()
    assert row.due_at is UNREADABLE
    assert row.cancel_requested is True


def test_of_no_rows_none_are_fetched(store: SQLiteStore) -> None:
    statement = of_instances(f"{_ROWS} SELECT * FROM x WHERE 0")
    fetched = store._database.run(
        Lane.BY_TIME, lambda connection: fetch(connection, statement, {})
    )
    assert fetched == []


def test_what_fails_at_a_later_row_is_an_error_of_the_store(store: SQLiteStore) -> None:
    # The second has no absolute value in 64 bits.
    numbers = "(VALUES (1), (-9223372036854775808))"
    statement = text(f"SELECT abs(column1) AS runs FROM {numbers}")
    with pytest.raises(StoreError, match="integer overflow"):
        store._database.run(
            Lane.BY_TIME,
            lambda connection: fetch(
                connection, statement.columns(instances.c.runs), {}
            ),
        )
