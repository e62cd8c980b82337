"""How the statements of a store are carried out, as the server itself explains them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg import ClientCursor, sql
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer
from psycopg.errors import LockNotAvailable
from sqlalchemy import event

from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.rows import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import psycopg
    from sqlalchemy import Connection


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
    """Has every statement explained before it is executed.

    Attributes:
        scans: Of each statement since the last ``clear()``, what its plan reads.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.scans: list[Scan] = []

    def initialize(self) -> None:
        """Watch from then on."""
        super().initialize()
        _watch(self, lambda *executed: self.scans.extend(_scans(_explain(*executed))))


class ExplainingCockroachDBStore(CockroachDBStore):
    """The same on CockroachDB.

    Attributes:
        plans: The text of each plan.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.plans: list[str] = []

    def initialize(self) -> None:
        """Watch from then on."""
        super().initialize()
        _watch(self, lambda *executed: self.plans.append(_explained_text(*executed)))


def _watch(
    store: PostgreSQLStore,
    show: Callable[[psycopg.Connection, str, Mapping[str, Any]], object],
) -> None:
    """Show each statement, with what executes it, before it is executed."""

    def shown(
        connection: Connection,
        cursor: object,
        statement: str,
        parameters: Any,
        context: object,
        executemany: bool,
    ) -> None:
        driver: Any = connection.connection.driver_connection
        # What settles a store reads all there is.
        settles = statement.startswith("SELECT (SELECT count(*)")
        planned = statement.lstrip().startswith(_PLANNED) and not settles
        # What meets a lock is executed again, and shown then.
        with suppress(LockNotAvailable):
            if planned:
                show(driver, statement, _in_words(parameters))

    for engine in store._database._engines.values():
        event.listen(engine, "before_cursor_execute", shown)


def _in_words(parameters: Any) -> Any:
    """As literals, for what prepares a statement by itself."""
    return {
        name: list(map(_in_word, each)) if isinstance(each, tuple) else each
        for name, each in dict(parameters or {}).items()
    }


def _in_word(value: object) -> object:
    if isinstance(value, timedelta):
        return to_microseconds(value)
    return str.__str__(value) if isinstance(value, str) else value


# For an INSERT of values there is nothing to choose.
_PLANNED = ("SELECT", "WITH", "UPDATE", "DELETE")


def _explained_text(
    driver: psycopg.Connection, statement: str, parameters: Mapping[str, Any]
) -> str:
    """Under this connection's settings, which may be to make plans for any values."""
    [(mode,)] = driver.execute("SHOW plan_cache_mode", prepare=False).fetchall()
    if mode == "force_generic_plan":
        explain = sql.SQL("EXPLAIN ANALYZE EXECUTE {}")
        rows = _executed(driver, statement, parameters, explain)
    else:
        text = f"EXPLAIN {statement}".encode()
        rows = ClientCursor(driver).execute(text, parameters).fetchall()
    return "\n".join([statement, *(row[0] for row in rows)])


def _explain(
    driver: psycopg.Connection, statement: str, parameters: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Under this connection's settings, with how many rows were looked at."""
    explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {}")
    [[[plan]]] = _executed(driver, statement, parameters, explain)
    root: Mapping[str, Any] = plan["Plan"]
    return root


def _executed(
    driver: psycopg.Connection,
    statement: str,
    parameters: Mapping[str, Any],
    explain: sql.SQL,
) -> Sequence[tuple[Any, ...]]:
    """Explain a statement as a prepared one, and roll back what it has changed.

    ``EXPLAIN`` of the statement itself would always make a plan for its values.
    """
    query = PostgresQuery(Transformer(driver))
    query.convert(statement, parameters)
    names = query._order or ()
    values: sql.Composable = sql.SQL(", ").join(
        sql.Literal(parameters[name]) for name in names
    )
    if names:
        values = sql.SQL("({})").format(values)
    # The driver forgets all of them now and then, but not always.
    name = sql.Identifier(f"explained_{uuid4().hex}")
    prepare = sql.SQL("PREPARE {} AS ").format(name).as_bytes() + query.query
    driver.execute(prepare, prepare=False)
    with driver.transaction(force_rollback=True):
        execute = explain.format(sql.Composed([name, values]))
        return driver.execute(execute, prepare=False).fetchall()


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
