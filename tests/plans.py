"""How the statements of a store are carried out, as the server itself explains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import ClientCursor, sql
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql import PostgreSQLStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.stores.sql.statements import Statements


@dataclass(frozen=True)
class Scan:
    """One way in which a plan reads a table.

    Attributes:
        table: What it reads.
        index: The index by which it does; None: none.
        rows: How many rows it looked at.
    """

    table: str
    index: str | None
    rows: float


class ExplainingPostgreSQLStore(PostgreSQLStore):
    """Has each statement of the loops explained before it is executed.

    Attributes:
        scans: Of each statement since the last ``clear()``, what its plan reads.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.scans: list[Scan] = []
        _watch(
            self._statements,
            lambda *executed: self.scans.extend(_scans(_explain(*executed))),
        )


class ExplainingCockroachDBStore(CockroachDBStore):
    """The same on CockroachDB.

    Attributes:
        plans: The text of each plan.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.plans: list[str] = []
        _watch(
            self._statements,
            lambda *executed: self.plans.append(_explained_text(*executed)),
        )


def _watch(
    statements: Statements,
    show: Callable[[Connection, TextualSelect, Mapping[str, object]], None],
) -> None:
    """Show each statement, with what executes it, before it is executed."""
    execute = statements.execute

    def shown(
        connection: Connection,
        statement: TextualSelect,
        parameters: Mapping[str, object],
    ) -> Sequence[Row[Any]]:
        show(connection, statement, parameters)
        return execute(connection, statement, parameters)

    statements.execute = shown  # type: ignore[method-assign]


def _explained_text(
    connection: Connection, statement: TextualSelect, parameters: Mapping[str, object]
) -> str:
    driver = connection.connection.driver_connection
    assert driver is not None
    compiled = str(statement.compile(dialect=connection.dialect))
    rows = ClientCursor(driver).execute(f"EXPLAIN {compiled}".encode(), parameters)
    return "\n".join(row[0] for row in rows)


def _explain(
    connection: Connection, statement: TextualSelect, parameters: Mapping[str, object]
) -> Mapping[str, Any]:
    """Execute a statement as a prepared one, under this connection's settings.

    What it changes is rolled back. ``EXPLAIN`` of the statement itself would always
    make a plan for its values.
    """
    driver = connection.connection.driver_connection
    assert driver is not None
    query = PostgresQuery(Transformer(driver))
    query.convert(str(statement.compile(dialect=connection.dialect)), parameters)
    values = sql.SQL(", ").join(
        sql.Literal(parameters[name]) for name in query._order or ()
    )
    with driver.transaction(force_rollback=True):
        driver.execute(b"PREPARE explained AS " + query.query, prepare=False)
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE explained ({})")
        [[[plan]]] = driver.execute(explain.format(values), prepare=False).fetchall()
        driver.execute(b"DEALLOCATE explained", prepare=False)
    root: Mapping[str, Any] = plan["Plan"]
    return root


def _scans(node: Mapping[str, Any]) -> Iterator[Scan]:
    if "Scan" in node["Node Type"] and (
        "Relation Name" in node or "Index Name" in node
    ):
        looked_at = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield Scan(
            table=node.get("Relation Name", ""),
            index=node.get("Index Name"),
            rows=looked_at * node["Actual Loops"],
        )
    for part in node.get("Plans", ()):
        yield from _scans(part)
