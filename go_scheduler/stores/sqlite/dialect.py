"""SQLite's own words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import Boolean, LargeBinary, cast, func, select
from sqlalchemy.dialects import sqlite

from go_scheduler.stores.sql.tables import Dialect, contents
from go_scheduler.stores.sqlite.database import CONTAINS, add_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition


class SQLiteDialect(Dialect):
    """SQLite's words.

    Args:
        time: The machine's time, or a clock's.
    """

    name = "sqlite"
    claims_together = True

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time

    def now(self, connection: Connection) -> datetime:
        """The machine's time."""
        return self._time()

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One JSON array."""
        # A row that was written by other means than this package may have no id.
        known = [each.hex for each in ids if isinstance(each, UUID)]
        return column.in_(
            select(func.json_each(json.dumps(known)).table_valued("value"))
        )

    def contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """By a function of ours."""
        stored = cast(contents.c.metadata, LargeBinary)
        found: ColumnElement[bool] = getattr(func, CONTAINS)(
            stored, json.dumps(metadata), type_=Boolean
        )
        return found

    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """By their bytes, which is by their characters."""
        return sorted(texts)

    def insert(self, table: Table) -> SQLiteInsert:
        """Insert rows; what conflicts may be left out."""
        return sqlite.insert(table)

    def write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """Without a copy to search: the function reads the text."""
        return {**super().write_contents(definition), "metadata_search": None}

    def hint(
        self,
        connection: Connection,
        times: Iterable[datetime | None],
        now: datetime,
        *,
        late: bool = False,
    ) -> None:
        """Do nothing: whoever looks at the file sees that it has changed."""

    def ready(self, connection: Connection) -> None:
        """It gets our functions, and is in a transaction that writes."""
        driver: Any = connection.connection.dbapi_connection
        add_functions(driver)
        driver = connection.connection.driver_connection
        if not driver.in_transaction:
            # Python begins one by itself only before words that it knows.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def in_autocommit(self, connection: Connection) -> bool:
        """As the driver has it: SQLAlchemy cannot tell."""
        driver: Any = connection.connection.driver_connection
        return driver.isolation_level is None and not driver.in_transaction
