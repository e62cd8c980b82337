"""The server of a Redis store: connections, scripts, and errors told in our words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.json import to_text
from go_scheduler.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from go_scheduler.stores.redis.urls import Address

_MOST_CONNECTIONS = 64

_PASSING = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.MasterDownError,
    redis.exceptions.OutOfMemoryError,
)
_LASTING = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthorizationError,
)
_PASSING_WORDS = ("BUSY ", "LOADING ", "MISCONF ", "NOREPLICAS ", "UNKILLABLE ")


class Server:
    """Runs scripts, each a transaction, on whichever server has the store's slot.

    Args:
        address: Which servers.
        prefix: What all keys of the store begin with.
        timeout: How long an answer is waited for.
    """

    def __init__(self, address: Address, prefix: str, timeout: timedelta) -> None:
        self.prefix = prefix
        self._client = _client(address, timeout.total_seconds())

    def run(self, name: str, /, **arguments: object) -> Any:
        """Run a script; arguments that are None are left out."""
        given = {key: each for key, each in arguments.items() if each is not None}
        text = to_text(given)  # type: ignore[arg-type]
        return self.run_text(name, text)

    def run_text(self, name: str, text: str) -> Any:
        """Run a script with what is JSON already."""
        known = script(name)
        with told():
            try:
                return self._client.evalsha(known.digest, 1, self.prefix, text)
            except redis.exceptions.NoScriptError:
                # It has restarted, or another one has taken over.
                return self._client.eval(known.text, 1, self.prefix, text)

    def configuration(self, *names: str) -> dict[str, str]:
        """What the server says of its settings; nothing if it does not say."""
        with told():
            try:
                return dict(self._client.config_get(*names))
            except redis.exceptions.ResponseError:
                # Where others run the server, they often forbid it.
                return {}

    def listen(self) -> redis.client.PubSub:
        """What hears hints, on a connection of its own once it has subscribed."""
        return self._client.pubsub(ignore_subscribe_messages=True)

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()


@contextmanager
def told() -> Iterator[None]:
    """Raise what a driver raises as errors of ours."""
    try:
        yield
    except redis.exceptions.RedisError as error:
        passes = isinstance(error, _PASSING) and not isinstance(error, _LASTING)
        if passes or str(error).startswith(_PASSING_WORDS):
            raise StoreUnavailableError(f"Redis: {error}") from error
        raise StoreError(f"Redis: {error}") from error


def _client(address: Address, timeout: float) -> Any:
    common = {
        "username": address.username,
        "password": address.password,
        "decode_responses": True,
        # Reading never fails, whatever somebody has written.
        "encoding_errors": "replace",
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "protocol": 2,
    }
    [host, port], *_ = address.hosts
    if address.kind == "redis+cluster":
        return redis.RedisCluster(
            startup_nodes=[ClusterNode(*each) for each in address.hosts],
            ssl=address.tls,
            **common,
        )
    # A call that was perhaps done is not repeated here: the loops know what to do.
    common |= {"db": address.database, "retry": Retry(NoBackoff(), 0)}
    if address.tls:
        common["ssl"] = True
    if address.kind == "redis+sentinel":
        sentinels = Sentinel(address.hosts, socket_timeout=timeout)
        return sentinels.master_for(
            address.master, max_connections=_MOST_CONNECTIONS, **common
        )
    kind = redis.SSLConnection if common.pop("ssl", False) else redis.Connection
    pool = redis.BlockingConnectionPool(
        max_connections=_MOST_CONNECTIONS,
        timeout=timeout,
        connection_class=kind,
        host=host,
        port=port,
        **common,
    )
    return redis.Redis(connection_pool=pool)
