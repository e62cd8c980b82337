"""The engines' own words, where one statement cannot serve them all."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    LargeBinary,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError, ProgrammingError

from go_scheduler.stores.sql.rows import write_contents
from go_scheduler.stores.sql.tables import contents, definitions
from go_scheduler.stores.sql.types import Time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Delete, Select, Table, Update
    from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition

Read = TypeVar("Read")
Query = TypeVar("Query", "Select[Any]", "Update", "Delete")

CONTAINS = "go_scheduler_contains"
"""The function that every SQLite connection of ours has: whether JSON contains JSON."""


class Dialect(ABC):
    """What differs between engines, but for what the loops do.

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
    def insert_new_ids(self) -> PostgreSQLInsert | SQLiteInsert:
        """Insert definitions, but for ids that exist."""

    def write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """The columns of ``task_contents``, but for the key."""
        row = write_contents(definition)
        return {**row._asdict(), "metadata_search": json.loads(row.metadata)}

    def in_autocommit(self, connection: Connection) -> bool:
        """Whether a connection of the user's commits each statement by itself."""
        # All that SQLAlchemy has for such a server say it so; it has no word of its own
        # for that before 2.0.43.
        driver: Any = connection.connection.dbapi_connection
        return bool(driver.autocommit)

    @abstractmethod
    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """Texts in the order in which an index has them."""

    def listed(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """What ``read`` reads; it need not be of this very moment."""
        return read(connection)

    def past_locks(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """What ``read`` reads, though somebody else may have locked it."""
        return read(connection)


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

    def by_index(self, index: str) -> str:
        """What follows a table's name where rows are looked up by an index only."""
        return ""

    def insert_new_ids(self) -> PostgreSQLInsert:
        """Insert definitions, but for ids that exist."""
        return postgresql.insert(definitions).on_conflict_do_nothing(
            index_elements=[definitions.c.id],
            index_where=definitions.c.deleted_at.is_(None),
        )


class CockroachDBDialect(PostgreSQLDialect):
    """CockroachDB's words.

    Args:
        clock: Used instead of the database's time.
        follower_reads: Whether lists may come from the nearest replica.
    """

    name = "cockroachdb"
    shards = 8
    reads_rows = False

    def __init__(self, clock: Clock | None, *, follower_reads: bool) -> None:
        super().__init__(clock)
        self._follower_reads = follower_reads

    def by_index(self, index: str) -> str:
        """A hint that allows no full scan."""
        return "@" + _look_up(index)

    def looked_up(self, query: Query, table: Table, index: str) -> Query:
        """With the same hint."""
        hint = _look_up(index)
        return query.with_hint(selectable=table, text=hint, dialect_name=self.name)

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One array, of rows: in a plan for any values, only those are looked up."""
        array = bindparam(None, list(ids), type_=ARRAY(Uuid))
        return column.in_(select(func.unnest(array)))

    def listed(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """In a transaction in the past, if asked to."""
        if not self._follower_reads:
            return read(connection)
        past = "AS OF SYSTEM TIME follower_read_timestamp()"
        try:
            return within(past, connection, read)
        except ProgrammingError:
            # The tables are younger than that.
            return read(connection)

    def past_locks(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """With priority, if there is a lock: such a reader moves those that write.

        They may still commit, at a later time. It settles what it reads, too.
        """
        try:
            return read(connection)
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCKED:
                raise
        return within("PRIORITY HIGH", connection, read)


_LOCKED = "55P03"


def within(
    kind: str, connection: Connection, read: Callable[[Connection], Read]
) -> Read:
    """What ``read`` reads within a transaction of a kind."""
    connection.exec_driver_sql(f"BEGIN {kind}")
    try:
        found = read(connection)
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
        raise
    # After a rollback the driver would prepare every statement anew.
    connection.exec_driver_sql("COMMIT")
    return found


def _look_up(index: str) -> str:
    return f"{{FORCE_INDEX={index},NO_FULL_SCAN}}"


class SQLiteDialect(Dialect):
    """SQLite's words.

    Args:
        time: The machine's time, or a clock's.
    """

    name = "sqlite"

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time

    def now(self, connection: Connection) -> datetime:
        """The machine's time."""
        return self._time()

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One JSON array."""
        # A row written by hand may have what is no id.
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

    def insert_new_ids(self) -> SQLiteInsert:
        """Insert definitions, but for ids that exist."""
        return sqlite.insert(definitions).on_conflict_do_nothing(
            index_elements=[definitions.c.id],
            index_where=definitions.c.deleted_at.is_(None),
        )

    def write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """Without a copy to search: the function reads the text."""
        return {**super().write_contents(definition), "metadata_search": None}

    def in_autocommit(self, connection: Connection) -> bool:
        """As the driver has it: SQLAlchemy cannot tell."""
        driver: Any = connection.connection.driver_connection
        return driver.isolation_level is None and not driver.in_transaction
