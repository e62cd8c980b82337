"""The store of all SQL engines.

What the loops call stands in ``firing``, ``claims``, ``runs``, ``reviewing`` and
``cleanup``. What users call besides is in ``puts``, ``edits``, ``inserts`` and
``views``. Each module has its statements, and the methods that send them. In a
transaction of the user's they are the same: see ``join``.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from go_scheduler.clock import Clock, SystemClock
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.stores.base import JoinedStore, TransactionalStore
from go_scheduler.stores.sql.claims import SQLClaims
from go_scheduler.stores.sql.cleanup import SHARDS, SQLCleanup, SQLNodes
from go_scheduler.stores.sql.database import Classes, Database, Lane, Result
from go_scheduler.stores.sql.firing import SQLFiring
from go_scheduler.stores.sql.inserts import SQLInserts
from go_scheduler.stores.sql.puts import SQLPuts
from go_scheduler.stores.sql.reader import Reader
from go_scheduler.stores.sql.reviewing import SQLReviewing
from go_scheduler.stores.sql.runs import SQLRuns
from go_scheduler.stores.sql.tables import Dialect, definitions
from go_scheduler.stores.sql.views import BOTH, SQLReads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from go_scheduler.stores.messages import (
        RunOutcome,
    )
    from go_scheduler.stores.sql.schema import Schema
    from go_scheduler.stores.sql.statement import Statements


class SQLStore(
    SQLPuts,
    SQLInserts,
    SQLClaims,
    SQLFiring,
    SQLRuns,
    SQLCleanup,
    SQLReads,
    SQLReviewing,
    SQLNodes,
    TransactionalStore,
):
    """Keeps definitions and instances in a database."""

    def __init__(
        self,
        database: Database,
        dialect: Dialect,
        statements: Statements,
        *,
        schema: Schema,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(clock)
        self._database = database
        self._dialect = dialect
        self._statements = statements
        self.shards = dialect.shards
        self._schema = schema
        self._reader = Reader(database, dialect)
        self._both = dialect.looked_up(BOTH, definitions, "task_definitions_pkey")
        self._reviewed = {}
        self._elapsed = (clock or SystemClock()).elapsed
        self._classes = Classes(self._elapsed)
        self._careful = {}
        self._limited = {}

    @property
    def retries(self) -> Mapping[str, int]:
        """How many statements were repeated, by the code of the error they met."""
        return dict(self._database.repeats)

    def initialize(self) -> None:
        """Bring the schema up to date, or check that it is."""
        self._schema.prepare(self._database)
        made = self.keep_setting(SHARDS, mine := str(self._dialect.shards))
        if made != mine:
            raise StoreError(
                f"the database was made with {made} shards, which it keeps for good,"
                f" and this version of go_scheduler has {mine}: use a version that has"
                f" {made}, or another database"
            )

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._database.close()

    def now(self) -> datetime:
        """The time of the clock that was passed, else the database's."""
        now, answered = self._database.run(Lane.BY_TIME, self._ask_for_time)
        # What has passed since the answer has passed in the database as well.
        return now + (self._elapsed() - answered)

    def _ask_for_time(self, connection: Connection) -> tuple[datetime, timedelta]:
        return self._dialect.now(connection), self._elapsed()

    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        """Take part in a transaction of the user's."""
        joined = self._joined(connection)
        if committed is not None:
            when_committed(connection, committed)
        return joined

    def _joined(self, connection: object) -> SQLStore:
        """A store of one connection, which is the user's."""
        theirs = self._database.run_once(lambda: join(connection, self._dialect))
        database = JoinedDatabase(theirs, self._database)
        dialect = copy(self._dialect)
        dialect.joined = True
        statements = self._statements.joined(database, dialect)
        return SQLStore(
            database, dialect, statements, schema=self._schema, clock=self.clock
        )

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's."""
        return self._joined(connection)._finish_joined(outcome)


def join(connection: object, dialect: Dialect) -> Connection:
    """The connection behind what a user passed, in a transaction.

    Raises:
        ConfigurationError: It is no connection to this kind of database, or is in
            autocommit.
    """
    if isinstance(connection, scoped_session):
        connection = connection()
    if isinstance(connection, Session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        hint = _OF_ASYNC if hasattr(connection, "run_sync") else ""
        raise ConfigurationError(
            "connection must be a SQLAlchemy Connection or Session, not of type"
            f" {type(connection).__name__}{hint}"
        )
    name = connection.dialect.name
    if name != dialect.name:
        raise ConfigurationError(
            f"connection is to a {name} database; the store is in {dialect.name}"
        )
    if not connection.in_transaction():
        # Its first statement would begin one; until then SQLite's driver is in none.
        connection.begin()
    if dialect.in_autocommit(connection):
        raise ConfigurationError(
            "connection is in autocommit: there is no transaction to take part in"
        )
    dialect.ready(connection)
    return connection


_OF_ASYNC = (
    ": await the call that begins with an a, such as scheduler.aschedule(...), or make"
    " it within its run_sync(), as in `await"
    " session.run_sync(current_run().complete_in)`"
)

# Calls to make, by the transaction or savepoint that has to commit first. With one that
# is rolled back its key is gone.
_waiting: WeakKeyDictionary[SessionTransaction, list[Callable[[], None]]] = (
    WeakKeyDictionary()
)


def when_committed(connection: object, tell: Callable[[], None]) -> None:
    """Call this once a session's transaction has committed; never if it does not.

    Within a savepoint it is the transaction around it that has to commit. A Connection
    says that it commits before it does so, and nothing says it afterwards: on one this
    is never called.
    """
    session = connection() if isinstance(connection, scoped_session) else connection
    if not isinstance(session, Session):
        return
    inner = session.get_nested_transaction() or session.get_transaction()
    assert inner is not None, "what was put has begun one"
    _waiting.setdefault(inner, []).append(tell)
    if not event.contains(session, "after_commit", _pass_on):
        event.listen(session, "after_commit", _pass_on)


def _pass_on(session: Session) -> None:
    """Tell, or after a savepoint let it wait for what is around that."""
    inner = session.get_nested_transaction() or session.get_transaction()
    assert inner is not None, "it is still there while it tells"
    told = _waiting.pop(inner, [])
    if inner.parent is not None:
        _waiting.setdefault(inner.parent, []).extend(told)
        return
    for tell in told:
        tell()


class JoinedDatabase(Database):
    """A connection of the user's, in a transaction: nothing is repeated there.

    Args:
        connection: The connection.
        database: Says what an error means.
    """

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._of = database

    def run(
        self, lane: Lane, work: Callable[[Connection], Result], **_: object
    ) -> Result:
        """Call ``work`` with the connection."""
        return self._of.run_once(lambda: work(self._connection))

    def transact(self, work: Callable[[Connection], Result], **_: object) -> Result:
        """Call ``work`` in the transaction that there is."""
        return self.run(Lane.BY_HAND, work)
