"""Clients of redis-py: one for each way in which servers can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
from redis import cluster, sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.stores.redis.urls import Address

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
    return redis.Redis(connection_pool=pool)
