"""The SQLite store: what the loops do, each as one transaction over a batch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.findings import answers
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import QUESTIONS
from go_scheduler.stores.sql.rows import (
    to_sqlite_time,
)
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sqlite.database import FileWatch, SQLiteDatabase
from go_scheduler.stores.sqlite.dialect import SQLiteDialect
from go_scheduler.stores.sqlite.executing import FileStatements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.sql.questions import Question

_BUSY_TIMEOUT = timedelta(seconds=5)


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
        statements = FileStatements(database, self._microseconds)
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
        return FileWatch(self._database.version)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the machine's."""
        return self._time()

    def _microseconds(self) -> int:
        """The store's time; what writes asks for it under the write lock."""
        return to_sqlite_time(self._time())
