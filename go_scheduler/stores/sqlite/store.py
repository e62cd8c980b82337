"""The SQLite store: what the loops do, each as one transaction over a batch."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import Boolean, LargeBinary, cast, func, select
from sqlalchemy.dialects import sqlite

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.findings import answers
from go_scheduler.stores.hints import Polls
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import QUESTIONS
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.tables import Dialect, contents
from go_scheduler.stores.sqlite.database import (
    CONTAINS,
    SQLiteDatabase,
    add_functions,
)
from go_scheduler.stores.sqlite.executing import FileStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert
    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.sql.questions import Question

_BUSY_TIMEOUT = timedelta(seconds=5)
# A look costs some microseconds, and no lock of the file.
_LOOK_EVERY = timedelta(milliseconds=20)


class SQLiteStore(SQLStore):
    """Keeps everything in one file, for the processes of one machine.

    What has been committed survives a killed process, and a power failure. The file is
    on a local disk: SQLite's locks do not work on most network file systems. Beside it
    SQLite keeps two more files, ending in ``-wal`` and ``-shm``, that belong to it. The
    store's time is the machine's.

    Any number of threads and processes may use one file. One writes at a time; readers
    wait for nobody. A user's own transaction that has written keeps all others waiting
    until it ends.

    **Fork**: a process that has been forked while a store was open cannot use its file,
    for SQLite's locks do not survive a fork: every call raises ``StoreError``. Close
    the store before the fork, or start processes by ``spawn`` or ``forkserver``.

    Args:
        url: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``. The
            directory must exist; the file is made.
        clock: Used instead of the machine's time, for tests.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is, and makes no file.
        durable: Whether every write waits for the disk (``synchronous=FULL``). Without,
            small writes are several times as fast, and a power failure may undo the
            last ones: what has run may run again. The file stays whole either way.
        busy_timeout: How long a call waits for other processes that write.

    Raises:
        ConfigurationError: The URL is not that of a SQLite file, or the SQLite of this
            Python is older than 3.35.
    """

    _database: SQLiteDatabase

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        migrate: bool = True,
        durable: bool = True,
        busy_timeout: timedelta = _BUSY_TIMEOUT,
    ) -> None:
        database = SQLiteDatabase(url, durable=durable, busy_timeout=busy_timeout)
        dialect = SQLiteDialect(self.now)
        schema = Schema(dialect.name, migrate)
        self._path = database.path
        self._migrates = migrate
        statements = FileStatements(database, dialect)
        super().__init__(database, dialect, statements, schema=schema, clock=clock)
        self._time = (clock or SystemClock()).now

    def __repr__(self) -> str:
        return f"{type(self).__name__}('sqlite:///{self._path}')"

    def initialize(self) -> None:
        """Make the file, and bring its schema up to date; or check that it is."""
        self._database.prepare(makes=self._migrates)
        super().initialize()

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the file."""
        path = self._path
        if not path.exists():
            raise StoreUnavailableError(f"there is no file {path}")

        def ask(question: Question) -> list[Finding]:
            return self._database.run(
                Lane.BY_HAND, lambda connection: list(question(connection))
            )

        self._database.run(
            Lane.BY_HAND, lambda each: each.exec_driver_sql("PRAGMA schema_version")
        )
        return list(answers(QUESTIONS["sqlite"], ask))

    def hints(self) -> Hints:
        """Whether the file has been written to by others."""
        seen: int | None = None

        def has_changed() -> bool:
            nonlocal seen
            before, seen = seen, self._database.version()
            return before != seen

        return Polls(_LOOK_EVERY, has_changed)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the machine's."""
        return self._time()


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
