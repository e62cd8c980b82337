"""Questions of the doctor to a SQLite file. They only read, and make no file."""

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
from go_scheduler.stores.findings import DISK_FULL, well
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
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding

LITTLE_ROOM = 64 * 2**20
"""In bytes."""
_BUSY_TIMEOUT = 1.0

_INDEXES = """
SELECT tbl_name, name FROM sqlite_master WHERE type IN ('table', 'index')
"""


def findings(path: Path) -> Iterator[Finding]:
    """The answers to all questions.

    Raises:
        StoreUnavailableError: There is no such file, or it cannot be opened.
    """
    if not path.exists():
        raise StoreUnavailableError(f"there is no file {path}")
    try:
        driver = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro",
            uri=True,
            timeout=_BUSY_TIMEOUT,
            isolation_level=None,
        )
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"{path}: {error}") from error
    with closing(driver):
        engine = create_engine(
            "sqlite://", creator=lambda: driver, poolclass=StaticPool
        )
        with engine.connect() as connection:
            try:
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
            except SQLAlchemyError as error:
                raise StoreUnavailableError(f"{path}: {_said(error)}") from error

            def ask(read: Callable[[Connection], list[Finding]]) -> list[Finding]:
                try:
                    return read(connection)
                except SQLAlchemyError as error:
                    raise StoreError(_said(error)) from error

            yield from answers(QUESTIONS, ask)
    free = shutil.disk_usage(path.parent).free
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


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
}
"""All of them, by what they are about."""
