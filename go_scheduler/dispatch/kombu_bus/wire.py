"""One connection to a broker, for the one thread that uses it."""

from __future__ import annotations

import contextlib
from queue import Empty
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

    from kombu import Connection


class Wire:
    """A connection that is open; nothing of kombu's connects anew behind our back.

    Args:
        client: Where to, and how.

    Raises:
        Exception: Whatever the driver raises, if it cannot be opened.
    """

    def __init__(self, client: Connection) -> None:
        # kombu closes it with its client, which nobody else holds.
        self._client = client
        self._transport = client.transport
        self._channels: list[Any] = []
        self.connection: Any = self._transport.establish_connection()

    @property
    def socket(self) -> socket.socket:
        """What a broker of AMQP is heard on."""
        sock: socket.socket = self.connection.sock
        return sock

    def channel(self) -> Any:
        """A new channel."""
        channel = self._transport.create_channel(self.connection)
        self._channels.append(channel)
        return channel

    def drain(self, seconds: float) -> bool:
        """Handle what comes next; whether anything came in time."""
        try:
            self._transport.drain_events(self.connection, timeout=seconds)
        except (TimeoutError, Empty):
            return False
        return True

    def beat(self) -> None:
        """Tell the broker that we are there.

        Raises:
            Exception: It has not been heard of for long.
        """
        self._transport.heartbeat_check(self.connection)

    def close(self, *, answered: bool = True) -> None:
        """Close it, and if the broker is there have it say so."""
        with contextlib.suppress(Exception):
            if answered:
                self._transport.close_connection(self.connection)
        # Whatever has become of it, its sockets are closed.
        if hasattr(self._transport, "_collect"):
            with contextlib.suppress(Exception):
                self._transport._collect(self.connection)
            return
        for each in self._channels:
            # It would give back at the process's end what others have had since.
            each.do_restore = False
            # The first time it still waits for an answer, and the second for none.
            for _ in range(2):
                with contextlib.suppress(Exception):
                    each.close()
