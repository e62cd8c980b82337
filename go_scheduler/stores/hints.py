"""Hints: how a node learns at once of what another process has put into its store."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from datetime import timedelta
from enum import Flag, auto
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

SOON = timedelta(seconds=2)
"""What is due later than this when it is put is found in time without a hint."""

SOON_AFTER_ALL = timedelta(minutes=1)
"""The same of what may commit only so much later: a transaction of the user's."""


class News(Flag):
    """What there may be something new of."""

    NOTHING = 0
    DEFINITIONS = auto()
    INSTANCES = auto()
    ANYTHING = DEFINITIONS | INSTANCES


class Hints(ABC):
    """Tells one node that there may be something new in its store.

    Nothing depends on it. A hint may be lost, and one may come though there is nothing
    new: the node looks by itself as well, only later.

    Attributes:
        blind: For how long after a hint there may be more that no further hint tells
            of.
    """

    blind: timedelta = ZERO

    @abstractmethod
    def wait(self) -> News:
        """Wait for the next hint, in the one thread that calls this.

        Returns:
            What there may be something new of; of nothing once it has been closed.

        Raises:
            StoreUnavailableError: Nothing is heard of; a further call tries again.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of what it takes, end a wait and let no other begin; returns at once.

        Harmless if it is closed.
        """


class Polls(Hints):
    """Looks again and again whether there may be something new.

    Args:
        every: After how long it looks again.
        is_news: Whether there may be.
    """

    def __init__(self, every: timedelta, is_news: Callable[[], bool]) -> None:
        self._every = every
        self._is_news = is_news
        self._closed = threading.Event()

    def wait(self) -> News:
        """Wait for the next poll."""
        while not self._closed.wait(self._every.total_seconds()):
            if self._is_news():
                return News.ANYTHING
        return News.NOTHING

    def close(self) -> None:
        """End a wait."""
        self._closed.set()


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
