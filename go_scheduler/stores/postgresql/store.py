"""The PostgreSQL store, which the CockroachDB store is a variant of."""

from __future__ import annotations

import logging
import selectors
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from go_scheduler.checks import check_type
from go_scheduler.clock import Clock, StoreClock, SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.findings import Finding, answers
from go_scheduler.stores.hints import HeardHints, Hints, News
from go_scheduler.stores.postgresql.driver import (
    EngineKind,
    fault_of,
    make_engines,
    within,
)
from go_scheduler.stores.postgresql.executing import (
    CHANNEL,
    NEWS,
    NOTIFY_EVERY,
    PostgreSQLDialect,
    ServerStatements,
)
from go_scheduler.stores.sql.database import Database, Lane, Result, Spare, connect_as
from go_scheduler.stores.sql.questions import QUESTIONS, Question
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL


_SHOWN = ("host", "port")
_LONGEST_ANSWER = "SET LOCAL statement_timeout = '5s'"


class PostgreSQLStore(SQLStore):
    """Keeps everything in a PostgreSQL database that any number of nodes share.

    Args:
        url: Such as ``postgresql://user:password@host:5432/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``. Several hosts, as in
            ``postgresql://user@a:5432,b:5432/database``, are tried in this order for
            the one that is the primary.
        clock: Used instead of the database's time, for tests.
        connect_args: More arguments of ``psycopg.connect``; they win over the URL.
        pool_size: Most connections for what is put that is new, and for what else is
            called by hand; the loops have at most six of their own.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is.
        hints: Whether what one process puts in is made known to the others at once,
            by NOTIFY, to which each node listens on a connection of its own. None: not
            through a pooler.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database, or
            ``pool_size`` is below one, or ``hints`` is no truth value.
    """

    _kind = EngineKind.POSTGRESQL
    _dialect: PostgreSQLDialect

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
        hints: bool | None = None,
    ) -> None:
        if hints is not None:
            check_type("hints", hints, bool)
        engines, connects = make_engines(
            url, self._kind, connect_args=connect_args, pool_size=pool_size
        )
        spares = [
            Spare(engine, connects[lane], elapsed=lambda: self._elapsed())
            for lane, engine in engines.items()
        ]
        database = Database(
            engines,
            fault_of=fault_of,
            in_transaction=self._in_transaction,
            spares=spares,
        )
        self._hints = hints
        self._listen = partial(connect_as, engines[Lane.NEW], connects[Lane.NEW])
        dialect = self._make_dialect(clock)
        schema = Schema(dialect.name, migrate)
        statements = ServerStatements(database, dialect, clock=clock)
        super().__init__(database, dialect, statements, schema=schema, clock=clock)
        self._url = engines[Lane.BY_HAND].url
        self._copy = StoreClock(SystemClock(), self.now, at_start=1)

    def __repr__(self) -> str:
        query = {key: each for key, each in self._url.query.items() if key in _SHOWN}
        url = self._url.set(query=query).render_as_string(hide_password=True)
        return f"{type(self).__name__}({url!r})"

    def initialize(self) -> None:
        """Check the isolation level; bring the schema up to date, or check that it is.

        Raises:
            StoreError: Statements run at another level than the store has set, or the
                schema cannot be used.
        """
        self._database.run(Lane.BY_HAND, self._check_isolation)
        super().initialize()

    def _check_isolation(self, connection: Connection) -> None:
        level = self._kind.isolation_level
        found = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
        if found.upper() != level:
            raise StoreError(
                f"statements run at isolation level {found.upper()}, and the store has"
                f" set default_transaction_isolation to {level}: see that no pooler or"
                " proxy before the server drops or changes this setting"
            )

    def connect(self) -> None:
        """Open all connections of the loops, so that no start waits for one."""
        self._database.connect([Lane.BY_TIME, Lane.BY_KEY, Lane.RENEWALS])

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the database itself."""

        def ask(question: Question) -> list[Finding]:
            def read(connection: Connection) -> list[Finding]:
                connection.exec_driver_sql(_LONGEST_ANSWER)
                return list(question(connection))

            return self._database.run(
                Lane.BY_HAND, partial(within, "READ ONLY", read=read)
            )

        self._database.run(Lane.BY_HAND, lambda each: each.exec_driver_sql("SELECT 1"))
        return list(answers(QUESTIONS[self._dialect.name], ask))

    def hints(self) -> Hints | None:
        """A connection that listens, unless it is not to be."""
        through_pooler = self._hints is True
        return None if self._hints is False else Listener(self._listen, through_pooler)

    def _in_transaction(
        self, connection: Connection, work: Callable[[Connection], Result]
    ) -> Result:
        level = self._kind.isolation_level
        with connection.execution_options(isolation_level=level).begin():
            return work(connection)

    def _make_dialect(self, clock: Clock | None) -> PostgreSQLDialect:
        return PostgreSQLDialect(clock, notifies=self._hints is not False)

    def now_between(self) -> tuple[datetime, datetime]:
        """By an answer that is at most ten seconds old, or a new one."""
        if self.clock is not None:
            return super().now_between()
        self._copy.refresh(waits=True)
        now = self._copy.now()
        return now, now + self._copy.round_trip


_Listening: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

_log = logging.getLogger("go_scheduler.stores.postgresql.listener")


class Listener(HeardHints):
    """Listens for one node.

    A pooler that gives a connection to another client after each transaction takes
    LISTEN, and delivers nothing. It is known by the server's process: what a connection
    was told of that is then the pooler's invention.

    Args:
        connect: Opens a connection, in autocommit.
        through_pooler: Whether to listen through a pooler all the same, since it leaves
            a client its connection.
    """

    # Those that write say so once in a while, and commit a moment later.
    blind = 2 * NOTIFY_EVERY

    def __init__(self, connect: Callable[[], _Listening], through_pooler: bool) -> None:
        self._connect = connect
        self._through_pooler = through_pooler
        self._connection: _Listening | None = None
        self._is_deaf = False
        super().__init__()

    def _hear(self) -> News:
        try:
            if self._connection is None and not self._is_deaf:
                self._connection = self._connect()
                self._listen(self._connection)
                # For what was put in meanwhile.
                return News.ANYTHING
            return self._wait()
        except psycopg.Error as error:
            raise StoreUnavailableError(f"nothing is heard: {error}") from error

    def _listen(self, connection: _Listening) -> None:
        asked = f"SELECT pg_backend_pid(), {CHANNEL}"
        row = connection.execute(asked.encode()).fetchone()
        assert row is not None, "it has no condition"
        process, channel = row
        if process != connection.info.backend_pid and not self._through_pooler:
            _log.info(
                "the connections go through a pooler: what other processes put in is"
                " found when it is looked for, and not at once; see hints= of the store"
            )
            self._is_deaf = True
            self._disconnect()
        else:
            connection.execute(f'LISTEN "{channel}"'.encode())

    def _wait(self) -> News:
        """Wait until something comes, or for the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.ended, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection.fileno(), selectors.EVENT_READ)
            while not self.is_closed:
                selector.select()
                if self._connection is not None and (news := _news(self._connection)):
                    return news
        return News.NOTHING

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _news(connection: _Listening) -> News:
    """What it was notified of, all that has come."""
    found = News.NOTHING
    connection.pgconn.consume_input()
    while (notification := connection.pgconn.notifies()) is not None:
        found |= NEWS.get(notification.extra, News.ANYTHING)
    return found
