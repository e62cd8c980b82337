"""Questions of the doctor to a CockroachDB cluster. They only read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.formatting import duration_text
from go_scheduler.stores.findings import LONG_TRANSACTION, OLD_SERVER, well
from go_scheduler.stores.postgresql.questions import INDEXES, LONG, rows_of
from go_scheduler.stores.sql.questions import (
    TABLES,
    Question,
    judged_indexes,
    named,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding

OLDEST = (24, 3)

_TRANSACTIONS = """
SELECT t.session_id, t.application_name,
       CAST(extract(epoch FROM now()::timestamp - t.start) AS float8) AS age
  FROM crdb_internal.cluster_transactions t
 ORDER BY t.start
 LIMIT 1
"""


def _server(connection: Connection) -> Iterator[Finding]:
    version = str(connection.scalar(text("SELECT version()")))
    found = re.search(r"v(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        yield OLD_SERVER.found(f"it is CockroachDB {found[0]}, and v24.3 is needed")
    yield well("server", version.partition(" (")[0])


def _indexes(connection: Connection) -> Iterator[Finding]:
    found = rows_of(connection, INDEXES, tables=list(TABLES))
    rebuild = "DROP INDEX {}; -- and then what `go_scheduler migrate --show` prints"
    yield from judged_indexes(found, connection.dialect, rebuild=rebuild)


def _transactions(connection: Connection) -> Iterator[Finding]:
    oldest = "none is open"
    for row in rows_of(connection, _TRANSACTIONS):
        age = timedelta(seconds=row.age)
        oldest = f"the oldest is open for {duration_text(age)}"
        if age > LONG:
            yield LONG_TRANSACTION.found(
                f"session {row.session_id} ({named(row.application_name)}) has had one"
                f" open for {duration_text(age)}",
                f"CANCEL SESSION '{row.session_id}';",
            )
    yield well("transactions", oldest)


QUESTIONS: Mapping[str, Question] = {
    "server": _server,
    "schema": schema,
    "indexes": _indexes,
    "transactions": _transactions,
}
"""All of them, by what they are about."""
