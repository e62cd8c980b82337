"""The server of a Redis store: connections, scripts, and errors told in our words."""

from __future__ import annotations

import re
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import redis

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.json import to_text
from go_scheduler.stores.redis.clients import client_of
from go_scheduler.stores.redis.cluster_node import run_where
from go_scheduler.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from go_scheduler.stores.redis.urls import Address

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


class Server:
    """Runs scripts, each a transaction, on whichever server has the store's slot.

    Args:
        address: Which servers.
        prefix: What all keys of the store begin with.
        timeout: How long an answer is waited for.
    """

    def __init__(self, address: Address, prefix: str, timeout: timedelta) -> None:
        self.prefix = prefix
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
        given = {key: each for key, each in arguments.items() if each is not None}
        text = to_text(given)
        return self.run_text(name, text)

    def run_text(self, name: str, text: str) -> Any:
        """Run a script with what is JSON already."""
        known = script(name)
        with told():
            try:
                return self._evaluate("EVALSHA", known.digest, text)
            except redis.exceptions.NoScriptError:
                # It has restarted, or another one has taken over.
                return self._evaluate("EVAL", known.text, text)

    def _evaluate(self, command: str, script: str, text: str) -> Any:
        arguments = (command, script, 1, self.prefix, text)
        if self._is_cluster:
            return run_where(self._client, self.prefix, *arguments)
        return self._client.execute_command(*arguments)

    def version(self) -> tuple[int, ...] | None:
        """The version of Redis that the server is or is like; None: it does not say."""
        with told():
            try:
                info = self._client.info("server", **self._there())
            except redis.exceptions.ResponseError:
                # Its user may not ask. What else is wrong, the next call brings up.
                return None
        return tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])

    def settings(self, names: Sequence[str]) -> dict[str, str]:
        """What the server says of its settings; nothing if it does not say."""
        found: dict[str, str] = {}
        with told():
            try:
                for name in names:
                    found |= self._client.config_get(name, **self._there())
            except redis.exceptions.ResponseError:
                # Where others run the server, they often forbid it.
                return {}
        return found

    def _there(self) -> dict[str, object]:
        """Of a cluster: that node which has the store."""
        if not self._is_cluster:
            return {}
        return {"target_nodes": self._client.get_node_from_key(self.prefix)}

    def reached(self) -> Any:
        """A client of the one server that has the store.

        Raises:
            StoreUnavailableError: It cannot be reached.
        """
        with told():
            client = self._client
            if self._is_cluster:
                node = client.get_node_from_key(self.prefix)
                client = client.get_redis_connection(node)
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
