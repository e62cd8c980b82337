"""PostgreSQL's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ARRAY, Text, Uuid, any_, bindparam, func, select
from sqlalchemy.dialects import postgresql

from go_scheduler.stores.sql.dialect import Dialect
from go_scheduler.stores.sql.tables import contents
from go_scheduler.stores.sql.types import Time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON


class PostgreSQLDialect(Dialect):
    """PostgreSQL's words.

    Attributes:
        reads_rows: Whether a scan that locks may read more rows than it takes: only
            those that it takes are locked.

    Args:
        clock: Used instead of the database's time.
    """

    name = "postgresql"
    reads_rows = True

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock

    def now(self, connection: Connection) -> datetime:
        """The clock's time, or the database's."""
        if self._clock is not None:
            return self._clock.now()
        now: datetime = connection.execute(select(func.now(type_=Time))).scalar_one()
        return now

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One array."""
        return column == any_(bindparam(None, list(ids), type_=ARRAY(Uuid)))

    def contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """By the index on the metadata."""
        return contents.c.metadata_search.contains(metadata)

    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """By the database's collation."""
        each = func.unnest(bindparam(None, list(texts), type_=ARRAY(Text)))
        return (
            connection.execute(select(each.label("text")).order_by("text"))
            .scalars()
            .all()
        )

    def ready(self, connection: Connection) -> None:
        """Do nothing: a server has what it takes."""

    def by_index(self, index: str) -> str:
        """The hint behind a table's name: rows are looked up by this index only."""
        return ""

    def insert(self, table: Table) -> PostgreSQLInsert:
        """Insert rows; what conflicts may be left out."""
        return postgresql.insert(table)
