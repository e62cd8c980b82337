"""The engines' own words, where one statement cannot serve them all."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from go_scheduler.stores.sql.rows import write_contents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Delete, Select, Table, Update
    from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition

Read = TypeVar("Read")
Query = TypeVar("Query", "Select[Any]", "Update", "Delete")


class Dialect(ABC):
    """The differences between engines, but for the statements of the loops.

    Attributes:
        name: What SQLAlchemy calls it.
        shards: Over how many parts of an index what is due is spread.
    """

    name: str
    shards = 1

    @abstractmethod
    def now(self, connection: Connection) -> datetime:
        """The store's time."""

    @abstractmethod
    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """Whether a column is one of many ids, as one parameter."""

    def looked_up(self, query: Query, table: Table, index: str) -> Query:
        """A statement on some rows of a table, which are looked up by an index only."""
        return query

    @abstractmethod
    def contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """Whether a definition's metadata contains this."""

    @abstractmethod
    def insert(self, table: Table) -> PostgreSQLInsert | SQLiteInsert:
        """Insert rows; what conflicts may be left out."""

    def write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """The columns of ``task_contents``, but for the key."""
        row = write_contents(definition)
        return {**row._asdict(), "metadata_search": json.loads(row.metadata)}

    @abstractmethod
    def ready(self, connection: Connection) -> None:
        """Make a connection of the user's ready for these words."""

    def in_autocommit(self, connection: Connection) -> bool:
        """Whether a connection of the user's commits each statement by itself."""
        # Every driver of SQLAlchemy's for such a server has this attribute; SQLAlchemy
        # itself has none before 2.0.43.
        driver: Any = connection.connection.dbapi_connection
        return bool(driver.autocommit)

    @abstractmethod
    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """Texts in the order in which an index has them."""

    @abstractmethod
    def hint(
        self,
        connection: Connection,
        times: Iterable[datetime | None],
        now: datetime,
        *,
        late: bool = False,
    ) -> None:
        """Have other processes look, once this commits, if any of these is soon.

        Args:
            connection: Within whose transaction.
            times: When what was put is due.
            now: When it was put.
            late: Whether that may commit only much later.
        """

    def listed(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """Read; the result need not be of this very moment."""
        return read(connection)

    def past_locks(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """Read, though somebody else may have locked the rows."""
        return read(connection)
