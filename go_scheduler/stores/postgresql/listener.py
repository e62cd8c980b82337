"""Hints by LISTEN: what other processes notify of, on a connection of its own."""

from __future__ import annotations

import logging
import selectors
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.hints import HeardHints, News
from go_scheduler.stores.postgresql.dialect import CHANNEL, NEWS, NOTIFY_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

_log = logging.getLogger(__name__)


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

    def __init__(self, connect: Callable[[], Connection], through_pooler: bool) -> None:
        self._connect = connect
        self._through_pooler = through_pooler
        self._connection: Connection | None = None
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

    def _listen(self, connection: Connection) -> None:
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


def _news(connection: Connection) -> News:
    """What it was notified of, all that has come."""
    found = News.NOTHING
    connection.pgconn.consume_input()
    while (notification := connection.pgconn.notifies()) is not None:
        found |= NEWS.get(notification.extra, News.ANYTHING)
    return found
