"""The socket that a server listens on, and how long clients may take to begin there."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.http.configuration.sections import ServerSection

_BACKLOG = 2048
_WHY_NOT = {
    errno.EADDRINUSE: "is taken: another server listens there; choose another --port",
    errno.EACCES: "needs rights that this user has not: choose a --port above 1023",
    errno.EADDRNOTAVAIL: "is no address of this machine: choose another --host",
}


def listening(server: ServerSection) -> socket.socket:
    """A socket that listens where it is set.

    Raises:
        ConfigurationError: It cannot.
    """
    where = f"{server.host}:{server.port}"
    try:
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        return socket.create_server(
            (server.host, server.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        reason = _WHY_NOT.get(error.errno or 0, f"cannot be listened on: {error}")
        raise ConfigurationError(f"{where} {reason}") from None


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers do not wait long for a client to agree on TLS.

    asyncio gives them a minute, and uvicorn says nothing of it.

    Args:
        handshake: How long that may take.
    """

    def __init__(self, handshake: timedelta) -> None:
        super().__init__()
        self._handshake = handshake.total_seconds()

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """A server."""
        if kwargs.get("ssl") is not None:
            kwargs = {"ssl_handshake_timeout": self._handshake} | kwargs
        return await super().create_server(*args, **kwargs)
