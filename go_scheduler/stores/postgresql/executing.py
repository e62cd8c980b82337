"""How the statements of the PostgreSQL family are made and executed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import column, text

from go_scheduler.clock import SystemClock
from go_scheduler.stores.postgresql import statements as sql
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.sql.sweep import Sweep
from go_scheduler.stores.sql.tables import definitions, instances, nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from sqlalchemy import ColumnClause, Connection, Row
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.clock import Clock
    from go_scheduler.stores.sql.database import Database, Lane
    from go_scheduler.stores.sql.dialects import PostgreSQLDialect


class Statements:
    """Fills in statements, executes them, and knows how far the scans have come.

    Args:
        database: Where they are executed.
        clock: Used instead of the database's time, for tests.
        dialect: The engine's own words.
    """

    def __init__(
        self,
        database: Database,
        dialect: PostgreSQLDialect,
        *,
        clock: Clock | None,
    ) -> None:
        self._database = database
        self._dialect = dialect
        self._clock = clock
        self._elapsed = (clock or SystemClock()).elapsed
        now = "now()" if clock is None else "CAST(:now AS timestamptz)"
        indexes = {word: dialect.by_index(index) for word, index in sql.INDEXES.items()}
        words = {"now": now, **sql.WORDS, **indexes}
        self._words = tuple(words.items())
        self._sweeps: dict[object, Sweep] = {}

    def fill(self, template: str, **parts: object) -> str:
        """A part for ``text``, with the words of this store and its own."""
        filled = template.format(**dict(self._words), **parts)
        return filled.replace("{", "{{").replace("}", "}}")

    def text(
        self, template: str, *, returns: tuple[str, ...], **parts: str | int
    ) -> TextualSelect:
        """A whole statement; parts may be templates of words and of parts before them.

        Args:
            template: What to fill in.
            returns: The names of the columns that come back.
            **parts: Words of this statement alone.
        """
        return _made(template, returns, self._words, **parts)

    def run(
        self,
        lane: Lane,
        statement: TextualSelect,
        parameters: Mapping[str, object],
        *,
        repeatable: bool = True,
    ) -> Sequence[Row[Any]]:
        """Execute a statement and fetch what it returns, as ``Database.run``."""
        return self._database.run(
            lane,
            lambda connection: self.execute(connection, statement, parameters),
            repeatable=repeatable,
        )

    def read(
        self, lane: Lane, statement: TextualSelect, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """Execute a statement that only reads, and wait for nobody's lock."""
        return self._database.run(
            lane,
            lambda connection: self._dialect.past_locks(
                connection, lambda each: self.execute(each, statement, parameters)
            ),
        )

    def execute(
        self,
        connection: Connection,
        statement: TextualSelect,
        parameters: Mapping[str, object],
    ) -> Sequence[Row[Any]]:
        """Execute a statement on a connection and fetch what it returns."""
        if self._clock is not None:
            parameters = {**parameters, "now": self._clock.now()}
        return connection.execute(statement, parameters).all()

    def sweep(self, what: object) -> Sweep:
        """How far the scan of this name has come."""
        sweep = self._sweeps.get(what)
        if sweep is None:
            sweep = self._sweeps[what] = Sweep(self._elapsed)
        return sweep

    def scan(
        self, sweep: Sweep, look: Callable[[], Sequence[Row[Any]]], *, limit: int
    ) -> Sequence[Row[Any]]:
        """Go on with a sweep.

        Args:
            sweep: Finished if fewer rows than ``limit`` come back; begun anew if it
                fails, but for a lock.
            look: Executes the statement.
            limit: How many rows it returns at most.
        """
        try:
            rows = look()
        except BaseException as error:
            if not met_a_lock(error):
                sweep.start_over()
            raise
        if len(rows) < limit:
            sweep.finish()
        return rows


# Filled in anew each time, a statement would take as long as a row of its result.
@lru_cache(maxsize=1000)
def _made(
    template: str,
    returns: tuple[str, ...],
    words: tuple[tuple[str, str], ...],
    **parts: str | int,
) -> TextualSelect:
    known = dict(words)
    for name, part in parts.items():
        known[name] = str(part).format(**known)
    return text(template.format(**known)).columns(*map(_column, returns))


_TYPES = {
    **{each.name: each.type for each in (*definitions.c, *instances.c, *nodes.c)},
    **{sql.OF_DEFINITION + each.name: each.type for each in definitions.c},
    "place": instances.c.due_at.type,
    "now": instances.c.due_at.type,
}


def _column(name: str) -> ColumnClause[Any]:
    """A column of a result, read as the tables' column of this name is."""
    return column(name, _TYPES.get(name))
