"""The connections of a store: who uses which, what is tried again, and for how long."""

from __future__ import annotations

import logging
import os
import random
import threading
import weakref
from collections import Counter
from contextlib import ExitStack, closing
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from sqlalchemy import exc

from go_scheduler.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine, QueuePool

    from go_scheduler.stores.sql.spare import Spare

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# Fifty tries take some six seconds, with the pauses between them.
_MOST_TRIES = 50
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25
_NO_TABLES = (
    "the store's tables are not there: the connection is to another database, or the"
    " store has not been used yet, which check() of the scheduler does"
)
_YOURS = " and is still open; if it is one of yours, pass it as connection="
_LOCK_TIMEOUT = "55P03"
_LOCKED = {
    "SQLITE_BUSY": f": another transaction has written to it{_YOURS}",
    _LOCK_TIMEOUT: f": another transaction has locked this row{_YOURS}",
}
_REPEAT = "somebody else has changed the same meanwhile: repeat the transaction"


class Lane(Enum):
    """How the statements of a connection find rows: no lane waits for another."""

    BY_HAND = "by hand"
    """In any way, for users: edits, lists, deletes."""
    NEW = "new"
    """By ids that are new, for users: what is scheduled first, or enqueued."""
    BY_TIME = "by time"
    """By an index over time, for the loops: due definitions, claims, cleanup."""
    BY_KEY = "by key"
    """By the ids of instances, for the loops: start, finish, release."""
    RENEWALS = "renewals"
    """By id too, renewals alone: a node short of connections keeps its claims."""


FOR_USERS = (Lane.BY_HAND, Lane.NEW)
"""Those on which a user waits, for a lock as well."""


class Fault(Enum):
    """The meaning of an error for the statement that met it."""

    CONFLICT = "conflict"
    """It changed nothing, and is expected to succeed when repeated."""
    LOST = "lost"
    """The connection is gone; whether it changed anything is not known."""
    UNAVAILABLE = "unavailable"
    """It changed nothing; the database cannot serve it now."""
    BUSY = "busy"
    """It changed nothing: rows that it needs were locked, or it took too long."""
    WRONG = "wrong"
    """It changed nothing, and will not succeed until something else changes."""


class Overtaken(Exception):
    """Somebody else has changed a row between its being read and written."""


class Database:
    """Runs statements on the right connections, and again where that is safe.

    Args:
        engines: The engine of each lane, whose connections are in autocommit.
        fault_of: Tells what an error of the driver means, and its code.
        transaction: Begins a transaction on a connection, for a ``with`` statement.
        spares: The spare connections of lanes whose connections are replaced.

    Attributes:
        writing: The lane of transactions.
    """

    writing = Lane.BY_HAND

    def __init__(
        self,
        engines: Mapping[Lane, Engine],
        *,
        fault_of: Callable[[BaseException], tuple[Fault, str]],
        transaction: Callable[[Connection], AbstractContextManager[object]],
        spares: Sequence[Spare] = (),
    ) -> None:
        self.repeats: Counter[str] = Counter()
        self._engines = engines
        self._fault_of = fault_of
        self._transaction = transaction
        self._spares = spares
        self._closed = threading.Event()
        self._was_closed = False
        self._inherited: list[object] = []
        _open.add(self)

    def run(
        self,
        lane: Lane,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
        waits: int = 1,
    ) -> Result:
        """Call ``work`` with a connection; call it again if it met a conflict.

        Args:
            lane: Which connections to use.
            work: Its statements commit one by one.
            repeatable: Whether to repeat it when nobody knows whether it was done.
            waits: How often it waits for a row that somebody else keeps locked.

        Raises:
            StoreUnavailableError: The database is unavailable, or no try succeeded.
            StoreError: It failed in another way.
        """
        closed = self._closed
        self._note_reopening()
        for attempt in range(1, _MOST_TRIES + 1):
            try:
                with self._engines[lane].connect() as connection:
                    return work(connection)
            except exc.SQLAlchemyError as error:
                fault, code = self._fault_of(error)
                lost = fault is Fault.LOST and repeatable and attempt == 1
                waits -= code == _LOCK_TIMEOUT
                waited = code == _LOCK_TIMEOUT and waits > 0
                again = lost or waited or fault is Fault.CONFLICT
                if attempt == _MOST_TRIES or closed.is_set() or not again:
                    raise _translate(error, fault, code, lane=lane) from error
                self.repeats[code] += 1
            except UnicodeEncodeError as error:
                raise StoreError(f"a text cannot be kept: {error}") from error
            except Overtaken as error:
                self.repeats["overtaken"] += 1
                overtaken = error
            _pause(attempt, closed)
        raise StoreUnavailableError(
            f"somebody else was faster each of {_MOST_TRIES} times"
        ) from (overtaken.__cause__ or overtaken)

    def _note_reopening(self) -> None:
        if self._was_closed:
            self._was_closed = False
            log.info("a store that was closed is used again, and opens connections")

    def transact(
        self,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
        waits: int = 1,
    ) -> Result:
        """Call ``work`` in one transaction; roll back and begin again as ``run``."""

        def within(connection: Connection) -> Result:
            with self._transaction(connection):
                return work(connection)

        return self.run(self.writing, within, repeatable=repeatable, waits=waits)

    def connect(self, lanes: Iterable[Lane]) -> None:
        """Open all the connections that these lanes may have.

        Raises:
            StoreUnavailableError: The database is unavailable.
            StoreError: It failed in another way.
        """
        for lane in lanes:
            pool = cast("QueuePool", self._engines[lane].pool)
            self.run(lane, partial(_open_others, pool=pool))

    def replace_one(self) -> None:
        """Open a connection in the place of one that is old, if there is any."""
        for spare in self._spares:
            if spare.wanted:
                spare.open()
                return

    def close(self) -> None:
        """Close all connections; what waits to try again gives up."""
        self._closed.set()
        for spare in self._spares:
            spare.close()
        for engine in self._engines.values():
            engine.dispose()
        self._closed = threading.Event()
        self._was_closed = True

    def abandon(self) -> None:
        """Forget all connections without touching them: they are the parent's."""
        for spare in self._spares:
            spare.abandon()
        for engine in self._engines.values():
            # A pool that is collected would close the parent's connections.
            self._inherited.append(engine.pool)
            engine.dispose(close=False)

    def run_once(self, work: Callable[[], Result]) -> Result:
        """Call ``work`` within a transaction of the user's: nothing is repeated.

        Raises:
            StoreUnavailableError: Repeating the whole transaction may help.
            StoreError: It failed in another way.
        """
        try:
            return work()
        except exc.SQLAlchemyError as error:
            fault, code = self._fault_of(error)
            if fault is Fault.CONFLICT:
                raise StoreUnavailableError(f"{_REPEAT} ({code})") from error
            if code == "42P01" or "no such table" in str(getattr(error, "orig", "")):
                raise StoreError(f"{_NO_TABLES} ({code})") from error
            raise _translate(error, fault, code, lane=Lane.BY_HAND) from error
        except Overtaken as error:
            raise StoreUnavailableError(_REPEAT) from error


def _open_others(connection: Connection, *, pool: QueuePool) -> None:
    """Take as many as it takes until the pool has opened all."""
    with ExitStack() as taken:
        while pool.overflow() < 0:
            taken.enter_context(closing(pool.connect()))


def _pause(attempt: int, closed: threading.Event) -> None:
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1))
    closed.wait(random.uniform(0, longest))


def _translate(
    error: BaseException, fault: Fault, code: str, *, lane: Lane
) -> StoreError:
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    text = f"{lines[0]} ({code})" if code else lines[0]
    # A busy row is no outage to the loops: they divide their batch to find it.
    if fault is Fault.WRONG or (fault is Fault.BUSY and lane not in FOR_USERS):
        return StoreError(text)
    return StoreUnavailableError(text + _LOCKED.get(code, ""))


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _abandon_all() -> None:
    for database in list(_open):
        database.abandon()


os.register_at_fork(after_in_child=_abandon_all)
