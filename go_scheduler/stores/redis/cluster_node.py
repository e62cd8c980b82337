"""Scripts on that node of a cluster which has the store, and on no other."""

from __future__ import annotations

from typing import Any

import redis


def run_where(client: Any, key: str, *arguments: object) -> Any:
    """Run a command on the node of a cluster that has the slot of a key.

    The client of a cluster would send it again if its answer is lost, though it was
    perhaps done; and while a slot is being moved to another node, it would send it
    there, where a script finds some of its keys, and makes others anew.

    Args:
        client: That of the cluster.
        key: Nothing has this name, but what has its slot.
        *arguments: The command.
    """
    try:
        return _run(client, key, arguments)
    except redis.exceptions.MovedError:
        # It was not done there, and it is known now where it is to be done.
        return _run(client, key, arguments)


def _run(client: Any, key: str, arguments: tuple[object, ...]) -> Any:
    node = client.get_node_from_key(key)
    try:
        return client.get_redis_connection(node).execute_command(*arguments)
    except (
        redis.exceptions.MovedError,
        redis.exceptions.ConnectionError,
        redis.exceptions.TimeoutError,
        redis.exceptions.ClusterDownError,
    ):
        # Another one may have it now, for the next call.
        client.nodes_manager.initialize()
        raise
