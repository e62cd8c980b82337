"""How the statements of the PostgreSQL family are made and executed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Integer, bindparam, column, text
from sqlalchemy.dialects.postgresql import psycopg

from go_scheduler.clock import SystemClock
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.postgresql.notices import Notices
from go_scheduler.stores.postgresql.statements.by_name import (
    in_words_of,
    statements_by_name,
)
from go_scheduler.stores.postgresql.statements.claims import heads
from go_scheduler.stores.postgresql.statements.statement import (
    OF_CONTENTS,
    OF_DEFINITION,
)
from go_scheduler.stores.sql.fetching import Columns
from go_scheduler.stores.sql.sweep import Sweep
from go_scheduler.stores.sql.tables import contents, definitions, instances, nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Row, TextClause

    from go_scheduler.clock import Clock
    from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
    from go_scheduler.stores.postgresql.statements.statement import Statement
    from go_scheduler.stores.sql.database import Database, Lane


def understands(connection: Connection) -> bool:
    """Whether ``execute_plainly`` does on a connection, which may be the user's."""
    return connection.dialect.driver == "psycopg"


class Statements:
    """Executes statements by their names, and knows how far the scans have come.

    Args:
        database: Where they are executed.
        dialect: The engine's own words.
        clock: Used instead of the database's time, for tests.

    Attributes:
        notices: Which of them notify other processes.
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
        by_name = statements_by_name(dialect)
        self._made = {name: _made(each, clock) for name, each in by_name.items()}
        self._plain = {name: _plain(by_name[name], clock) for name in _PLAIN}
        self._sweeps: dict[object, Sweep] = {}
        self.notices = Notices(self._elapsed)

    def heads(self, queues: int, known: Sequence[int], *, looks: bool) -> str:
        """The name of the statement that looks where to claim in so many queues.

        Args:
            queues: So many.
            known: The classes of priority.
            looks: Whether it looks for other classes, too.
        """
        name = f"heads of {queues} by {known}{' and others' * looks}"
        if name not in self._made:
            statement = heads(queues, self._dialect.shards, known, looks=looks)
            worded = in_words_of(self._dialect, statement)
            self._made[name] = _made(worded, self._clock)
        return name

    def run(
        self,
        lane: Lane,
        name: str,
        parameters: Mapping[str, object],
        *,
        repeatable: bool = True,
    ) -> Sequence[Row[Any]]:
        """Execute a statement and fetch what it returns, as ``Database.run``."""
        return self._database.run(
            lane,
            lambda connection: self.execute(connection, name, parameters),
            repeatable=repeatable,
        )

    def read(
        self, lane: Lane, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """Execute a statement that only reads, and wait for nobody's lock."""
        return self._database.run(
            lane,
            lambda connection: self._dialect.past_locks(
                connection, lambda each: self.execute(each, name, parameters)
            ),
        )

    def execute(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """Execute a statement on a connection and fetch what it returns."""
        if self._clock is not None:
            parameters = {**parameters, "now": self._clock.now()}
        made = self._made[name]
        return made.columns.read(connection.execute(made.text, parameters).all())

    def execute_plainly(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Any]:
        """Execute one of few statements by the driver's own means, in half the time.

        Returns:
            As ``execute``.
        """
        if self._clock is not None:
            parameters = {**parameters, "now": self._clock.now()}
        found = connection.exec_driver_sql(self._plain[name], parameters).all()
        return self._made[name].columns.read(found)

    def sweep(self, scan: object) -> Sweep:
        """How far the scan of this name has come."""
        sweep = self._sweeps.get(scan)
        if sweep is None:
            sweep = self._sweeps[scan] = Sweep(self._elapsed)
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


class _Made(NamedTuple):
    """A statement as SQLAlchemy takes it, and what comes back."""

    text: TextClause
    columns: Columns


# CockroachDB's gives values as this one does.
_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call] # it has no types
_PARAMETER = re.compile(r":(\w+)")
_TYPES = {
    **{each.name: each.type for each in (*definitions.c, *instances.c, *nodes.c)},
    **{OF_DEFINITION + each.name: each.type for each in definitions.c},
    **{OF_CONTENTS + each.name: each.type for each in contents.c},
    "made_id": instances.c.id.type,
    "place": instances.c.due_at.type,
    "now": instances.c.due_at.type,
    **dict.fromkeys(("began", "taken_at", "due_by"), instances.c.due_at.type),
}


_PLAIN = ("insert_new", "insert_and_start", "add", "add_and_start")


def _made(statement: Statement, clock: Clock | None) -> _Made:
    return _make(_by(clock, statement.sql), statement.returns)


@lru_cache(maxsize=500)
def _make(sql: str, returns: tuple[str, ...]) -> _Made:
    """Make it once, however many stores are opened; none of it is a connection's."""
    made = text(sql)
    if ":limit" in sql:
        # A limit is written out: CockroachDB pushes no unknown one down to a scan.
        limit = bindparam("limit", type_=Integer(), literal_execute=True)
        made = made.bindparams(limit)
    columns = (column(name, _TYPES.get(name)) for name in returns)
    return _Made(made, Columns(columns, _DIALECT))


def _plain(statement: Statement, clock: Clock | None) -> str:
    """A statement as the driver takes it."""
    return _PARAMETER.sub(r"%(\1)s", _by(clock, statement.sql))


def _by(clock: Clock | None, sql: str) -> str:
    """A statement that goes by a clock's time, if there is one."""
    return sql if clock is None else sql.replace("now()", "CAST(:now AS timestamptz)")
