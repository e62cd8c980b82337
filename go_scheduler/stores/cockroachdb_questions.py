"""What is asked of a CockroachDB cluster for findings; nothing here writes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.stores.findings import (
    CONTENTION,
    LEASES_ON_ONE_NODE,
    LONG_LOCK,
    LONG_TRANSACTION,
    OLD_SERVER,
    OLD_STATISTICS,
    well,
)
from go_scheduler.stores.postgresql.questions import (
    INDEXES,
    LONG,
    LONG_WAIT,
    ago,
    rows_of,
)
from go_scheduler.stores.sql.questions import (
    TABLES,
    Question,
    judged_indexes,
    named,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding

OLDEST = (24, 3)
HOT = ("task_definitions", "task_instances")
"""The tables that every firing writes to."""
MANY_ROWS = 1000
"""A table with fewer needs no statistics."""
OLD = timedelta(days=7)
MANY_CONTENTIONS = 1000

_TRANSACTIONS = """
SELECT t.session_id, t.application_name,
       CAST(extract(epoch FROM now()::timestamp - t.start) AS float8) AS age
  FROM crdb_internal.cluster_transactions t
 ORDER BY t.start
 LIMIT 1
"""
_LOCKS = """
SELECT table_name, index_name, CAST(extract(epoch FROM duration) AS float8) AS age,
       CAST(txn_id AS text) AS txn_id
  FROM crdb_internal.cluster_locks
 WHERE database_name = current_database() AND contended AND granted
   AND duration > CAST(:wait AS interval)
 ORDER BY duration DESC
 LIMIT 5
"""
_CONTENDED = """
SELECT table_name, CAST(num_contention_events AS int8) AS events
  FROM crdb_internal.cluster_contended_tables
 WHERE database_name = current_database() AND table_name = ANY(CAST(:tables AS text[]))
 ORDER BY num_contention_events DESC
"""
_RANGES = """
SELECT lease_holder, replicas, CAST(range_size_mb AS float8) AS size
  FROM [SHOW RANGES FROM TABLE {} WITH DETAILS]
"""
_STATISTICS = """
SELECT CAST(extract(epoch FROM now()::timestamp - max(created)::timestamp) AS float8)
       AS age,
       (SELECT count(*) FROM (SELECT 1 FROM {0} LIMIT :most)) AS rows
  FROM [SHOW STATISTICS FOR TABLE {0}]
"""


def judged_version(version: str) -> Iterator[Finding]:
    """What a server says that it is, and whether that is too old."""
    found = re.search(r"v(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        yield OLD_SERVER.found(f"it is CockroachDB {found[0]}, and v24.3 is needed")
    yield well("server", version.partition(" (")[0])


def judged_ranges(
    table: str, ranges: Iterable[tuple[int, Iterable[int], float]]
) -> Iterator[Finding]:
    """What the ranges of a table come to: their leaseholders, replicas and MiB."""
    leases: Counter[int] = Counter()
    nodes: set[int] = set()
    size = 0.0
    for holder, replicas, mebibytes in ranges:
        leases[holder] += 1
        nodes.update(replicas)
        size += mebibytes
    count = leases.total()
    if count > 1 and len(nodes) > 1 and len(leases) == 1:
        yield LEASES_ON_ONE_NODE.found(
            f"node {next(iter(leases))} of {len(nodes)} leads all {count} ranges of"
            f" {table}",
            f"SHOW RANGES FROM TABLE {table} WITH DETAILS;",
        )
    led = ", ".join(f"node {node}: {led}" for node, led in sorted(leases.items()))
    yield well("ranges", f"{table} has {count}, of {size:,.0f} MiB; led by {led}")


def _server(connection: Connection) -> Iterator[Finding]:
    yield from judged_version(str(connection.scalar(text("SELECT version()"))))


def _indexes(connection: Connection) -> Iterator[Finding]:
    found = rows_of(connection, INDEXES, tables=list(TABLES))
    rebuild = "DROP INDEX {}; -- and then what `go_scheduler migrate --show` prints"
    yield from judged_indexes(found, connection.dialect, rebuild=rebuild)


def _transactions(connection: Connection) -> Iterator[Finding]:
    oldest = "none is open"
    for row in rows_of(connection, _TRANSACTIONS):
        oldest = f"the oldest is open for {ago(row.age)}"
        if row.age > LONG.total_seconds():
            yield LONG_TRANSACTION.found(
                f"session {row.session_id} ({named(row.application_name)}) has had one"
                f" open for {ago(row.age)}",
                f"CANCEL SESSION '{row.session_id}';",
            )
    yield well("transactions", oldest)


def _locks(connection: Connection) -> Iterator[Finding]:
    for row in rows_of(connection, _LOCKS, wait=f"{LONG_WAIT.total_seconds()}s"):
        yield LONG_LOCK.found(
            f"transaction {row.txn_id} has had a row of {row.table_name} locked for"
            f" {ago(row.age)}, and others wait for it",
            "SELECT session_id FROM crdb_internal.cluster_transactions WHERE id ="
            f" '{row.txn_id}'; -- and CANCEL SESSION",
        )


def _contention(connection: Connection) -> Iterator[Finding]:
    rows = rows_of(connection, _CONTENDED, tables=list(TABLES))
    for row in rows:
        if row.events > MANY_CONTENTIONS:
            yield CONTENTION.found(
                f"{row.table_name} was contended {row.events:,} times",
                "SELECT * FROM crdb_internal.transaction_contention_events WHERE"
                f" table_name = '{row.table_name}' ORDER BY contention_duration DESC"
                " LIMIT 10;",
            )
    yield well("contention", f"{sum(row.events for row in rows):,} waits are known")


def _ranges(connection: Connection) -> Iterator[Finding]:
    for table in HOT:
        rows = rows_of(connection, _RANGES.format(table))
        yield from judged_ranges(
            table, ((each.lease_holder, each.replicas, each.size) for each in rows)
        )


def _statistics(connection: Connection) -> Iterator[Finding]:
    for table in HOT:
        [row] = rows_of(connection, _STATISTICS.format(table), most=MANY_ROWS)
        age = "never made" if row.age is None else f"made {ago(row.age)} ago"
        if row.rows >= MANY_ROWS and (row.age is None or _is_old(row.age)):
            yield OLD_STATISTICS.found(
                f"those of {table} were {age}", f"ANALYZE {table};"
            )
        else:
            yield well("statistics", f"those of {table} were {age}")


def _is_old(seconds: float) -> bool:
    return seconds > OLD.total_seconds()


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
    "transactions": _transactions,
    "locks": _locks,
    "contention": _contention,
    "ranges": _ranges,
    "statistics": _statistics,
}
"""All of them, by what they are about."""
