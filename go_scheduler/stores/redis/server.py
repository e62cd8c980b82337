"""The server of a Redis store: URL, connections, scripts, hints, what it may lose."""

from __future__ import annotations

import hashlib
import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from selectors import EVENT_READ, DefaultSelector
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import redis
from redis import cluster, sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from go_scheduler.checks import check_name
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.formatting import shown
from go_scheduler.stores.findings import (
    EVICTING,
    MAY_LOSE,
    NOT_KEPT,
    OLD_SERVER,
    READ_ONLY,
    well,
)
from go_scheduler.stores.hints import HeardHints, News
from go_scheduler.stores.redis.rows import present, write_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from go_scheduler.stores.findings import Finding

    Question: TypeAlias = Callable[[Any], Iterator[Finding]]

_SCHEMES = ("redis", "rediss", "redis+sentinel", "redis+cluster")
NAMESPACE = "go_scheduler"
"""Of a store of which nobody says another."""
_OPTIONS = ("namespace", "tls", "tls_ca")
_NUMBER = re.compile("[0-9]{1,9}")
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_HIGHEST_PORT = 65_535
_LIKE = (
    "redis://user:password@host:6379/0, rediss://… for TLS,"
    " redis+sentinel://host:26379,other:26379/name-of-master or"
    " redis+cluster://host:6379,other:6379"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Which servers, and how to be let in.

    Attributes:
        kind: One of ``redis``, ``rediss``, ``redis+sentinel`` and ``redis+cluster``.
        hosts: Names and ports: one, or some of the sentinels or of the cluster.
        master: What the sentinels call the master; else empty.
        database: Which of its databases.
        username: Who asks.
        password: By what that is known.
        tls: Whether connections are encrypted.
        ca: The file of whoever vouches for the servers; None: the machine's.
        namespace: What the keys of the store begin with.
    """

    kind: str
    hosts: tuple[tuple[str, int], ...]
    master: str = ""
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    namespace: str = NAMESPACE

    def __str__(self) -> str:
        hosts = ",".join(
            f"{f'[{host}]' if ':' in host else host}:{port}"
            for host, port in self.hosts
        )
        path = f"{self.master}/{self.database}" if self.master else str(self.database)
        option = ""
        if self.namespace != NAMESPACE:
            option = f"?namespace={quote(self.namespace, safe='')}"
        return f"{self.kind}://{hosts}/{path}{option}"


def parse(url: str, namespace: str | None = None) -> Address:
    """What a URL says.

    Args:
        url: Of a Redis store.
        namespace: What somebody says besides; None: nothing.

    Raises:
        ConfigurationError: It names no Redis, or another namespace. It says which part
            is wrong, and repeats none but the name of an option: any other may be of a
            password. Or the namespace cannot be part of a key.
    """
    if namespace is not None:
        _check_namespace("namespace", namespace)
    try:
        return _parse(url, namespace)
    # What it is raised from would repeat a part of it.
    except (ValueError, AttributeError) as error:
        ours = isinstance(error, ConfigurationError)
        what = f"{error}; one" if ours else "the URL of a Redis store"
        raise ConfigurationError(f"{what} is like {_LIKE}") from None


def _parse(url: str, namespace: str | None) -> Address:
    parts = urlsplit(url)
    kind = parts.scheme
    if kind not in _SCHEMES:
        raise ValueError
    if parts.fragment or "@" in parts.path + parts.query:
        raise _wrong(
            "has a # or, behind its host, an @: in a user or password write %40 for"
            " @, %2F for /, %3F for ? and %23 for #"
        )
    options = _options(parts.query)
    logged_in, _, hosts = parts.netloc.rpartition("@")
    username, _, password = logged_in.partition(":")
    master, database = _place(kind, parts.path)
    tls = kind == "rediss" or options.get("tls") == "true"
    ca = options.get("tls_ca")
    if ca is not None and not tls:
        raise _wrong(
            "has a tls_ca without TLS: begin it with rediss://, or add tls=true"
        )
    said = options.get("namespace", namespace or NAMESPACE)
    if said != (namespace or said):
        raise _wrong(
            f"has another namespace than the argument, {shown(namespace)}: say one"
        )
    return Address(
        kind=kind,
        hosts=_hosts(kind, hosts),
        master=master,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=tls,
        ca=ca,
        namespace=said,
    )


def _options(query: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in filter(None, query.split("&")):
        name, _, value = (
            unquote(part, errors="strict") for part in each.partition("=")
        )
        if name not in _OPTIONS:
            raise _wrong(f"has no option {shown(name)}, only namespace, tls and tls_ca")
        if name in found or not value:
            raise _wrong(f"has the option {name} more than once, or without a value")
        found[name] = value
    if found.get("tls", "true") not in ("true", "false"):
        raise _wrong("has an option tls that is neither true nor false")
    if (namespace := found.get("namespace")) is not None:
        _check_namespace("the namespace in the URL of a Redis store", namespace)
    return found


def _check_namespace(what: str, namespace: object) -> None:
    if set(check_name(what, namespace)) & set("{}"):
        raise ConfigurationError(
            f"{what} must be without braces: they mark the part of a key that all keys"
            " have in common"
        )


def _place(kind: str, path: str) -> tuple[str, int]:
    """What the sentinels call the master, and which database."""
    names = [unquote(each) for each in path.split("/") if each]
    master = ""
    if kind == "redis+sentinel":
        if not names:
            raise _wrong("has sentinels and not the name of their master")
        master = names.pop(0)
    if len(names) > 1 or not all(map(_NUMBER.fullmatch, names)):
        raise _wrong("has a database that is no whole number from 0, such as /0")
    database = int(names[0]) if names else 0
    if database and kind == "redis+cluster":
        raise _wrong("has a database, of which a cluster has 0 alone")
    return master, database


def _hosts(kind: str, text: str) -> tuple[tuple[str, int], ...]:
    hosts: Sequence[str] = text.split(",")
    if len(hosts) > 1 and "+" not in kind:
        raise _wrong("has several hosts, which only those of sentinels or a cluster do")
    if len(hosts) > 1 and not all(hosts):
        raise _wrong("has several hosts, and one is empty")
    return tuple(_host(each, 26379 if "sentinel" in kind else 6379) for each in hosts)


def _host(text: str, default: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    port = int((found and found[2]) or default)
    if found is None or not 0 < port <= _HIGHEST_PORT:
        raise _wrong(
            f"has a port that is no number from 1 to {_HIGHEST_PORT}, or an IPv6"
            " address without brackets"
        )
    return found[1].strip("[]").lower() or "localhost", port


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(f"the URL of a Redis store {what}")


_MOST_CONNECTIONS = 64

# Half of it has no types.
_cluster: Any = cluster
_sentinel: Any = sentinel
_plain: Any = redis


def client_of(address: Address, timeout: float) -> Any:
    """A client, not connected yet; each call of it takes a connection of its own.

    Args:
        address: Which servers.
        timeout: How many seconds an answer is waited for.
    """
    common: Mapping[str, object] = {
        "username": address.username,
        "password": address.password,
        "decode_responses": True,
        # Reading never fails, whatever somebody has written.
        "encoding_errors": "replace",
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "protocol": 2,
        **({"ssl_ca_certs": address.ca} if address.tls else {}),
    }
    if address.kind == "redis+cluster":
        return _cluster.RedisCluster(
            startup_nodes=[_cluster.ClusterNode(*each) for each in address.hosts],
            ssl=address.tls,
            **common,
        )
    # A call that was perhaps done is not repeated here: the loops know what to do.
    alone = {**common, "db": address.database, "retry": Retry(NoBackoff(), 0)}
    if address.kind == "redis+sentinel":
        sentinels = _sentinel.Sentinel(
            address.hosts,
            sentinel_kwargs={"socket_timeout": timeout},
            ssl=address.tls,
            **alone,
        )
        return sentinels.master_for(address.master, max_connections=_MOST_CONNECTIONS)
    [(host, port)] = address.hosts
    pool = _plain.BlockingConnectionPool(
        max_connections=_MOST_CONNECTIONS,
        timeout=timeout,
        connection_class=redis.SSLConnection if address.tls else redis.Connection,
        host=host,
        port=port,
        **alone,
    )
    # It closes the pool with itself.
    return redis.Redis.from_pool(pool)


_PASSING = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.MasterDownError,
    redis.exceptions.OutOfMemoryError,
    # No node that was named answers as one of a cluster.
    redis.exceptions.RedisClusterException,
)
_LASTING = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthorizationError,
)
# As Redis 6.2 says it of a script, they stand behind what failed in it.
_PASSING_WORDS = re.compile(
    r"\A(BUSY|LOADING|MISCONF|NOREPLICAS|UNKILLABLE) "
    r"|: -(OOM|MISCONF|NOREPLICAS|READONLY) "
)

_ELSEWHERE = (
    "Redis: another node of its cluster has the store; redis+cluster:// finds it"
)
_ON_ITS_WAY = (
    "Redis: the store's hash slot is being moved to another node of the cluster;"
    " it is back once it is there"
)


class Script(NamedTuple):
    """A whole script, and the digest by which a server knows it."""

    text: str
    digest: str


_SHARED = re.compile(r"\A-- with: ([a-z ]+)\n")


@cache
def script(name: str) -> Script:
    """The script of this name, behind the parts that it begins with."""

    def read(path: str) -> str:
        return files(__package__).joinpath("scripts", path).read_text("utf-8")

    own = read(f"{name}.lua")
    shared = _SHARED.match(own)
    parts = ["base", *(shared[1].split() if shared else ())]
    text = "\n".join([*(read(f"parts/{part}.lua") for part in parts), own])
    return Script(text, hashlib.sha1(text.encode()).hexdigest())


class Server:
    """Runs scripts, each a transaction, on whichever server has the store's slot.

    Args:
        address: Which servers.
        timeout: How long an answer is waited for.

    Attributes:
        prefix: What all keys of the store begin with.
    """

    def __init__(self, address: Address, timeout: timedelta) -> None:
        # In braces: all its keys are in one hash slot.
        self.prefix = f"{{{address.namespace}}}:"
        self.timeout = timeout.total_seconds()
        self._is_cluster = address.kind == "redis+cluster"
        self._address = address
        self._lock = Lock()
        self._made: Any = None

    @property
    def _client(self) -> Any:
        # Made when it is first needed: that of a cluster connects at once.
        with self._lock:
            if self._made is None:
                self._made = client_of(self._address, self.timeout)
            return self._made

    def run(self, name: str, /, **arguments: object) -> Any:
        """Run a script; arguments that are None are left out."""
        known, text = script(name), write_arguments(present(arguments))
        with told():
            try:
                return self._send("EVALSHA", known.digest, 1, self.prefix, text)
            except redis.exceptions.NoScriptError:
                # It has restarted, or another one has taken over.
                return self._send("EVAL", known.text, 1, self.prefix, text)

    def _send(self, *command: object) -> Any:
        if not self._is_cluster:
            return self._client.execute_command(*command)
        try:
            return self._send_to_node(*command)
        except redis.exceptions.MovedError:
            # It was not done there, and it is known now where it is to be done.
            return self._send_to_node(*command)

    def _send_to_node(self, *command: object) -> Any:
        """Run a command on the node of a cluster that has the store.

        The client of a cluster would send it again if its answer is lost, though it was
        perhaps done; and while a slot is being moved to another node, it would send it
        there, where a script finds some of its keys, and makes others anew.
        """
        try:
            return self._node().execute_command(*command)
        except (
            redis.exceptions.MovedError,
            redis.exceptions.ConnectionError,
            redis.exceptions.TimeoutError,
            redis.exceptions.ClusterDownError,
        ):
            # Another one may have it now, for the next call.
            self._client.nodes_manager.initialize()
            raise

    def _node(self) -> Any:
        client = self._client
        if not self._is_cluster:
            return client
        return client.get_redis_connection(client.get_node_from_key(self.prefix))

    def reached(self) -> Any:
        """A client of the one server that has the store.

        Raises:
            StoreUnavailableError: It cannot be reached.
        """
        with told():
            client = self._node()
            client.ping()
        return client

    def listen(self) -> Any:
        """What hears hints, on a connection of its own once it has subscribed."""
        return self._client.pubsub()

    def close(self) -> None:
        """Let go of all connections."""
        if self._made is not None:
            self._made.close()


@contextmanager
def told() -> Iterator[None]:
    """Raise what a driver raises as errors of ours."""
    try:
        yield
    except redis.exceptions.MovedError as error:
        raise StoreUnavailableError(_ELSEWHERE) from error
    except redis.exceptions.AskError as error:
        raise StoreUnavailableError(_ON_ITS_WAY) from error
    except (
        redis.exceptions.RedisError,
        redis.exceptions.RedisClusterException,
    ) as error:
        passes = isinstance(error, _PASSING) and not isinstance(error, _LASTING)
        if passes or _PASSING_WORDS.search(str(error)):
            raise StoreUnavailableError(f"Redis: {error}") from error
        raise StoreError(f"Redis: {error}") from error


_NEWS = {"d": News.DEFINITIONS, "i": News.INSTANCES}
_EVERY = timedelta(milliseconds=5)
"""So often at most a hint is published; scripts have the same number."""


class Listener(HeardHints):
    """Hears what others publish, for one node, on a connection of its own."""

    blind = 2 * _EVERY

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pubsub: Any = None
        super().__init__()

    def _hear(self) -> News:
        try:
            with told():
                return self._wait() if self._pubsub else self._subscribe()
        except StoreError as error:
            raise StoreUnavailableError(f"nothing is heard: {error}") from error

    def _subscribe(self) -> News:
        self._pubsub = self._server.listen()
        self._pubsub.subscribe(f"{self._server.prefix}hints")
        if self._pubsub.get_message(timeout=self._server.timeout) is None:
            raise StoreUnavailableError("Redis: no answer to a subscription")
        # Confirmed: from here on nothing is missed. What was put in meanwhile is new.
        return News.ANYTHING

    def _wait(self) -> News:
        """Wait until something comes, or for the end."""
        assert self._pubsub is not None, "it has subscribed"
        while not self.is_closed:
            if news := self._news(self._pubsub):
                return news
            with DefaultSelector() as selector:
                selector.register(self.ended, EVENT_READ)
                selector.register(self._pubsub.connection._sock, EVENT_READ)
                selector.select()
        return News.NOTHING

    def _news(self, pubsub: Any) -> News:
        """What was published, all that has come."""
        found = News.NOTHING
        while pubsub.connection.can_read(0):
            message: dict[str, Any] = pubsub.get_message() or {}
            found |= _NEWS.get(message.get("data", ""), News.ANYTHING)
        return found

    def _disconnect(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None


log = logging.getLogger("go_scheduler.stores.redis.server")

_LEAST_VERSION = (6, 2)


def check_version(client: Any) -> None:
    """Refuse a server whose scripts cannot do what ours do; not one that does not tell.

    Raises:
        ConfigurationError: It is older than Redis 6.2.
    """
    with told():
        try:
            version = client.info("server")["redis_version"]
        except redis.exceptions.ResponseError:
            # Its user may not ask. What else is wrong, the next call brings up.
            return
    if _is_old(version):
        raise ConfigurationError(
            f"the server is Redis {version}: a store needs Redis 6.2 or later, or"
            " Valkey"
        )


def _is_old(version: str) -> bool:
    return tuple(map(int, version.split(".")[:2])) < _LEAST_VERSION


def log_risks(client: Any) -> None:
    """Log what would be lost; nothing if the server does not tell."""
    with told():
        try:
            for each in _risks(client):
                level = logging.INFO if each.remedy is None else logging.WARNING
                log.log(level, "Redis: %s. %s", each.seen, each.remedy or "")
        except redis.exceptions.ResponseError:
            # Where others run the server, they often forbid to ask.
            return


def _risks(client: Any) -> Iterator[Finding]:
    """What would be lost, by the settings of a server."""
    settings = client.config_get("append*") | client.config_get("maxmemory*")
    policy, synced = settings["maxmemory-policy"], settings["appendfsync"]
    # The others remove only what has been given an end, as none of the store's is.
    if settings["maxmemory"] != "0" and policy.startswith("allkeys"):
        yield EVICTING.found(
            f"maxmemory-policy is {policy}", "CONFIG SET maxmemory-policy noeviction"
        )
    if settings["appendonly"] == "no":
        yield MAY_LOSE.found(
            "appendonly is no: when the server ends, what was written since its last"
            " snapshot is lost",
            "CONFIG SET appendonly yes",
        )
    elif synced == "no":
        yield MAY_LOSE.found(
            "appendfsync is no: if the machine dies, what was written in the last half"
            " minute may be lost",
            "CONFIG SET appendfsync everysec",
        )
    elif synced == "everysec":
        yield well(
            "persistence",
            "appendfsync is everysec: if the machine dies, what was written in the last"
            " second is lost",
        )
    else:
        yield well("persistence", f"appendonly is yes, and appendfsync {synced}")


def _itself(client: Any) -> Iterator[Finding]:
    info = client.info()
    version, valkey = info["redis_version"], info.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {version}"
    yield OLD_SERVER.found(name) if _is_old(version) else well("server", name)
    if info["role"] != "master":
        yield READ_ONLY.found(f"a replica of {info['master_host']}")


def _persistence(client: Any) -> Iterator[Finding]:
    info = client.info("persistence")
    failed = [name for name in _STATUSES if info.get(name, "ok") != "ok"]
    if failed:
        yield NOT_KEPT.found(", ".join(f"{name} is {info[name]}" for name in failed))
    yield from _risks(client)


_STATUSES = (
    "rdb_last_bgsave_status",
    "aof_last_bgrewrite_status",
    "aof_last_write_status",
)
QUESTIONS: dict[str, Question] = {"server": _itself, "persistence": _persistence}
"""What the doctor asks, by what it is about."""
