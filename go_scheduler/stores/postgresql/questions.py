"""What is asked of a PostgreSQL server for findings; nothing here writes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from go_scheduler.stores.findings import (
    AUTOVACUUM_OFF,
    DEAD_ROWS,
    LONG_LOCK,
    LONG_TRANSACTION,
    NEVER_ANALYZED,
    OLD_SERVER,
    PREPARED_TRANSACTION,
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
    literal,
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
    """Read within a transaction of a kind."""
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
MANY_DEAD = 20_000
MANY_LIVE = 10_000
LONG = timedelta(minutes=5)
"""A transaction that is open for longer is told."""
LONG_WAIT = timedelta(seconds=5)

_SERVER = """
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::bigint AS number,
       pg_is_in_recovery() AS standby,
       current_setting('default_transaction_read_only')::boolean AS reads_only
"""
INDEXES = """
SELECT t.name, to_regclass(t.name) IS NOT NULL, c.relname, i.indisvalid
  FROM unnest(CAST(:tables AS text[])) AS t(name)
  LEFT JOIN pg_index i ON i.indrelid = to_regclass(t.name)::oid
  LEFT JOIN pg_class c ON c.oid = i.indexrelid
"""
_ROWS = """
SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
       pg_total_relation_size(s.relid) AS size,
       CAST(extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))
            AS float8) AS vacuumed,
       CAST(extract(epoch FROM now() - greatest(s.last_analyze, s.last_autoanalyze))
            AS float8) AS analyzed
  FROM pg_stat_user_tables s
  JOIN unnest(CAST(:tables AS text[])) AS t(name) ON to_regclass(t.name)::oid = s.relid
 ORDER BY s.relname
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
_PREPARED = """
SELECT gid, owner,
       CAST(extract(epoch FROM clock_timestamp() - prepared) AS float8) AS age
  FROM pg_prepared_xacts
 WHERE database = current_database()
 ORDER BY prepared
 LIMIT 5
"""
_WAITING = """
SELECT w.pid AS waiting,
       CAST(extract(epoch FROM clock_timestamp() - w.query_start) AS float8) AS age,
       b.pid, b.usename, b.application_name, b.state
  FROM pg_stat_activity w
  JOIN pg_stat_activity b ON b.pid = ANY(pg_blocking_pids(w.pid))
 WHERE w.datname = current_database() AND w.wait_event_type = 'Lock'
   AND w.query_start < clock_timestamp() - CAST(:wait AS interval)
 ORDER BY w.query_start
 LIMIT 5
"""
_WHOLE = """
SELECT DISTINCT t.name, l.mode, a.pid, a.usename, a.application_name, a.state,
       CAST(extract(epoch FROM clock_timestamp() - a.xact_start) AS float8) AS age
  FROM unnest(CAST(:tables AS text[])) AS t(name)
  JOIN pg_locks l ON l.relation = to_regclass(t.name)::oid
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.granted AND a.xact_start < clock_timestamp() - CAST(:wait AS interval)
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                  'AccessExclusiveLock')
 ORDER BY t.name
 LIMIT 5
"""


def rows_of(connection: Connection, query: str, **values: object) -> list[Row[Any]]:
    """What a query answers."""
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
    yield well("server", f"PostgreSQL {row.version}")


def _dead_rows(connection: Connection) -> Iterator[Finding]:
    if not connection.scalar(text("SELECT current_setting('autovacuum')::boolean")):
        yield AUTOVACUUM_OFF.found(
            "autovacuum is off",
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();",
        )
    size = dead = 0
    for row in rows_of(connection, _ROWS, tables=list(TABLES)):
        size, dead = size + row.size, dead + row.dead
        if row.dead > max(MANY_DEAD, row.live // 2):
            vacuumed = "never" if row.vacuumed is None else f"{ago(row.vacuumed)} ago"
            yield DEAD_ROWS.found(
                f"{row.name} has {row.dead:,} dead rows beside {row.live:,}, and was"
                f" vacuumed {vacuumed}",
                f"VACUUM (ANALYZE) {row.name};",
            )
        if row.analyzed is None and row.live > MANY_LIVE:
            yield NEVER_ANALYZED.found(
                f"{row.name} has {row.live:,} rows, and was never analyzed",
                f"ANALYZE {row.name};",
            )
    yield well("rows", f"the tables take {size / 2**20:,.0f} MiB; {dead:,} dead rows")


def _transactions(connection: Connection) -> Iterator[Finding]:
    [sessions] = rows_of(connection, _SESSIONS)
    if sessions.hidden:
        yield SESSIONS_HIDDEN.found(
            f"what {sessions.hidden} sessions do is hidden from this user",
            f"GRANT pg_read_all_stats TO {quoted(sessions.asking)};",
        )
    oldest = "none is open"
    for row in rows_of(connection, _TRANSACTIONS):
        oldest = f"the oldest is open for {ago(row.age)}"
        if row.age > LONG.total_seconds():
            yield LONG_TRANSACTION.found(
                f"{_session(row)} has had one open for {ago(row.age)}", _end(row)
            )
    for row in rows_of(connection, _PREPARED):
        if row.age > LONG.total_seconds():
            yield PREPARED_TRANSACTION.found(
                f"{named(row.gid)} of {row.owner} was prepared {ago(row.age)} ago",
                f"ROLLBACK PREPARED {literal(row.gid)};",
            )
    yield well("transactions", oldest)


def _locks(connection: Connection) -> Iterator[Finding]:
    waits = f"{LONG_WAIT.total_seconds()}s"
    for row in rows_of(connection, _WAITING, wait=waits):
        yield LONG_LOCK.found(
            f"process {row.waiting} has waited {ago(row.age)} for {_session(row)}",
            _end(row),
        )
    for row in rows_of(connection, _WHOLE, wait=waits, tables=list(TABLES)):
        yield LONG_LOCK.found(
            f"{_session(row)} has had all of {row.name} locked ({row.mode}) for"
            f" {ago(row.age)}",
            _end(row),
        )


def _session(row: Row[Any]) -> str:
    program = f", {named(row.application_name)}" if row.application_name else ""
    return f"process {row.pid} of {row.usename} ({row.state or 'unknown'}{program})"


def _end(row: Row[Any]) -> str:
    return f"SELECT pg_terminate_backend({row.pid});"


def ago(seconds: float) -> str:
    """A duration as people read it, in whole seconds."""
    return str(timedelta(seconds=round(seconds)))


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
    "dead rows": _dead_rows,
    "transactions": _transactions,
    "locks": _locks,
}
"""All of them, by what they are about."""
