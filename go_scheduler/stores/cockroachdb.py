"""The CockroachDB store: PostgreSQL's statements, spread over the cluster."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

# Imported first, it has Alembic say nothing, which the next one imports.
from go_scheduler.stores.migrations import operating  # noqa: F401

# isort: split
# SQLAlchemy looks for it by itself, and does not say what to install.
import sqlalchemy_cockroachdb  # type: ignore[import-untyped] # noqa: F401
from sqlalchemy import ColumnElement, Connection, Select, Table, func, select
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import ConfigurationError
from go_scheduler.stores.hints import Hints, Polls
from go_scheduler.stores.postgresql.driver import EngineKind, fault_of, within
from go_scheduler.stores.postgresql.executing import PostgreSQLDialect, array
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import IS_REPEATED, Fault, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import URL

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import Claimant, Fired, Firing
    from go_scheduler.stores.sql.tables import Read

_POLL_EVERY = timedelta(milliseconds=100)
_BUSY_FOR = timedelta(minutes=1)


class CockroachDBStore(PostgreSQLStore):
    """Keeps everything in a CockroachDB cluster that any number of nodes share.

    It needs v24.3 or later. What is due is spread over sixteen parts of an index, so
    that nodes do not all write to one range.

    Args:
        url: Such as ``cockroachdb://user:password@host:26257/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``. Of several nodes, as in
            ``cockroachdb://user@a:26257,b:26257/database``, each connection takes one
            at random.
        clock: Used instead of the database's time, for tests.
        connect_args: As for ``PostgreSQLStore``.
        pool_size: As for ``PostgreSQLStore``.
        migrate: As for ``PostgreSQLStore``.
        follower_reads: Whether lists and counts may be some five seconds old, and come
            from the nearest replica without waiting for anybody's writes. Of listed
            instances, what their definitions hold is read as it is now, unless this
            process has it already.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database.
    """

    # Rows that a transaction has written count as locked until each of them has been
    # resolved, after the commit: for 70 ms at the 99th percentile on one idle node.
    settling = timedelta(milliseconds=200)
    _kind = EngineKind.COCKROACHDB

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
        follower_reads: bool = False,
    ) -> None:
        self._follower_reads = follower_reads
        super().__init__(
            url,
            clock=clock,
            connect_args=connect_args,
            pool_size=pool_size,
            migrate=migrate,
        )
        self._busy_until = ZERO

    def hints(self) -> Hints:
        """Polls, while there is work and more may come: it has no NOTIFY."""
        return Polls(_POLL_EVERY, self._has_work)

    def _has_work(self) -> bool:
        return self._elapsed() < self._busy_until

    def _note_work(self) -> None:
        self._busy_until = self._elapsed() + _BUSY_FOR

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        if firings:
            self._note_work()
        return super().fire_definitions(firings, claimant=claimant)

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        claimed = super().claim_instances(
            claimant,
            ahead=ahead,
            lead=lead,
            limit=limit,
            lapsed=lapsed,
            deadline=deadline,
        )
        if claimed:
            self._note_work()
        return claimed

    def _in_transaction(
        self, connection: Connection, work: Callable[[Connection], Result]
    ) -> Result:
        if IS_REPEATED in connection.get_execution_options():
            work = partial(restarted, work=work)
        return super()._in_transaction(connection, work)

    def _make_dialect(self, clock: Clock | None) -> CockroachDBDialect:
        return CockroachDBDialect(clock, follower_reads=self._follower_reads)


class CockroachDBDialect(PostgreSQLDialect):
    """CockroachDB's words.

    Args:
        clock: Used instead of the database's time.
        follower_reads: Whether lists may come from the nearest replica.
    """

    name = "cockroachdb"
    shards = 16
    reads_rows = False

    def __init__(self, clock: Clock | None, *, follower_reads: bool) -> None:
        super().__init__(clock, notifies=False)
        self._follower_reads = follower_reads

    @staticmethod
    def by_index(index: str) -> str:
        """A hint that allows no full scan."""
        return "@" + _look_up(index)

    def looked_up(self, query: Select[Any], table: Table, index: str) -> Select[Any]:
        """With the same hint."""
        hint = _look_up(index)
        return query.with_hint(selectable=table, text=hint, dialect_name=self.name)

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One array, of rows: in a plan for any values, only those are looked up."""
        return column.in_(select(func.unnest(array(ids))))

    def check_edits(self, connection: Connection) -> None:
        """At a weaker level than ours, who adds to a definition waits for no edit."""
        level = EngineKind.COCKROACHDB.isolation_level
        found = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
        if found.upper() != level:
            raise ConfigurationError(
                "definitions are edited and deleted in a transaction of yours at"
                f" {level} only, and it is at {found.upper()}: an enqueue() elsewhere"
                f" would not wait for it; set default_transaction_isolation to {level},"
                f' or pass isolation_level="{level}" to create_engine'
            )

    def listed(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """In a transaction in the past, if asked to."""
        if self.joined or not self._follower_reads:
            return read(connection)
        past = "AS OF SYSTEM TIME follower_read_timestamp()"
        try:
            return within(past, connection, read)
        except ProgrammingError:
            # The tables are younger than that.
            return read(connection)

    def past_locks(
        self, connection: Connection, read: Callable[[Connection], Read]
    ) -> Read:
        """With priority, if there is a lock: such a reader moves those that write.

        They may still commit, at a later time. It settles what it reads, too.
        """
        if self.joined:
            return read(connection)
        try:
            return read(connection)
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCKED:
                raise
        return within("PRIORITY HIGH", connection, read)


def restarted(connection: Connection, work: Callable[[Connection], Result]) -> Result:
    """Call ``work`` in a transaction, and again if it meets a conflict.

    The transaction keeps its locks meanwhile. Without them a definition could fire
    before each try, which would conflict with what becomes of the instances.
    """
    connection.exec_driver_sql(f"SAVEPOINT {_RESTART}")
    restarts = 0
    while True:
        try:
            result = work(connection)
            # This is the commit.
            connection.exec_driver_sql(f"RELEASE SAVEPOINT {_RESTART}")
        except DBAPIError as error:
            restarts += 1
            if restarts > _MOST_RESTARTS or fault_of(error)[0] is not Fault.CONFLICT:
                raise
            connection.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_RESTART}")
        else:
            return result


# To CockroachDB this name says that the whole transaction is repeated.
_RESTART = "cockroach_restart"
_MOST_RESTARTS = 10
_LOCKED = "55P03"


def _look_up(index: str) -> str:
    return f"{{FORCE_INDEX={index},NO_FULL_SCAN}}"
