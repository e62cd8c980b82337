"""The socket that a server listens on."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
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
