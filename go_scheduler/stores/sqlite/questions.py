"""What is asked of a SQLite file for findings; nothing here writes, or makes a file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.findings import (
    DAMAGED,
    DISK_FULL,
    FREE_PAGES,
    JOURNAL_MODE,
    LARGE_LOG,
    UNCHECKED,
    well,
)
from go_scheduler.stores.sql.questions import (
    TABLES,
    UNIQUE,
    Question,
    answers,
    judged_indexes,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding

MANY_FREE = 10_000
"""Pages, of mostly 4 KiB."""
LONG_LOG = 256 * 2**20
LITTLE_ROOM = 64 * 2**20
"""Both in bytes."""
_BUSY_TIMEOUT = 1.0
_STEPS = 10_000

_INDEXES = """
SELECT tbl_name, name FROM sqlite_master WHERE type IN ('table', 'index')
"""


class Examined:
    """A file that is opened to be read, for questions of bounded length.

    Args:
        path: The file.
        elapsed: Measures how long an answer takes.
        longest: How long it may take.
    """

    def __init__(
        self, path: Path, *, elapsed: Callable[[], timedelta], longest: timedelta
    ) -> None:
        self._path = path
        self._elapsed = elapsed
        self._longest = longest
        self._until = elapsed()

    def findings(self) -> Iterator[Finding]:
        """The answers to all questions.

        Raises:
            StoreUnavailableError: There is no such file, or it cannot be opened.
        """
        if not self._path.exists():
            raise StoreUnavailableError(f"there is no file {self._path}")
        try:
            driver = sqlite3.connect(
                f"file:{quote(str(self._path))}?mode=ro",
                uri=True,
                timeout=_BUSY_TIMEOUT,
                isolation_level=None,
            )
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{self._path}: {error}") from error
        with closing(driver):
            engine = create_engine(
                "sqlite://", creator=lambda: driver, poolclass=StaticPool
            )
            with engine.connect() as connection:
                yield from self._answers(connection, driver)

    def _is_over(self) -> bool:
        return self._elapsed() > self._until

    def _answers(
        self, connection: Connection, driver: sqlite3.Connection
    ) -> Iterator[Finding]:
        try:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        except SQLAlchemyError as error:
            raise StoreUnavailableError(f"{self._path}: {_said(error)}") from error

        driver.set_progress_handler(self._is_over, _STEPS)

        def ask(read: Callable[[Connection], list[Finding]]) -> list[Finding]:
            self._until = self._elapsed() + self._longest
            try:
                return read(connection)
            except SQLAlchemyError as error:
                raise StoreError(_said(error)) from error

        yield from answers(QUESTIONS, ask)
        yield from self._room()

    def _room(self) -> Iterator[Finding]:
        """What can be seen beside the file."""
        log = self._path.with_name(f"{self._path.name}-wal")
        size = log.stat().st_size if log.exists() else 0
        if size > LONG_LOG:
            yield LARGE_LOG.found(f"{log} has {size / 2**20:,.0f} MiB")
        free = shutil.disk_usage(self._path.parent).free
        if free < LITTLE_ROOM:
            yield DISK_FULL.found(f"{free / 2**20:,.0f} MiB are left beside the file")
        else:
            yield well("disk", f"{free / 2**20:,.0f} MiB are free")


def _said(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", error))


def _server(_: Connection) -> Iterator[Finding]:
    yield well("server", f"SQLite {sqlite3.sqlite_version}")


def _indexes(connection: Connection) -> Iterator[Finding]:
    names: dict[str, set[str]] = {}
    for table, name in connection.exec_driver_sql(_INDEXES):
        names.setdefault(table, set()).add(name)
    found = [(each, each in names, None, True) for each in TABLES]
    has = [(each, True, name, True) for each in names for name in names[each]]
    # What is part of a table there is no index by that name, and cannot be dropped.
    keys = [(key.table.name, True, key.name, True) for key in UNIQUE]
    rows = [*keys, *found, *has]
    yield from judged_indexes(rows, connection.dialect, rebuild="REINDEX {};")


def _journal(connection: Connection) -> Iterator[Finding]:
    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    if mode == "wal":
        yield well("journal", "a write-ahead log")
    else:
        yield JOURNAL_MODE.found(f"the journal mode is {mode}, and wal is needed")


def _pages(connection: Connection) -> Iterator[Finding]:
    free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    if free > max(MANY_FREE, pages // 2):
        yield FREE_PAGES.found(f"{free:,} of {pages:,} pages are free", "VACUUM;")
    yield well("rows", f"the file has {pages:,} pages, {free:,} of them free")


def _whole(connection: Connection) -> Iterator[Finding]:
    try:
        found = connection.exec_driver_sql("PRAGMA quick_check(5)").scalars().all()
    except SQLAlchemyError as error:
        said = _said(error)
        if said != "interrupted":
            yield DAMAGED.found(said)
            return
        yield UNCHECKED.found("a check of the whole file takes longer than there was")
        return
    if list(found) == ["ok"]:
        yield well("file", "quick_check finds nothing")
    else:
        yield DAMAGED.found("; ".join(map(str, found)))


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
    "journal": _journal,
    "pages": _pages,
    "file": _whole,
}
"""All of them, by what they are about."""
