"""What ends the wait of a thread that waits for a socket."""

from __future__ import annotations

import socket
from select import POLLIN, poll
from ssl import SSLSocket


class Waker:
    """Any thread wakes, and one waits: for that, or for a socket besides."""

    def __init__(self) -> None:
        self._end, self._waker = socket.socketpair()
        self._end.setblocking(False)
        self._waker.setblocking(False)
        self._woken = False

    def wake(self) -> None:
        """End the wait, or the next one; harmless once it has been closed."""
        if not self._woken:
            self._woken = True
            try:
                self._waker.send(b"\0")
            except OSError:
                # Nobody waits any more.
                return

    def wait(self, seconds: float, heard: socket.socket | None = None) -> bool:
        """Wait; whether there is something to be read from the other socket."""
        if isinstance(heard, SSLSocket) and heard.pending():
            return True
        # What the other one is may change from one wait to the next.
        waited = poll()
        waited.register(self._end, POLLIN)
        if heard is not None:
            waited.register(heard, POLLIN)
        found = {each for each, _ in waited.poll(max(0, seconds) * 1000)}
        if self._end.fileno() in found:
            self._end.recv(1024)
            # From here on who wakes is seen by the next wait.
            self._woken = False
        return heard is not None and heard.fileno() in found

    def close(self) -> None:
        """Let go of its sockets."""
        self._end.close()
        self._waker.close()
