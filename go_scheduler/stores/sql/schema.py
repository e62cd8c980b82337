"""The schema of a SQL store: brought up to date or checked when the store is opened.

Teams whose applications may not change a schema have the SQL printed, for others to
run: ``python -m go_scheduler.stores.sql.schema postgresql``.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import threading
from collections import deque
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, Table, exc, text

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.formatting import shown
from go_scheduler.stores.migrations.history import (
    CREATE_TABLE,
    MigrationLock,
    create_lock_table_sql,
    history,
    read_revisions,
    write_revision,
    write_revision_sql,
)
from go_scheduler.stores.sql.database import Database, Lane, Overtaken
from go_scheduler.stores.sql.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


log = logging.getLogger(__name__)

DIALECTS = ("cockroachdb", "postgresql", "sqlite")
"""The databases there is a schema for."""

_LOCK = timedelta(seconds=10)
_PATIENCE = timedelta(minutes=1)
_LONGEST_PAUSE = 0.1
# To build an index takes longer than any other statement may; both are in seconds.
_STEP_TIMEOUT = 3600
_ANSWER_TIMEOUT = _STEP_TIMEOUT + 5
# Somebody else is creating the same: a duplicate key in the catalog, table or type, or
# an index not ready yet. Or somebody uses the table, and its lock took too long.
_RACES = {"23505", "42P07", "42710", "55000", "55P03"}


class Schema:
    """The schema that one store needs.

    Any number of processes may prepare the same database at once: one migrates, under a
    lock that it renews, and the others wait. If it dies, another one goes on where it
    was as soon as the lock has expired. Should two ever overlap, all the same: each
    statement is repeatable, and only who has the lock notes that a revision is done.

    Args:
        dialect: The kind of database: one of ``DIALECTS``.
        migrate: Whether to bring it up to date, or only to check that it is.
        lock: How long others wait for a process that has died.
        patience: How long to wait for another process that makes no progress.
    """

    def __init__(
        self,
        dialect: str,
        migrate: bool,
        *,
        lock: timedelta = _LOCK,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._dialect = dialect
        self._migrate = migrate
        self._lock = lock
        self._patience = patience
        self._elapsed = SystemClock().elapsed

    def prepare(self, database: Database) -> None:
        """Make sure that the store can work with the database.

        Raises:
            StoreError: The schema is too old, too new, incomplete, or not ours to use.
            StoreUnavailableError: The database is away, or another process has been
                migrating it for too long.
        """
        if self._migrate:
            self._bring_up_to_date(database)
        elif (found := self._find(database)) != history().head:
            state = (
                "there is no schema yet" if found is None else f"at revision {found}"
            )
            raise StoreError(
                f"the schema in the database is behind: {state}, and revision"
                f" {history().head} is needed; open the store with migrate=True, or run"
                f" the SQL that `{self._command(found)}` prints"
            )
        _check_use(database)

    def _find(self, database: Database) -> str | None:
        """The revision that the database is at, unless it is none of ours."""
        return history().recognise(database.run(Lane.BY_HAND, read_revisions))

    def _command(self, found: str | None) -> str:
        since = "" if found is None else f" --since {found}"
        return f"python -m go_scheduler.stores.sql.schema {self._dialect}{since}"

    def _bring_up_to_date(self, database: Database) -> None:
        found = self._find(database)
        if found == history().head:
            return
        lock = MigrationLock(database, self._dialect, length=self._lock)
        try:
            database.run(Lane.BY_HAND, self._create_lock_table)
            self._migrate_or_wait(database, lock, found)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            raise StoreError(
                f"the database's schema cannot be brought up to date: {error}; to have"
                f" it done by somebody else, see `{self._command(found)}`"
            ) from error

    def _create_lock_table(self, connection: Connection) -> None:
        with _races_are_conflicts():
            connection.execute(text(create_lock_table_sql(self._dialect)))

    def _migrate_or_wait(
        self, database: Database, lock: MigrationLock, found: str | None
    ) -> None:
        until = self._elapsed() + self._patience
        while found != history().head:
            if lock.acquire():
                with lock.kept():
                    database.run(Lane.BY_HAND, lambda each: self._climb(each, lock))
            elif self._elapsed() >= until:
                raise StoreUnavailableError(
                    f"the database's schema is being brought up to date by"
                    f" {lock.last_owner()}, which has made no progress for"
                    f" {self._patience.total_seconds():g} s"
                )
            else:
                threading.Event().wait(random.uniform(0.1, 1) * _LONGEST_PAUSE)
            if (now_found := self._find(database)) != found:
                found, until = now_found, self._elapsed() + self._patience

    def _climb(self, connection: Connection, lock: MigrationLock) -> None:
        """Take one revision after the other, while nobody else has the lock."""
        # Imported here: it takes long, and seldom is there anything to do.
        from go_scheduler.stores.migrations.operating import operations

        if self._dialect != "sqlite":
            _be_patient(connection)
        with _races_are_conflicts():
            connection.execute(text(CREATE_TABLE))
            found = history().recognise(read_revisions(connection))
            alembic = operations(connection)
            for script in history().after(found):
                script.module.upgrade(alembic)
                if not write_revision(
                    connection, script.revision, previous=found, lock=lock
                ):
                    return
                found = script.revision
        log.info("schema brought up to date: revision %s", found)


def _be_patient(connection: Connection) -> None:
    """Let statements on this connection take long; it does not return to its pool."""
    driver_connection = connection.connection.driver_connection
    assert driver_connection is not None
    driver_connection.answer_timeout = _ANSWER_TIMEOUT
    connection.detach()
    connection.execute(text(f"SET statement_timeout = '{_STEP_TIMEOUT}s'"))


@contextmanager
def _races_are_conflicts() -> Iterator[None]:
    try:
        yield
    except exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _RACES:
            raise Overtaken from error
        raise


def _check_use(database: Database) -> None:
    """Do to every table what the store does, to no row."""
    left = deque(use for table in metadata.sorted_tables for use in _uses(table))

    def check(connection: Connection) -> None:
        # Where it met a conflict, it goes on and does not begin anew.
        while left:
            connection.exec_driver_sql(left[0].sql)
            left.popleft()

    try:
        database.run(Lane.BY_HAND, check)
    except StoreUnavailableError:
        raise
    except StoreError as error:
        raise StoreError(
            f"the store has to {left[0].name}, and cannot: {error}; see to its columns"
            " and to the rights of the user"
        ) from error


class _Use(NamedTuple):
    name: str
    sql: str


def _uses(table: Table) -> Iterator[_Use]:
    # Text, for every store that is opened would compile them anew.
    name, names = table.name, table.columns.keys()
    columns, changed = ", ".join(names), ", ".join(f"{one} = {one}" for one in names)
    no_row = f"SELECT {columns} FROM {name} WHERE 1 = 0"
    yield _Use(f"SELECT from {name}", no_row)
    yield _Use(f"INSERT into {name}", f"INSERT INTO {name} ({columns}) {no_row}")
    yield _Use(f"UPDATE {name}", f"UPDATE {name} SET {changed} WHERE 1 = 0")
    yield _Use(f"DELETE from {name}", f"DELETE FROM {name} WHERE 1 = 0")


def schema_sql(dialect: str, *, since: str | None = None) -> str:
    """The SQL that creates the schema, or brings it up to date.

    Run it where the application may not change the schema itself, and open the store
    with ``migrate=False``. It does no harm when it is run again. The application's user
    needs the rights to ``SELECT``, ``INSERT``, ``UPDATE`` and ``DELETE`` on the tables
    that begin with ``task_``, and to ``SELECT`` from ``go_scheduler_schema_version``.

    Args:
        dialect: ``"cockroachdb"``, ``"postgresql"`` or ``"sqlite"``.
        since: The revision that the database is at; None if it has no schema yet.

    Returns:
        Statements that each end with a semicolon; none if it is up to date.

    Raises:
        ConfigurationError: There is no such dialect or revision.
    """
    if dialect not in DIALECTS:
        raise ConfigurationError(
            f"dialect must be one of {', '.join(DIALECTS)}, not {shown(dialect)}"
        )
    from go_scheduler.stores.migrations.operating import sql_of

    head = history().head
    if not (scripts := history().after(since)):
        return ""
    statements = [
        create_lock_table_sql(dialect),
        CREATE_TABLE,
        sql_of(scripts, dialect),
        write_revision_sql(head, previous=since),
    ]
    if dialect != "cockroachdb":  # where DDL commits whatever has begun
        statements = ["BEGIN", *statements, "COMMIT"]
    ended = [each.strip().rstrip(";") + ";" for each in statements]
    return f"-- go_scheduler, schema revision {head}\n" + "\n\n".join(ended) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the SQL."""
    parser = argparse.ArgumentParser(
        prog="python -m go_scheduler.stores.sql.schema",
        description="Print the SQL that creates or updates the schema of a store.",
    )
    parser.add_argument("dialect", choices=DIALECTS)
    parser.add_argument(
        "--since", metavar="REVISION", help="the revision that the database is at"
    )
    given = parser.parse_args(arguments)
    try:
        sql = schema_sql(given.dialect, since=given.since)
    except ConfigurationError as error:
        parser.error(str(error))
    sys.stdout.write(sql)


if __name__ == "__main__":
    main()
