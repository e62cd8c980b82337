"""Prints the statements that an engine is sent: ``python -m go_scheduler.stores.sql``.

python -m go_scheduler.stores.sql postgresql
python -m go_scheduler.stores.sql sqlite finish
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.executing import PostgreSQLDialect, sql_of
from go_scheduler.stores.sql import (
    claims,
    cleanup,
    edits,
    firing,
    inserts,
    puts,
    reviewing,
    runs,
)
from go_scheduler.stores.sql.statement import Statement, Write
from go_scheduler.stores.sqlite.executing import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from go_scheduler.stores.sql.tables import Dialect

ENGINES = ("postgresql", "cockroachdb", "sqlite")


def statements(dialect: Dialect) -> Mapping[str, Statement]:
    """All by name; of claims, the one of one place."""
    how = {"shards": dialect.shards, "reads_rows": dialect.reads_rows}
    found = {
        "claim": claims.claim((0,), **how, swept=True),
        "claim_lapsed": claims.claim_lapsed(dialect.shards),
        "heads": claims.heads(1, 3, shards=dialect.shards, lapsed=True),
        "due": firing.due(dialect.shards, goes_on=False),
        "due_after": firing.due(dialect.shards, goes_on=True),
        "find_ended": cleanup.find_instances(dialect.shards, failed=False),
        "find_failed": cleanup.find_instances(dialect.shards, failed=True),
        "find_completed": cleanup.find_definitions(dialect.shards, "completed_at"),
        "find_deleted": cleanup.find_definitions(dialect.shards, "deleted_at"),
        "find_remembered": cleanup.find_remembered(dialect.shards),
        "add": inserts.add(starts=False),
        "add_and_start": inserts.add(starts=True),
    }
    loops = (runs, claims, firing, cleanup)
    for module in (*loops, inserts, puts, edits, reviewing):
        for name, value in vars(module).items():
            if isinstance(value, Statement | Write):
                named = value.statement if isinstance(value, Write) else value
                found[name.lower().strip("_")] = named
    return found


def texts(engine: str) -> Iterator[tuple[str, str]]:
    """Each statement of an engine with its name, as it is sent."""
    dialect = PostgreSQLDialect(None)
    if engine == "cockroachdb":
        # Its package need not be installed for the others.
        from go_scheduler.stores.cockroachdb import CockroachDBDialect

        dialect = CockroachDBDialect(None, follower_reads=False)
    for name, statement in sorted(statements(dialect).items()):
        if engine == "sqlite":
            steps = [each.sql for each in steps_of(statement) if each.sql is not None]
            yield name, ";\n\n".join(steps)
        else:
            yield name, sql_of(statement, dialect)


def main() -> None:
    """Print those whose names begin so, or all."""
    parser = argparse.ArgumentParser(prog="python -m go_scheduler.stores.sql")
    parser.add_argument("engine", choices=ENGINES, help="whose words are shown")
    parser.add_argument("name", nargs="?", default="", help="how names begin")
    given = parser.parse_args()
    for name, text in texts(given.engine):
        if name.startswith(given.name):
            sys.stdout.write(f"-- {name}\n{text};\n\n")


if __name__ == "__main__":
    main()
