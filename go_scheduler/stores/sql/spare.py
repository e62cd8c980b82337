"""The spare connection of a lane: opened by who has time, for those who have none."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from psycopg import Connection
    from sqlalchemy import Engine
    from sqlalchemy.pool import ConnectionPoolEntry

OLDEST = timedelta(minutes=30)
_JITTER = 0.25
_REPLACE_AT = "replace_at"


def connect_as(
    engine: Engine,
    connect: Callable[[Sequence[str], MutableMapping[str, Any]], Connection[Any]],
) -> Connection[Any]:
    """Open a connection like those of an engine, that is not one of them."""
    return connect(*engine.dialect.create_connect_args(engine.url))


class Spare:
    """Takes the place of a connection that has grown old.

    It is opened beside the pool. The first old connection that comes back to the pool
    is marked, and the next who takes it gets the spare one in its place, at once.

    Args:
        engine: Whose connections are replaced.
        connect: Opens a connection, with the arguments of the driver.
        elapsed: Measures how old they are.

    Attributes:
        wanted: Whether an old connection has come back, and there was none.
    """

    def __init__(
        self,
        engine: Engine,
        connect: Callable[[Sequence[str], MutableMapping[str, Any]], Connection[Any]],
        *,
        elapsed: Callable[[], timedelta],
    ) -> None:
        self.wanted = False
        self._engine = engine
        self._connect = connect
        self._elapsed = elapsed
        self._ready: list[Connection[Any]] = []
        # The pool's next connections: those in whose place they come are marked.
        self._promised: list[Connection[Any]] = []
        self._inherited: list[Connection[Any]] = []
        event.listen(engine, "do_connect", self._take)
        event.listen(engine, "connect", self._note_age)
        event.listen(engine, "checkin", self._replace_if_old)
        event.listen(engine, "invalidate", self._distrust)

    def open(self) -> None:
        """Open one; if that fails, the old connection goes on being used."""
        self.wanted = False
        with suppress(self._engine.dialect.loaded_dbapi.Error):
            self._ready.append(connect_as(self._engine, self._connect))

    def close(self) -> None:
        """Close it."""
        for connections in (self._ready, self._promised):
            while connections:
                connections.pop().close()

    def abandon(self) -> None:
        """Forget it without touching it: it is the parent's."""
        for connections in (self._ready, self._promised):
            self._inherited += connections
            connections.clear()

    def _take(
        self,
        dialect: object,
        record: object,
        args: Sequence[str],
        options: MutableMapping[str, Any],
    ) -> Connection[Any]:
        with suppress(IndexError):
            return self._promised.pop()
        return self._connect(args, options)

    def _note_age(self, connection: object, record: ConnectionPoolEntry) -> None:
        # Ages differ, so that not all nodes replace all connections in one minute.
        longest = OLDEST * (1 - _JITTER * random.random())
        record.info[_REPLACE_AT] = self._elapsed() + longest

    def _replace_if_old(self, connection: object, record: ConnectionPoolEntry) -> None:
        if connection is None or self._elapsed() < record.info[_REPLACE_AT]:
            return
        try:
            self._promised.append(self._ready.pop())
        except IndexError:
            self.wanted = True
        else:
            record.invalidate(soft=True)

    def _distrust(self, *_: object) -> None:
        """Close it: the end of another connection may have been its end too."""
        self.close()
