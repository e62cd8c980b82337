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
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row
    from sqlalchemy.sql.selectable import TextualSelect


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

    scans: list[Scan]

    def _execute(
        self,
        connection: Connection,
        statement: TextualSelect,
        parameters: Mapping[str, object],
    ) -> Sequence[Row[Any]]:
        self.scans += _scans(_explain(connection, statement, parameters))
        return super()._execute(connection, statement, parameters)


class ExplainingCockroachDBStore(CockroachDBStore):
    """The same on CockroachDB.

    Attributes:
        plans: The text of each plan.
    """

    plans: list[str]

    def _execute(
        self,
        connection: Connection,
        statement: TextualSelect,
        parameters: Mapping[str, object],
    ) -> Sequence[Row[Any]]:
        driver = connection.connection.driver_connection
        assert driver is not None
        compiled = str(statement.compile(dialect=connection.dialect))
        rows = ClientCursor(driver).execute(f"EXPLAIN {compiled}".encode(), parameters)
        self.plans.append("\n".join(row[0] for row in rows))
        return super()._execute(connection, statement, parameters)


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
