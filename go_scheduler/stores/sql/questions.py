"""What the doctor asks SQL databases: PostgreSQL, CockroachDB and SQLite."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Dialect, Row, UniqueConstraint, text
from sqlalchemy.schema import CreateIndex

from go_scheduler.errors import StoreError
from go_scheduler.formatting import duration_text, shown
from go_scheduler.stores.findings import (
    AUTOVACUUM_OFF,
    INDEX_INVALID,
    INDEX_MISSING,
    LONG_TRANSACTION,
    OLD_SERVER,
    READ_ONLY,
    SCHEMA_AHEAD,
    SCHEMA_BEHIND,
    SCHEMA_MISSING,
    SCHEMA_UNKNOWN,
    SESSIONS_HIDDEN,
    TABLE_MISSING,
    well,
)
from go_scheduler.stores.migrations.history import history, read_revisions
from go_scheduler.stores.sql.tables import indexes, is_on, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from go_scheduler.stores.findings import Finding

Question: TypeAlias = "Callable[[Connection], Iterable[Finding]]"

OLDEST_POSTGRESQL = 120_000
"""PostgreSQL 12, as the server counts versions."""
OLDEST_COCKROACHDB = (24, 3)
LONG = timedelta(minutes=5)
"""A transaction that is open for longer is told."""

_POSTGRESQL = """
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::bigint AS number,
       pg_is_in_recovery() AS standby,
       current_setting('default_transaction_read_only')::boolean AS reads_only,
       current_setting('autovacuum')::boolean AS autovacuum
"""
_INDEXES = """
SELECT t.name AS table_name, c.relname AS index_name, i.indisvalid AS is_valid
  FROM unnest(CAST(:tables AS text[])) AS t(name)
  LEFT JOIN pg_index i ON i.indrelid = to_regclass(t.name)::oid
  LEFT JOIN pg_class c ON c.oid = i.indexrelid
 WHERE to_regclass(t.name) IS NOT NULL
"""
_INDEXES_OF_SQLITE = """
SELECT tbl_name AS table_name, name AS index_name, 1 AS is_valid
  FROM sqlite_master WHERE type IN ('table', 'index')
"""
_HIDDEN_SESSIONS = """
SELECT count(*) AS hidden, CAST(CURRENT_USER AS text) AS asking
  FROM pg_stat_activity
 WHERE datname = current_database() AND usename <> CURRENT_USER
   AND NOT pg_has_role(CURRENT_USER, 'pg_read_all_stats', 'MEMBER')
"""
_OLDEST_TRANSACTION = """
SELECT pid, usename, application_name, state,
       CAST(extract(epoch FROM clock_timestamp() - xact_start) AS float8) AS age
  FROM pg_stat_activity
 WHERE datname = current_database() AND xact_start IS NOT NULL
   AND pid <> pg_backend_pid() AND backend_type = 'client backend'
 ORDER BY xact_start
 LIMIT 1
"""
_OLDEST_TRANSACTION_OF_COCKROACHDB = """
SELECT t.session_id, t.application_name,
       CAST(extract(epoch FROM now()::timestamp - t.start) AS float8) AS age
  FROM crdb_internal.cluster_transactions t
 ORDER BY t.start
 LIMIT 1
"""
_MIGRATE = "go_scheduler migrate"
_REBUILD = {
    "postgresql": "REINDEX INDEX CONCURRENTLY {};",
    "cockroachdb": "DROP INDEX {}; -- and then what `go_scheduler migrate --show`"
    " prints",
}


def _rows(connection: Connection, query: str, **values: object) -> list[Row[Any]]:
    return list(connection.execute(text(query), values))


def _postgresql(connection: Connection) -> Iterator[Finding]:
    [row] = _rows(connection, _POSTGRESQL)
    if row.number < OLDEST_POSTGRESQL:
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


def _cockroachdb(connection: Connection) -> Iterator[Finding]:
    version = str(connection.scalar(text("SELECT version()")))
    found = re.search(r"v(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST_COCKROACHDB:
        yield OLD_SERVER.found(f"it is CockroachDB {found[0]}, and v24.3 is needed")
    yield well("server", version.partition(" (")[0])


def _sqlite(connection: Connection) -> Iterator[Finding]:
    version = connection.scalar(text("SELECT sqlite_version()"))
    yield well("server", f"SQLite {version}")


def _schema(connection: Connection) -> Iterator[Finding]:
    """Whether the schema is at the revision that this version needs."""
    found, head = read_revisions(connection), history().head
    if not found:
        yield SCHEMA_MISSING.found("there are no tables of go_scheduler", _MIGRATE)
    elif [*found] == [head]:
        yield well("schema", f"it is at revision {head}")
    elif len(found) == 1 and found[0] > head:
        seen = f"it is at revision {found[0]}, and {head} is known here"
        yield SCHEMA_AHEAD.found(seen)
    else:
        try:
            revision = history().recognise(found)
        except StoreError as error:
            yield SCHEMA_UNKNOWN.found(str(error))
        else:
            seen = f"it is at revision {revision}, and {head} is needed"
            yield SCHEMA_BEHIND.found(seen, _MIGRATE)


def _indexes(connection: Connection) -> Iterator[Finding]:
    """Whether all tables are there, and their indexes, and whether those are valid."""
    dialect = connection.dialect
    if dialect.name == "sqlite":
        rows = _rows(connection, _INDEXES_OF_SQLITE)
    else:
        rows = _rows(connection, _INDEXES, tables=[*metadata.tables])
    tables = {each.table_name for each in rows}
    valid = {each.index_name: each.is_valid for each in rows}
    if missing := [each for each in metadata.tables if each not in tables]:
        yield TABLE_MISSING.found(f"there is no table {', '.join(missing)}")
    well_made = 0
    for table, index, statement in _expected_indexes(dialect):
        if table not in tables:
            continue
        if index not in valid:
            yield INDEX_MISSING.found(f"{table} lacks {index}", statement)
        elif not valid[index]:
            again = _REBUILD[dialect.name].format(index)
            yield INDEX_INVALID.found(f"{index} of {table} is not valid", again)
        else:
            well_made += 1
    yield well("indexes", f"{well_made} are there and valid")


def _expected_indexes(dialect: Dialect) -> Iterator[tuple[str, str, str]]:
    """Of each index its table, its name, and the statement that makes it."""
    for each in indexes:
        if is_on(each, dialect.name):
            assert each.table is not None
            made = str(CreateIndex(each, if_not_exists=True).compile(dialect=dialect))
            if dialect.name == "postgresql":
                made = made.replace("INDEX", "INDEX CONCURRENTLY", 1)
            yield each.table.name, str(each.name), " ".join(made.split()) + ";"
    if dialect.name == "sqlite":
        # There a unique constraint is a part of the table, and cannot be dropped.
        return
    for table in metadata.sorted_tables:
        for key in table.constraints:
            if isinstance(key, UniqueConstraint):
                columns = ", ".join(each.name for each in key.columns)
                made = f"ADD CONSTRAINT {key.name} UNIQUE ({columns})"
                yield table.name, str(key.name), f"ALTER TABLE {table.name} {made};"


def _transactions(connection: Connection) -> Iterator[Finding]:
    [sessions] = _rows(connection, _HIDDEN_SESSIONS)
    if sessions.hidden:
        user = sessions.asking.replace('"', '""')
        yield SESSIONS_HIDDEN.found(
            f"what {sessions.hidden} sessions do is hidden from this user",
            f'GRANT pg_read_all_stats TO "{user}";',
        )
    yield from _judged(
        (
            f"process {row.pid} of {row.usename} ({_state(row)})",
            timedelta(seconds=row.age),
            f"SELECT pg_terminate_backend({row.pid});",
        )
        for row in _rows(connection, _OLDEST_TRANSACTION)
    )


def _state(row: Row[Any]) -> str:
    state, program = row.state or "unknown", row.application_name
    return f"{state}, {shown(str(program))}" if program else state


def _transactions_of_cockroachdb(connection: Connection) -> Iterator[Finding]:
    yield from _judged(
        (
            f"session {row.session_id} ({shown(str(row.application_name))})",
            timedelta(seconds=row.age),
            f"CANCEL SESSION '{row.session_id}';",
        )
        for row in _rows(connection, _OLDEST_TRANSACTION_OF_COCKROACHDB)
    )


def _judged(transactions: Iterable[tuple[str, timedelta, str]]) -> Iterator[Finding]:
    """Findings for the oldest one, if any: its session, its age and what ends it."""
    oldest = "none is open"
    for session, age, end in transactions:
        oldest = f"the oldest is open for {duration_text(age)}"
        if age > LONG:
            seen = f"{session} has had one open for {duration_text(age)}"
            yield LONG_TRANSACTION.found(seen, end)
    yield well("transactions", oldest)


_OF_ALL: Mapping[str, Question] = {"schema": _schema, "indexes": _indexes}
QUESTIONS: Mapping[str, Mapping[str, Question]] = {
    "postgresql": {"server": _postgresql, **_OF_ALL, "transactions": _transactions},
    "cockroachdb": {
        "server": _cockroachdb,
        **_OF_ALL,
        "transactions": _transactions_of_cockroachdb,
    },
    "sqlite": {"server": _sqlite, **_OF_ALL},
}
"""Of each engine what is asked, by what it is about."""
