"""PostgreSQL's own words."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ARRAY, Text, Uuid, any_, bindparam, cast, func, select, text
from sqlalchemy.dialects import postgresql

from go_scheduler.stores.hints import is_any_soon
from go_scheduler.stores.postgresql import arrays
from go_scheduler.stores.postgresql.notices import NOTIFY, may_notify
from go_scheduler.stores.sql.dialect import Dialect
from go_scheduler.stores.sql.tables import contents
from go_scheduler.stores.sql.types import from_server_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
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
        notifies: Whether writes notify other processes.

    Args:
        clock: Used instead of the database's time.
        notifies: As the attribute.
    """

    name = "postgresql"
    reads_rows = True

    def __init__(self, clock: Clock | None, *, notifies: bool = True) -> None:
        self._clock = clock
        self.notifies = notifies

    def now(self, connection: Connection) -> datetime:
        """The clock's time, or the database's."""
        if self._clock is not None:
            return self._clock.now()
        answer = connection.exec_driver_sql("SELECT now()").scalar_one()
        now = from_server_time(answer)
        assert isinstance(now, datetime)
        return now

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One array."""
        return column == any_(array(ids))

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

    def hint(
        self,
        connection: Connection,
        times: Iterable[datetime | None],
        now: datetime,
        *,
        late: bool = False,
    ) -> None:
        """By NOTIFY, which others hear when the transaction commits."""
        if (
            self.notifies
            and is_any_soon(times, now, late=late)
            and may_notify(connection)
        ):
            connection.execute(text(NOTIFY))

    def by_index(self, index: str) -> str:
        """The hint behind a table's name: rows are looked up by this index only."""
        return ""

    def insert(self, table: Table) -> PostgreSQLInsert:
        """Insert rows; what conflicts may be left out."""
        return postgresql.insert(table)


def array(ids: Collection[UUID]) -> ColumnElement[Any]:
    """Ids as one parameter, which the driver need not write one by one."""
    return cast(bindparam(None, arrays.ids(ids), type_=Text), ARRAY(Uuid))
