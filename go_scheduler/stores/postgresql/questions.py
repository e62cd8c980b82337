"""Questions of the doctor to a PostgreSQL server. They only read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from go_scheduler.formatting import duration_text
from go_scheduler.stores.findings import (
    AUTOVACUUM_OFF,
    LONG_TRANSACTION,
    OLD_SERVER,
    READ_ONLY,
    SESSIONS_HIDDEN,
    well,
)
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import (
    TABLES,
    Question,
    answers,
    judged_indexes,
    named,
    quoted,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.tables import Read


def within(
    kind: str, connection: Connection, read: Callable[[Connection], Read]
) -> Read:
    """Run a function within a transaction of a kind."""
    connection.exec_driver_sql(f"BEGIN {kind}")
    try:
        found = read(connection)
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
        raise
    # COMMIT also where nothing was written: after a ROLLBACK psycopg would prepare
    # every statement anew.
    connection.exec_driver_sql("COMMIT")
    return found


LONGEST = 5
"""Seconds that one statement may take."""


def examined(
    database: Database, questions: Mapping[str, Question]
) -> Sequence[Finding]:
    """The answers to all questions.

    Raises:
        StoreUnavailableError: The server cannot be reached.
    """
    database.run(Lane.BY_HAND, lambda each: each.exec_driver_sql("SELECT 1").all())

    def ask(read: Callable[[Connection], list[Finding]]) -> list[Finding]:
        def bounded(connection: Connection) -> list[Finding]:
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{LONGEST}s'")
            return read(connection)

        return database.run(
            Lane.BY_HAND, lambda each: within("READ ONLY", each, bounded)
        )

    return list(answers(questions, ask))


OLDEST = 120_000
"""PostgreSQL 12, as the server counts versions."""
LONG = timedelta(minutes=5)
"""A transaction that is open for longer is told."""

_SERVER = """
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::bigint AS number,
       pg_is_in_recovery() AS standby,
       current_setting('default_transaction_read_only')::boolean AS reads_only,
       current_setting('autovacuum')::boolean AS autovacuum
"""
INDEXES = """
SELECT t.name, to_regclass(t.name) IS NOT NULL, c.relname, i.indisvalid
  FROM unnest(CAST(:tables AS text[])) AS t(name)
  LEFT JOIN pg_index i ON i.indrelid = to_regclass(t.name)::oid
  LEFT JOIN pg_class c ON c.oid = i.indexrelid
"""
_SESSIONS = """
SELECT count(*) AS hidden, CAST(CURRENT_USER AS text) AS asking
  FROM pg_stat_activity
 WHERE datname = current_database() AND usename <> CURRENT_USER
   AND NOT pg_has_role(CURRENT_USER, 'pg_read_all_stats', 'MEMBER')
"""
_TRANSACTIONS = """
SELECT pid, usename, application_name, state,
       CAST(extract(epoch FROM clock_timestamp() - xact_start) AS float8) AS age
  FROM pg_stat_activity
 WHERE datname = current_database() AND xact_start IS NOT NULL
   AND pid <> pg_backend_pid() AND backend_type = 'client backend'
 ORDER BY xact_start
 LIMIT 1
"""


def rows_of(connection: Connection, query: str, **values: object) -> list[Row[Any]]:
    """The rows of a query."""
    return list(connection.execute(text(query), values))


def _indexes(connection: Connection) -> Iterator[Finding]:
    """Whether tables and indexes are there."""
    found = rows_of(connection, INDEXES, tables=list(TABLES))
    rebuild = "REINDEX INDEX CONCURRENTLY {};"
    yield from judged_indexes(found, connection.dialect, rebuild=rebuild)


def _server(connection: Connection) -> Iterator[Finding]:
    [row] = rows_of(connection, _SERVER)
    if row.number < OLDEST:
        yield OLD_SERVER.found(f"it is PostgreSQL {row.version}, and 12 is needed")
    if row.standby or row.reads_only:
        what = "a standby" if row.standby else "set to take no writes"
        yield READ_ONLY.found(f"the server is {what}")
    if not row.autovacuum:
        yield AUTOVACUUM_OFF.found(
            "autovacuum is off",
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();",
        )
    yield well("server", f"PostgreSQL {row.version}")


def _transactions(connection: Connection) -> Iterator[Finding]:
    [sessions] = rows_of(connection, _SESSIONS)
    if sessions.hidden:
        yield SESSIONS_HIDDEN.found(
            f"what {sessions.hidden} sessions do is hidden from this user",
            f"GRANT pg_read_all_stats TO {quoted(sessions.asking)};",
        )
    oldest = "none is open"
    for row in rows_of(connection, _TRANSACTIONS):
        age = timedelta(seconds=row.age)
        oldest = f"the oldest is open for {duration_text(age)}"
        if age > LONG:
            yield LONG_TRANSACTION.found(
                f"{_session(row)} has had one open for {duration_text(age)}",
                f"SELECT pg_terminate_backend({row.pid});",
            )
    yield well("transactions", oldest)


def _session(row: Row[Any]) -> str:
    program = f", {named(row.application_name)}" if row.application_name else ""
    return f"process {row.pid} of {row.usename} ({row.state or 'unknown'}{program})"


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
    "transactions": _transactions,
}
"""All of them, by what they are about."""
