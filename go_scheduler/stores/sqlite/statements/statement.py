"""One statement on instances or definitions, and how what it returns is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite

from go_scheduler.stores.sql.fetching import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sqlalchemy import ColumnElement, Connection, Row

_DIALECT = sqlite.dialect()


class Statement:
    """A statement that the driver executes as it is written.

    Args:
        sql: With named parameters.
        columns: The tables' columns that come back, in their order.
    """

    def __init__(self, sql: str, columns: Iterable[ColumnElement[Any]]) -> None:
        self._sql = sql
        self._columns = Columns(columns, _DIALECT)

    def __str__(self) -> str:
        return self._sql

    def execute(
        self, connection: Connection, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """The rows that it returns, as they are stored."""
        return connection.exec_driver_sql(self._sql, dict(parameters)).all()

    def read(self, rows: Sequence[Row[Any]]) -> Sequence[Any]:
        """Named tuples of the values of rows, each as its column's are read."""
        return self._columns.read(rows)

    def fetch(
        self, connection: Connection, parameters: Mapping[str, object]
    ) -> Sequence[Any]:
        """Named tuples of the values of the rows that it returns."""
        return self.read(self.execute(connection, parameters))
