"""Connections to PostgreSQL and CockroachDB: how they are made, and their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.crdb import CrdbConnection
from psycopg.types.string import TextLoader
from sqlalchemy import Connection, Engine, create_engine, event, exc

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.stores.sql.database import FOR_USERS, Fault, Lane, read_server_url

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from sqlalchemy.engine import URL, ExceptionContext

    from go_scheduler.stores.sql.tables import Read

OF_THE_DIALECT = "disable_cockroachdb_telemetry"
"""An option for SQLAlchemy's dialect of CockroachDB, and not for libpq."""


def check_options(given: Mapping[str, object]) -> None:
    """See that libpq knows each option of a URL, and that it is there once.

    Raises:
        ConfigurationError: One is unknown, or there more than once.
    """
    # The libpq that is there says which it has: they differ by its version.
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.parse(b"")}
    for name, value in given.items():
        if name not in known | {OF_THE_DIALECT}:
            # With an @ in it, it may be a part of a password.
            if "@" in str(given):
                raise ConfigurationError("an option of the URL is none of libpq's")
            near = get_close_matches(name, known, n=1)
            raise ConfigurationError(
                f"the option {shown(name)} of the URL is none of libpq's"
                + (f": did you mean {near[0]}?" if near else "")
            )
        if not isinstance(value, str):
            raise ConfigurationError(f"the URL has the option {name} more than once")


RV = TypeVar("RV")
Connect: TypeAlias = (
    "Callable[[Sequence[str], MutableMapping[str, Any]], psycopg.Connection[Any]]"
)

CONNECT_TIMEOUT = 5
_TIMEOUT_OF_EACH = 2
STATEMENT_TIMEOUT = 10
LOCK_TIMEOUT = 1.5
SHORT_LOCK_TIMEOUT = 0.01
ANSWER_TIMEOUT = 15
"""All in seconds. The last is the client's own: the others are kept by the server, and
a network that swallows packets keeps the client waiting for ever. A server looks for
deadlocks after one second, and should find them before a user's wait for a lock ends.
The loops have others to see to: what is locked they leave aside."""

_OF_LIBPQ: Mapping[str, object] = {
    "application_name": "go_scheduler",
    "client_encoding": "utf8",
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": ANSWER_TIMEOUT * 1000,
}
_POOL_TIMEOUT = 10
# Seconds after which a wait is told that nothing has come yet.
_WAIT_INTERVAL = 0.1
_GENERIC_PLANS = (Lane.NEW, Lane.BY_KEY, Lane.RENEWALS)
PLANS_FOR_ANY = "go_scheduler_plans_for_any_values"
"""The execution option of engines whose PostgreSQL does not look at the values."""
_SIZES = {Lane.BY_TIME: 3, Lane.BY_KEY: 2, Lane.RENEWALS: 1}


class EngineKind(Enum):
    """The kinds of servers that speak PostgreSQL's protocol."""

    POSTGRESQL = "postgresql"
    COCKROACHDB = "cockroachdb"

    @property
    def isolation_level(self) -> str:
        """The level of our transactions, whatever the database's default is."""
        return "READ COMMITTED" if self is EngineKind.POSTGRESQL else "SERIALIZABLE"

    @property
    def port(self) -> int:
        """Where such a server listens unless it was told otherwise."""
        return 5432 if self is EngineKind.POSTGRESQL else 26257

    @property
    def anywhere(self) -> Mapping[str, object]:
        """Options that differ from libpq's own for a server of this kind."""
        return {} if self is EngineKind.POSTGRESQL else {"port": self.port}

    @property
    def among_hosts(self) -> Mapping[str, object]:
        """How one of several hosts is chosen."""
        if self is EngineKind.POSTGRESQL:
            # The primary takes writes, its standbys do not.
            return {"target_session_attrs": "read-write"}
        return {"load_balance_hosts": "random"}


class _BoundedConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection that does not wait for ever.

    Attributes:
        answer_timeout: How many seconds it waits for an answer.
    """

    answer_timeout: float = ANSWER_TIMEOUT

    def wait(  # type: ignore[override] # versions differ in what more it takes
        self, gen: PQGen[RV], interval: float = _WAIT_INTERVAL, **more: Any
    ) -> RV:
        """Wait for an answer; close the connection if there is none in time."""
        return super().wait(self._bounded(gen, interval), interval, **more)

    def _bounded(self, gen: PQGen[RV], interval: float) -> PQGen[RV]:
        """Count the intervals in which nothing came."""
        silent = 0.0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent += 0 if ready else interval
                if silent >= self.answer_timeout:
                    self.close()
                    raise psycopg.OperationalError(
                        f"no answer within {self.answer_timeout} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: RV = end.value
            return answer


class _BoundedCrdbConnection(_BoundedConnection, CrdbConnection):
    """The same to CockroachDB."""


def make_engines(
    url: str | URL,
    kind: EngineKind,
    *,
    connect_args: Mapping[str, object] | None,
    pool_size: int,
) -> tuple[Mapping[Lane, Engine], Mapping[Lane, Connect]]:
    """An engine for each lane, and what opens its connections; none is open yet.

    Raises:
        ConfigurationError: The URL is none, or is not for this kind of server, or
            ``pool_size`` is below one.
    """
    check_type("pool_size", pool_size, int)
    if pool_size < 1:
        raise ConfigurationError(
            f"pool_size must be one or more, not {shown(pool_size)}"
        )
    driver_url = _checked(url, kind)
    _check_arguments(connect_args or {})
    engines = {
        lane: _make_engine(
            driver_url, kind, lane, pool_size=_SIZES.get(lane, pool_size)
        )
        for lane in Lane
    }
    connects = {lane: _connect_for(kind, lane, connect_args or {}) for lane in Lane}
    return engines, connects


def _checked(url: str | URL, kind: EngineKind) -> URL:
    example = f"{kind.value}://user:password@host:{kind.port}/database"
    parsed = read_server_url(url, example=example, port=kind.port)
    backend, _, driver = parsed.drivername.lower().partition("+")
    if backend == "postgres":
        backend = "postgresql"
    if backend != kind.value or driver not in ("", "psycopg"):
        hint = ""
        if backend == kind.value:
            hint = f" or {kind.value}+psycopg://, whatever driver all else has"
        raise ConfigurationError(
            f"the URL begins with {parsed.drivername}://; this store's begin with"
            f" {kind.value}://{hint}"
        )
    check_options(parsed.query)
    return parsed.set(drivername=f"{kind.value}+psycopg")


def _check_arguments(connect_args: Mapping[str, object]) -> None:
    check_type("connect_args", connect_args, Mapping)
    for name, value in connect_args.items():
        if isinstance(value, str) and "\0" in value:
            raise ConfigurationError(f"connect_args holds a NUL in {shown(name)}")


def _make_engine(url: URL, kind: EngineKind, lane: Lane, *, pool_size: int) -> Engine:
    for_any = kind is EngineKind.POSTGRESQL and lane in _GENERIC_PLANS
    engine = create_engine(
        url,
        execution_options={PLANS_FOR_ANY: for_any},
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_POOL_TIMEOUT,
        # The loops call so often that they notice a lost connection, and try again.
        # What is new is tried again, too: that it has been made is found then.
        pool_pre_ping=lane is Lane.BY_HAND,
    )
    event.listen(engine, "handle_error", _leave_a_standby)
    return engine


def _connect_for(
    kind: EngineKind, lane: Lane, connect_args: Mapping[str, object]
) -> Connect:
    settings = _settings(kind, lane)
    make = (
        _BoundedCrdbConnection if kind is EngineKind.COCKROACHDB else _BoundedConnection
    )

    def connect(
        args: Sequence[str], given: MutableMapping[str, Any]
    ) -> psycopg.Connection[Any]:
        given.pop(OF_THE_DIALECT, None)
        options = _options({**given, **connect_args}, kind)
        try:
            connection = make.connect(*args, **options)  # type: ignore[arg-type]
        except psycopg.OperationalError as error:
            # An error of a connection that does not exist yet has no code.
            for pattern, (meant, advice) in _REFUSALS.items():
                if (said := re.search(pattern, str(error))) is not None:
                    raise meant(f"{said[0]}{advice}") from error
            raise
        try:
            _set_up(connection, kind, settings)
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def _leave_a_standby(context: ExceptionContext) -> None:
    """Connect anew, to the primary, if this has become a standby."""
    code = getattr(context.original_exception, "sqlstate", None)
    if code == _READ_ONLY and context.engine is not None:
        context.is_disconnect = _names_several(context.engine.url.query)


def _names_several(options: Mapping[str, object]) -> bool:
    return "," in str(options.get("host", ""))


def _options(given: Mapping[str, object], kind: EngineKind) -> Mapping[str, object]:
    """All options of libpq: those that were given, and ours for the others."""
    options = {**_OF_LIBPQ, **kind.anywhere}
    if _names_several(given):
        options |= {"connect_timeout": _TIMEOUT_OF_EACH, **kind.among_hosts}
    return {**options, **given}


def _settings(kind: EngineKind, lane: Lane) -> Mapping[str, str]:
    lock_timeout = LOCK_TIMEOUT if lane in FOR_USERS else SHORT_LOCK_TIMEOUT
    settings = {
        "timezone": "UTC",
        "datestyle": "ISO, MDY",
        "statement_timeout": f"{STATEMENT_TIMEOUT}s",
        "lock_timeout": f"{lock_timeout * 1000:.0f}ms",
        "idle_in_transaction_session_timeout": f"{STATEMENT_TIMEOUT}s",
        "default_transaction_isolation": kind.isolation_level.lower(),
        # A custom plan, made for the values, finds the partial index whose condition
        # they meet. A generic plan is for statements that name rows by their keys: only
        # that walks the primary key whatever the statistics say, which are always stale
        # for a queue.
        "plan_cache_mode": (
            "force_generic_plan" if lane in _GENERIC_PLANS else "force_custom_plan"
        ),
    }
    if kind is EngineKind.POSTGRESQL and lane is not Lane.BY_HAND:
        # No other statement needs these plans, which a planner takes by the statistics
        # of a table that was empty a moment ago, or by none.
        for whole in ("enable_seqscan", "enable_bitmapscan", "enable_mergejoin"):
            settings[whole] = "off"
    if kind is EngineKind.COCKROACHDB:
        # The streamer waits for locked rows past every lock timeout.
        settings["streamer_enabled"] = "off"
    return settings


def _set_up(
    connection: psycopg.Connection[tuple[object, ...]],
    kind: EngineKind,
    settings: Mapping[str, str],
) -> None:
    found = EngineKind.POSTGRESQL
    if connection.info.parameter_status("crdb_version"):
        found = EngineKind.COCKROACHDB
    if found is not kind:
        raise ConfigurationError(
            f"the server is {found.value}: let the URL begin with {found.value}://"
        )
    connection.autocommit = True
    calls = ", ".join("set_config(%s, %s, false)" for _ in settings)
    values = [text for setting in settings.items() for text in setting]
    connection.execute(f"SELECT {calls}".encode(), values)
    # Times are read by the columns' types: one that they cannot read affects no other.
    connection.adapters.register_loader("timestamptz", TextLoader)


_MISSING = " on this server: create it, or mind the URL"
_REFUSALS = {
    'database ".*" does not exist': (psycopg.errors.InvalidCatalogName, _MISSING),
    'role ".*" does not exist': (
        psycopg.errors.InvalidAuthorizationSpecification,
        _MISSING,
    ),
    'password authentication failed for user ".*"': (
        psycopg.errors.InvalidPassword,
        " on this server: mind the URL",
    ),
    # Of libpq's own: it has asked nobody, and will never do.
    'invalid .* value(: ".*"| ".*" for connection option ".*")': (
        psycopg.errors.InvalidParameterValue,
        ": mind the URL",
    ),
}
_READ_ONLY = "25006"
_CONFLICTS = {"40001", "40P01"}
# Lock and statement timeouts: of a batch they may concern a single row.
_TIMEOUTS = {"55P03", "57014"}
# Classes of codes: connection, rolled back, resources, intervention by an operator,
# system errors; and 25006, read-only, and XXC02, throttled for want of a licence.
_UNAVAILABLE = ("08", "40", "53", "57", "58", _READ_ONLY, "XXC02")
_LOST = {"40003", "08006", "08003", "08007", "57P01", "57P02"}


def met_a_lock(error: BaseException) -> bool:
    """Whether an error of ours says that somebody else kept a row locked."""
    cause = getattr(error.__cause__, "orig", None)
    return getattr(cause, "sqlstate", None) == "55P03"


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """The meaning of an error that SQLAlchemy raised, and its code."""
    if isinstance(error, exc.TimeoutError):
        return Fault.UNAVAILABLE, "pool"
    if not isinstance(error, exc.DBAPIError):
        return Fault.WRONG, ""
    code = getattr(error.orig, "sqlstate", None)
    if code in _CONFLICTS:
        return Fault.CONFLICT, code
    if code in _TIMEOUTS:
        return Fault.BUSY, code
    if error.connection_invalidated or code in _LOST:
        return Fault.LOST, code or ""
    if code is None:
        operational = isinstance(error.orig, psycopg.OperationalError)
        return (Fault.UNAVAILABLE if operational else Fault.WRONG), ""
    return (Fault.UNAVAILABLE if code.startswith(_UNAVAILABLE) else Fault.WRONG), code


def within(
    kind: str, connection: Connection, read: Callable[[Connection], Read]
) -> Read:
    """Run a function within a transaction of a kind."""
    connection.exec_driver_sql(f"BEGIN {kind}")
    try:
        found = read(connection)
    except BaseException:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK")
        raise
    # COMMIT also where nothing was written: after a ROLLBACK psycopg would prepare
    # every statement anew.
    connection.exec_driver_sql("COMMIT")
    return found
