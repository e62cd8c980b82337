"""The connections of a store: which is used, what is tried again, and for how long.

Rows that were deleted or moved leave traces at the head of such an index, for hours on
CockroachDB, and a scan from its beginning walks over all of them. New rows, however,
are never written below the present time, so that a scan need not look much further back
than to the place that the one before has reached.

That one may have left out rows that were there: locked for a moment, or for as long as
a user kept a transaction open; committed, but not settled; not committed yet. Nobody
says so. Therefore rows that have been out of sight for some time are looked for again
and again, after pauses of a small part of that time: rarely enough for all that such a
look walks over, and soon enough for a row that has waited.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import weakref
from collections import Counter
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, QueuePool, event, exc, make_url

from go_scheduler.checks import LONGEST, PRIORITIES
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.stores.rules import NORMAL, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    import psycopg
    from sqlalchemy.pool import ConnectionPoolEntry

    from go_scheduler.models import TaskDefinition

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

IS_REPEATED = "go_scheduler_is_repeated"
"""The execution option that connections have whenever something is tried again."""


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
        in_transaction: Calls a function within a transaction on a connection.
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
        in_transaction: Callable[[Connection, Callable[[Connection], Any]], Any],
        spares: Sequence[Spare] = (),
    ) -> None:
        self.repeats: Counter[str] = Counter()
        self._engines = engines
        self._fault_of = fault_of
        self._in_transaction = in_transaction
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
                    if attempt > 1:
                        connection.execution_options(**{IS_REPEATED: True})
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
                raise _not_kept(error) from error
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
            result: Result = self._in_transaction(connection, work)
            return result

        return self.run(self.writing, within, repeatable=repeatable, waits=waits)

    def change(
        self,
        lane: Lane,
        work: Callable[[Connection], Result],
        *,
        repeatable: bool = True,
    ) -> Result:
        """Call ``work``, whose first statement alone changes something."""
        return self.run(lane, work, repeatable=repeatable)

    def execute(
        self, connection: Connection, sql: str, parameters: Mapping[str, Any] = {}
    ) -> Sequence[Any]:
        """Execute a statement as the driver takes it, and fetch what it returns."""
        found = connection.exec_driver_sql(sql, parameters)
        if found.cursor is None:
            return []
        # As the driver has them: rows of SQLAlchemy's would cost as much as these.
        rows: Sequence[Any] = found.cursor.fetchall()
        found.close()
        return rows

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
        except UnicodeEncodeError as error:
            raise _not_kept(error) from error
        except Overtaken as error:
            raise StoreUnavailableError(_REPEAT) from error


def _not_kept(error: UnicodeEncodeError) -> StoreError:
    return StoreError(f"a text cannot be kept: {error}")


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


OLDEST = timedelta(minutes=30)
_JITTER = 0.25
_REPLACE_AT = "replace_at"


def connect_as(
    engine: Engine,
    connect: Callable[
        [Sequence[str], MutableMapping[str, Any]], psycopg.Connection[Any]
    ],
) -> psycopg.Connection[Any]:
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
        connect: Callable[
            [Sequence[str], MutableMapping[str, Any]], psycopg.Connection[Any]
        ],
        *,
        elapsed: Callable[[], timedelta],
    ) -> None:
        self.wanted = False
        self._engine = engine
        self._connect = connect
        self._elapsed = elapsed
        self._ready: list[psycopg.Connection[Any]] = []
        # The pool's next connections: those in whose place they come are marked.
        self._promised: list[psycopg.Connection[Any]] = []
        self._inherited: list[psycopg.Connection[Any]] = []
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
    ) -> psycopg.Connection[Any]:
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


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _abandon_all() -> None:
    for database in list(_open):
        database.abandon()


os.register_at_fork(after_in_child=_abandon_all)


LATE_AFTER = timedelta(seconds=10)
"""A fire time that lies further back than this when it is written is marked as late."""
LATE_WHEN_JOINED = -LONGEST
"""Of what a transaction of the user's writes all are: it commits at any later time."""

_LEAST_DEPTH = timedelta(seconds=1)
_GREATER_DEPTHS = [2**number * _LEAST_DEPTH for number in range(2, 11)]
_LOOKS_PER_DEPTH = 16
_WHOLE_DEPTH = timedelta(days=36_525 * 20)
_LONGEST_PAUSE_OF_SWEEPS = timedelta(minutes=5)


class Sweep:
    """One scan, repeated for ever.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._reached = ZERO
        self._next = dict.fromkeys(_GREATER_DEPTHS, ZERO)
        self.start_over()

    def start_over(self) -> None:
        """Look at everything the next time, and soon again."""
        self._began: timedelta | None = None
        self._next_whole = self._elapsed()
        self._pause = _LEAST_DEPTH

    @property
    def back(self) -> timedelta:
        """How far to look back now; the next note is of this look."""
        now = self._elapsed()
        if self._began is None:
            self._began = now
        # The bound stays where it was while there is more above it.
        return now - self._reached + self._depth(self._began)

    def go_on(self, age: timedelta) -> None:
        """Note that there is more.

        Args:
            age: How long ago the time of the last row was; below zero if it is to come.
        """
        # New rows may have been written since below a time that is still to come.
        self._reach(max(age, ZERO))

    def finish(self) -> None:
        """Note that nothing more was found."""
        self._reach(ZERO)

    def _reach(self, age: timedelta) -> None:
        if (began := self._began) is None:
            return
        depth = self._depth(began)
        for each in _GREATER_DEPTHS:
            if each <= depth:
                self._next[each] = began + each / _LOOKS_PER_DEPTH
        if depth == _WHOLE_DEPTH:
            self._next_whole = began + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_OF_SWEEPS)
        self._reached, self._began = began - age, None

    def _depth(self, began: timedelta) -> timedelta:
        """How far below the place that was reached a look has to begin."""
        if began >= self._next_whole:
            return _WHOLE_DEPTH
        due = (depth for depth in _GREATER_DEPTHS if began >= self._next[depth])
        return max(due, default=_LEAST_DEPTH)


# SQLAlchemy divides a URL in this way: a password goes on up to the first @.
_PARTS = re.compile(r"([\w+]+://(?:[^:/]*(?::[^@]*)?@)?)([^/?]*)(.*)", re.DOTALL)
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::(.*))?")
_PORT = re.compile("[0-9]{1,5}")
_HIGHEST_PORT = 65_535
_NO_PORT = f"a port that is no number from 1 to {_HIGHEST_PORT}"


def read_url(url: str | URL, *, example: str) -> URL:
    """A URL in its parts.

    Args:
        url: As users write it, or in its parts already.
        example: What one looks like, for the error.

    Raises:
        ConfigurationError: It is none, holds a NUL, or an option without a value.
    """
    refusal = ConfigurationError(f"no database URL, such as {example}")
    if not isinstance(url, str | URL):
        raise refusal
    if isinstance(url, str) and (parts := _PARTS.match(url)):
        _refuse_half_options(parts[3])
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise refusal from None
    _refuse_nul(parsed.render_as_string(hide_password=False))
    return parsed


def _refuse_half_options(rest: str) -> None:
    options = filter(None, rest.partition("?")[2].split("&"))
    if not all(value for _, _, value in (each.partition("=") for each in options)):
        # SQLAlchemy leaves it out, and nobody would know that it does nothing.
        raise ConfigurationError(
            "the URL has an option without a value: write ?name=value&other=value"
        )


def _refuse_nul(text: str) -> None:
    if "\0" in unquote(text):
        # The driver would connect with what is before it, to somewhere else.
        raise ConfigurationError("the URL holds a NUL")


def read_server_url(url: str | URL, *, example: str, port: int) -> URL:
    """The URL of a server, or of several that keep the same.

    Several are written as ``host1:port1,host2:port2``, or as libpq has it, after a
    ``?``: ``host=host1,host2&port=port1,port2``.

    Args:
        url: As users write it, or in its parts already.
        example: What one looks like, for the error.
        port: What is meant where several hosts have none.

    Returns:
        The URL; several hosts and their ports as libpq has them.

    Raises:
        ConfigurationError: It is none.
    """
    written: Sequence[str] = ()
    if isinstance(url, str) and (parts := _PARTS.match(url)) and "," in parts[2]:
        # SQLAlchemy takes them for one host.
        _refuse_nul(parts[2])
        written = parts[2].split(",")
        url = parts[1] + parts[3]
    parsed = read_url(url, example=example)
    hosts = written or _listed(parsed.query.get("host", parsed.host))
    if any("@" in each for each in hosts):
        raise ConfigurationError(
            "the URL's host holds an @: write one that belongs to the password as %40"
        )
    ports = _listed(parsed.query.get("port", parsed.port))
    if len(hosts) > 1 or len(ports) > 1:
        return _with_hosts(parsed, hosts, ports or [str(port)])
    if not all(map(_is_port, ports)):
        raise ConfigurationError(f"the URL names {_NO_PORT}")
    return parsed


def _listed(given: str | int | Sequence[str] | None) -> Sequence[str]:
    if given is None:
        return []
    return str(given).split(",") if isinstance(given, str | int) else given


def _with_hosts(url: URL, hosts: Sequence[str], ports: Sequence[str]) -> URL:
    if len(ports) == 1:
        ports = [*ports] * len(hosts)
    if len(ports) != len(hosts):
        raise ConfigurationError(
            f"the URL has {len(hosts)} hosts and {len(ports)} ports: write"
            " host1:port1,host2:port2"
        )
    servers = [_server(*each) for each in zip(hosts, ports, strict=True)]
    several = {
        "host": ",".join(host for host, _ in servers),
        "port": ",".join(port for _, port in servers),
    }
    return url.set(host=None, port=None, query={**url.query, **several})


def _server(host: str, port: str) -> tuple[str, str]:
    """A host and its port, of which the one that is written beside it counts."""
    if (bracketed := _BRACKETED.fullmatch(host)) is not None:
        host, port = bracketed[1], bracketed[2] or port
    elif host.count(":") == 1:
        host, _, own = host.partition(":")
        port = own or port
    if not host:
        raise ConfigurationError("the URL names several hosts, and one is empty")
    if not _is_port(port):
        raise ConfigurationError(f"the URL names several hosts, and {_NO_PORT}")
    return unquote(host), port


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and 0 < int(text) <= _HIGHEST_PORT


_PAUSE = timedelta(seconds=1)


class Classes:
    """Knows which classes are in use, so that the others cost no statement.

    One is known as soon as this process has put or read a definition of it. What
    others have put is found by a claim: once in a second one looks into all classes.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._turns = Turns()
        # In order; replaced, never changed, so that it is read without a lock.
        self.known: tuple[int, ...] = (NORMAL,)
        self._look_at = elapsed()

    def learn(self, priorities: Iterable[int]) -> None:
        """Note that these are in use."""
        new = set(priorities).difference(self.known)
        if new:
            self.known = tuple(sorted(new.union(self.known)))

    def seen(self, definitions: Sequence[TaskDefinition]) -> Sequence[TaskDefinition]:
        """Note those of definitions, and answer these."""
        self.learn(each.priority for each in definitions)
        return definitions

    def in_turn(self, *, every: bool = False) -> Sequence[int]:
        """Those that are known, or all, in the order in which a claim asks them."""
        known = PRIORITIES if every else self.known
        return [each for each in self._turns.next() if each in known]

    def look(self) -> bool:
        """Whether the claim that is about to be made looks for others."""
        elapsed = self._elapsed()
        if elapsed < self._look_at or len(self.known) == len(PRIORITIES):
            return False
        self._look_at = elapsed + _PAUSE
        return True
