"""Prints the SQL of the statements that the loops execute, to be read and copied."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
from go_scheduler.stores.postgresql.statements.by_name import statements_by_name
from go_scheduler.stores.sqlite.statements.by_name import STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SERVERS = {
    "postgresql": PostgreSQLDialect(None),
    "cockroachdb": CockroachDBDialect(None, follower_reads=False),
}
STORES = (*_SERVERS, "sqlite")


def statements_of(store: str) -> Mapping[str, str]:
    """The SQL of each statement of a kind of store, by name."""
    if (dialect := _SERVERS.get(store)) is not None:
        return {name: each.sql for name, each in statements_by_name(dialect).items()}
    return {name: str(each).strip() for name, each in STATEMENTS.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one statement, or the names of all."""
    parser = argparse.ArgumentParser(
        prog="python -m go_scheduler.stores",
        description="Print the SQL of a statement that the loops execute on a store,"
        " or the names of all.",
    )
    parser.add_argument("--store", choices=STORES, required=True)
    parser.add_argument("--show", metavar="NAME", help="the statement to print")
    given = parser.parse_args(arguments)
    statements = statements_of(given.store)
    if given.show is None:
        sys.stdout.write("\n".join([*statements, ""]))
    elif given.show in statements:
        sys.stdout.write(f"{statements[given.show]}\n")
    else:
        parser.error(
            f"no statement of {given.store} is called {given.show}; there are"
            f" {', '.join(statements)}"
        )


if __name__ == "__main__":
    main()
