"""Hints that are heard on a connection, which any thread may close."""

from __future__ import annotations

import socket
import threading
from abc import abstractmethod

from go_scheduler.stores.hints import Hints, News


class HeardHints(Hints):
    """One thread waits; whoever closes it ends that, and does not wait for it.

    Attributes:
        ended: Can be read from once it has been closed: what waits looks at it as well.
        is_closed: Whether it has been closed.
    """

    def __init__(self) -> None:
        self.is_closed = False
        # Whoever closes this does not wait for the thread that waits.
        self._lock = threading.Lock()
        self._end, self.ended = socket.socketpair()

    def wait(self) -> News:
        """Wait for a hint; a new connection is as good as one."""
        try:
            with self._lock:
                return News.NOTHING if self.is_closed else self._heard()
        finally:
            if self.is_closed:
                self._let_go()

    def close(self) -> None:
        """Close the connection, or leave that to the thread that waits."""
        self.is_closed = True
        # The other end can be read from then on.
        self._end.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._disconnect()
                self.ended.close()
            finally:
                self._lock.release()

    def _heard(self) -> News:
        try:
            return self._hear()
        except BaseException:
            self._disconnect()
            raise

    @abstractmethod
    def _hear(self) -> News:
        """Connect, which may be news; or wait until something comes, or for the end."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one."""
