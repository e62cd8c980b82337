"""The SQLite store: one file, its connections, and who writes to it."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import deque
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import (
    Boolean,
    LargeBinary,
    QueuePool,
    cast,
    create_engine,
    event,
    exc,
    func,
    select,
)
from sqlalchemy.dialects import sqlite

from go_scheduler.checks import check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.formatting import shown
from go_scheduler.json import JSON, contains
from go_scheduler.stores.findings import Finding, answers
from go_scheduler.stores.hints import Hints, Polls
from go_scheduler.stores.sql.database import Database, Fault, Lane, Overtaken, read_url
from go_scheduler.stores.sql.questions import QUESTIONS, Question
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.tables import Dialect, contents
from go_scheduler.stores.sqlite.executing import FileStatements

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterator,
        Mapping,
        Sequence,
    )

    from sqlalchemy import ColumnElement, Connection, Engine, Table
    from sqlalchemy.dialects.sqlite import Insert as SQLiteInsert
    from sqlalchemy.engine import URL

    from go_scheduler.models import TaskDefinition

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


class WriteLock:
    """Lets one thread at a time write, each in its turn.

    A common lock, and a connection pool, go to whoever asks at the right moment: a
    thread that asks again at once can keep the others waiting for seconds.

    Args:
        longest: How many seconds to wait for it.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take it, and pass it on in the end.

        Raises:
            StoreUnavailableError: It was not passed on in time.
        """
        self._take()
        try:
            yield
        finally:
            self._pass_on()

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=self._longest):
            return
        with self._lock:
            # It may have been passed on at the last moment.
            if mine in self._waiting:
                self._waiting.remove(mine)
                raise StoreUnavailableError(
                    f"other threads have been writing for {self._longest:g} s"
                )

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


CONTAINS = "go_scheduler_contains"
"""Whether JSON contains JSON."""


def add_functions(connection: sqlite3.Connection) -> None:
    """Give them to a connection of the driver."""
    connection.create_function(CONTAINS, 2, _contains, deterministic=True)


def _contains(outer: bytes, inner: str) -> bool:
    """Whether JSON contains JSON; a text that is none contains nothing."""
    try:
        return contains(json.loads(outer), _parsed(inner))
    except (TypeError, ValueError, RecursionError):
        return False


@lru_cache(maxsize=8)
def _parsed(text: str) -> JSON:
    parsed: JSON = json.loads(text)
    return parsed


Result = TypeVar("Result")

OLDEST = (3, 35)
"""The first SQLite that has RETURNING and MATERIALIZED."""

_POOL_TIMEOUT = 10
_READERS = 5
# SQLite looks for a lock ever more rarely, up to ten times a second, so that those who
# come later are served first. Asked anew after so many seconds, it begins with a
# millisecond again.
_LOOK_FOR_LOCK = 0.05
# SQLite counts milliseconds in 32 bits.
_LONGEST_BUSY = timedelta(days=1)
_EXAMPLE = "sqlite:///relative/file.db or sqlite:////absolute/file.db"


class SQLiteDatabase(Database):
    """The connections of one process to one file: one that writes, some that read.

    SQLite has one writer at a time. The threads of a process wait for its write lock
    in turn; only processes wait for the file.

    Args:
        url: The file.
        durable: Whether a commit waits until it is on the disk.
        busy_timeout: How long to wait for a lock that another process holds.

    Raises:
        ConfigurationError: The URL is not of a SQLite file, or SQLite is too old.
    """

    writing = Lane.BY_KEY

    def __init__(
        self, url: str | URL, *, durable: bool, busy_timeout: timedelta
    ) -> None:
        _check_version()
        check_type("busy_timeout", busy_timeout, timedelta)
        if not ZERO <= busy_timeout <= _LONGEST_BUSY:
            raise ConfigurationError(
                "busy_timeout must be zero or more, and at most a day:"
                f" {shown(busy_timeout)}"
            )
        self.path = _path(url)
        self._synchronous = "FULL" if durable else "NORMAL"
        self._busy_timeout = busy_timeout.total_seconds()
        self._connected = False
        self._write_lock = WriteLock(_POOL_TIMEOUT)
        writer = self._make_engine(
            1, busy_timeout=min(self._busy_timeout, _LOOK_FOR_LOCK)
        )
        readers = self._make_engine(_READERS, busy_timeout=self._busy_timeout)
        super().__init__(
            {lane: readers if lane in _READING else writer for lane in Lane},
            fault_of=fault_of,
            in_transaction=self._in_transaction,
        )

    def prepare(self, *, makes: bool = True) -> None:
        """Have the file be there, with a write-ahead log.

        Args:
            makes: Whether it is made, if there is none.

        Raises:
            ConfigurationError: Its directory does not exist.
            StoreError: It cannot have a write-ahead log, or is no database; or there is
                none.
        """
        if not self.path.parent.is_dir():
            raise ConfigurationError(
                f"the directory {self.path.parent} of the store's file does not exist"
            )
        if not makes and not self.path.exists():
            raise StoreError(
                f"there is no file {self.path}; opened with migrate=True, the store"
                " makes it"
            )
        self.run(self.writing, self._use_log)

    def run(
        self, lane: Lane, work: Callable[[Connection], Result], **how: Any
    ) -> Result:
        """Call ``work``, as any ``Database`` does it; its errors name the file."""
        try:
            return super().run(lane, work, **how)
        except OverflowError as error:
            raise StoreError(f"SQLite cannot keep a value: {error}") from error
        except StoreError as error:
            raise type(error)(f"{self.path}: {error}") from error.__cause__

    def transact(self, work: Callable[[Connection], Result], **how: Any) -> Result:
        """Call ``work`` within one transaction of the connection that writes."""
        with self._write_lock.taken():
            return super().transact(work, **how)

    def change(
        self,
        lane: Lane,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
    ) -> Result:
        """Call ``work`` in a transaction: one of our statements may be several here."""
        return self.transact(work, repeatable=repeatable)

    def version(self) -> int:
        """A number that changes when anybody else has written to the file.

        It is the writing connection's, for which its own writes change nothing.
        """

        def read(connection: Connection) -> int:
            [[found]] = self.execute(connection, "PRAGMA data_version")
            return int(found)

        with self._write_lock.taken():
            return self.run(self.writing, read)

    def _in_transaction(
        self, connection: Connection, work: Callable[[Connection], Result]
    ) -> Result:
        # It has the write lock from its beginning.
        self._when_free(lambda: self.execute(connection, "BEGIN IMMEDIATE"))
        try:
            result = work(connection)
            self.execute(connection, "COMMIT")
        except BaseException:
            # Some errors end the transaction by themselves.
            if _driver_of(connection).in_transaction:
                self.execute(connection, "ROLLBACK")
            raise
        return result

    def execute(
        self, connection: Connection, sql: str, parameters: Mapping[str, Any] = {}
    ) -> Sequence[Any]:
        """Execute by the driver, which takes a fraction of SQLAlchemy's time."""
        try:
            return _driver_of(connection).execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise exc.DBAPIError.instance(sql, None, error, sqlite3.Error) from error

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self._connected = False

    def abandon(self) -> None:
        """Forget all connections, and let this process open the file no more."""
        if self._connected:
            _inherited.add(self.path)
        self._write_lock = WriteLock(_POOL_TIMEOUT)
        super().abandon()

    def _when_free(self, execute: Callable[[], Result]) -> Result:
        """Execute a statement that takes the write lock, once the file is free."""
        for _ in range(int(self._busy_timeout / _LOOK_FOR_LOCK)):
            try:
                return execute()
            except exc.OperationalError as error:
                if _code_of(error) != sqlite3.SQLITE_BUSY:
                    raise
        return execute()

    def _use_log(self, connection: Connection) -> None:
        try:
            [[mode]] = self.execute(connection, "PRAGMA journal_mode = WAL")
        except exc.OperationalError as error:
            # While another process does the same, SQLite does not wait but fails.
            if _code_of(error) == sqlite3.SQLITE_BUSY:
                raise Overtaken from error
            raise
        if mode != "wal":
            raise StoreError(
                f"{self.path} cannot have a write-ahead log; it has the journal {mode}"
            )

    def _make_engine(self, size: int, *, busy_timeout: float) -> Engine:
        engine = create_engine(
            "sqlite+pysqlite:///",
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=0,
            pool_timeout=_POOL_TIMEOUT,
        )

        def connect(*_: object) -> sqlite3.Connection:
            return self._connect(busy_timeout)

        event.listen(engine, "do_connect", connect)
        return engine

    def _connect(self, busy_timeout: float) -> sqlite3.Connection:
        if self.path in _inherited:
            raise StoreError(
                f"{self.path} was open when this process was forked, and SQLite's locks"
                " do not survive that: close the store before the fork, or spawn"
            )
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        self._connected = True
        try:
            # Bytes that are no text affect their own row, and not all read with it.
            connection.text_factory = methodcaller("decode", "utf-8", "replace")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            add_functions(connection)
            connection.execute(f"PRAGMA busy_timeout = {busy_timeout * 1000:.0f}")
        except BaseException:
            connection.close()
            raise
        return connection


_READING = (Lane.BY_HAND, Lane.BY_TIME)

_inherited: set[Path] = set()
"""Files that were open when this process was forked.

SQLite keeps a list of its locks in each process. A child inherits the list and not the
locks: it writes without one, and loses what it wrote when the parent removes the log.
"""


def _check_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise ConfigurationError(
            f"SQLite {'.'.join(map(str, OLDEST))} or newer is needed; Python's sqlite3"
            f" module has {sqlite3.sqlite_version}"
        )


def _path(url: str | URL) -> Path:
    parsed = read_url(url, example=_EXAMPLE)
    if parsed.drivername.lower() not in ("sqlite", "sqlite+pysqlite"):
        raise ConfigurationError(
            f"the URL begins with {parsed.drivername}://; this store's are such as"
            f" {_EXAMPLE}"
        )
    if parsed.host is not None or parsed.query:
        raise ConfigurationError(
            f"a SQLite URL has three or four slashes and no options, as in {_EXAMPLE}"
        )
    if parsed.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "a SQLite database in memory is not offered: use MemoryStore, memory://, or"
            f" name a file, as in {_EXAMPLE}"
        )
    # An absolute path: the process may go to another directory.
    return Path(os.path.abspath(parsed.database))


def _driver_of(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
}


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """The meaning of an error that SQLAlchemy raised, and its code."""
    if isinstance(error, exc.TimeoutError):
        return Fault.UNAVAILABLE, "pool"
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    return (Fault.UNAVAILABLE if _code_of(error) in _UNAVAILABLE else Fault.WRONG), name


def _code_of(error: BaseException) -> int | None:
    """The primary code: the upper bits only say more about it."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
