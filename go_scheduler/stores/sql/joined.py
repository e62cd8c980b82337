"""How a store of SQL takes part in a transaction of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, scoped_session

from go_scheduler.errors import ConfigurationError
from go_scheduler.stores.sql.database import Database, Lane, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import SessionTransaction

    from go_scheduler.stores.sql.tables import Dialect


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
        self,
        lane: Lane,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
        waits: int = 1,
    ) -> Result:
        """Call ``work`` with the connection."""
        return self._of.run_once(lambda: work(self._connection))

    def transact(
        self,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
        waits: int = 1,
    ) -> Result:
        """Call ``work`` in the transaction that there is."""
        return self.run(Lane.BY_HAND, work)
