"""A store of SQL within a transaction of the user's: nothing of it is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, scoped_session

from go_scheduler.errors import ConfigurationError
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    page_of,
)
from go_scheduler.stores.messages import Put
from go_scheduler.stores.rules import check_each_once
from go_scheduler.stores.sql.additions import backfill
from go_scheduler.stores.sql.edits import WITH_CONTENTS, definition_of
from go_scheduler.stores.sql.finishing import cancel_one
from go_scheduler.stores.sql.lists import BOTH, instances_like, page_of_definitions
from go_scheduler.stores.sql.reader import with_definitions
from go_scheduler.stores.sql.tables import definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.orm import SessionTransaction

    from go_scheduler.models import Cancelled, TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition, Position
    from go_scheduler.stores.rules import Declaration, Declared
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.edits import Edits
    from go_scheduler.stores.sql.puts import Sets
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


Answer = TypeVar("Answer")


class PutWithin(Protocol):
    """How a store puts definitions within a transaction."""

    def __call__(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        /,
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""


class Add(Protocol):
    """How a store adds instances within a transaction."""

    def __call__(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        /,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""


class Joined:
    """The ``JoinedStore`` of the SQL stores.

    Args:
        connection: The user's, in a transaction.
        database: Says what an error means.
        dialect: The engine's own words.
        put: Puts definitions.
        sets: Declares sets of them.
        edits: Changes and deletes them.
        add: Adds instances.
    """

    def __init__(
        self,
        connection: Connection,
        database: Database,
        dialect: Dialect,
        *,
        put: PutWithin,
        sets: Sets,
        edits: Edits,
        add: Add,
    ) -> None:
        self._connection = connection
        self._database = database
        self._dialect = dialect
        self._put = put
        self._sets = sets
        self._edits = edits
        self._add = add

    def _run(self, work: Callable[[Connection], Answer]) -> Answer:
        return self._database.run_once(lambda: work(self._connection))

    def _edit(self, work: Callable[[Connection], Answer]) -> Answer:
        self._run(self._dialect.check_edits)
        return self._run(work)

    def put_definitions(self, definitions: Sequence[TaskDefinition]) -> Put:
        """Insert each definition, or replace the one with its id."""
        check_each_once(definitions)
        are_new = all(each.revision is None for each in definitions)
        run = self._run if are_new else self._edit
        put = run(lambda each: self._put(each, definitions))
        return Put(definitions=put)

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""
        check_each_once(declaration.definitions)
        return self._edit(lambda each: self._sets.declare(each, declaration, late=True))

    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter."""
        rows = self._run(
            lambda each: page_of_definitions(
                each, self._dialect, where, order, after=after, limit=limit
            )
        )
        found = [definition_of(row) for row in rows]
        return page_of(found, order.position, limit=limit)

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        return self._edit(lambda each: self._edits.delete(each, ids))

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        return self._edit(lambda each: self._edits.pause(each, ids, note))

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        return self._edit(lambda each: self._edits.resume(each, ids))

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._run(lambda each: self._add(each, definition_id, additions))

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        return self._run(
            lambda each: backfill(each, self._dialect, definition, fire_times, overlap)
        )

    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter."""
        both = self._dialect.looked_up(BOTH, definitions, "task_definitions_pkey")
        query = instances_like(
            both, self._dialect, where, order, descending=descending, after=after
        )

        def read(connection: Connection) -> Sequence[TaskInstance]:
            rows = connection.execute(query.limit(limit)).all()
            keys = {row.definition_key for row in rows}
            of = WITH_CONTENTS.where(self._dialect.among(definitions.c.key, keys))
            by_key = {each.key: definition_of(each) for each in connection.execute(of)}
            return with_definitions(rows, by_key)

        return page_of(self._run(read), order.position, limit=limit)

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""

        def cancel(connection: Connection) -> Mapping[UUID, Cancelled]:
            now = self._dialect.now(connection)
            found = {
                id: cancel_one(connection, id, at, now)
                for id, at in cancellations.items()
            }
            return {id: each for id, each in found.items() if each is not None}

        return self._run(cancel)
