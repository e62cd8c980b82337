"""A thread with a connection of its own, which it makes anew whenever it is lost."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from amqp.exceptions import AccessRefused

from go_scheduler.clock import ZERO
from go_scheduler.dispatch.kombu_bus.waker import Waker

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.dispatch.kombu_bus.address import Address
    from go_scheduler.dispatch.kombu_bus.wire import Wire

_LOG = logging.getLogger("go_scheduler.dispatch")
_BEAT = timedelta(seconds=1)
_FIRST_BACKOFF = timedelta(milliseconds=100)
_LONGEST_BACKOFF = timedelta(seconds=5)


def backoff(error: Exception, failures: int) -> timedelta:
    """How long to wait after an error, and so many before it, until the next try."""
    if isinstance(error, AccessRefused):
        # Somebody has to grant it first, and some of it shows only in what follows.
        return _LONGEST_BACKOFF
    return min(_LONGEST_BACKOFF, _FIRST_BACKOFF * (1 << min(failures, 10)))


class Line(ABC):
    """What the publisher and subscriptions have in common: a life with a broker.

    A connection is used by its thread alone. Others leave what they want done, and wake
    the thread.

    Args:
        address: Where the broker is.
        name: What it is called in the log, and in the name of its thread.
        clock: Tells when to tell the broker that we are there.
    """

    def __init__(self, address: Address, *, name: str, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self._failures = 0
        self._away = False
        self.closing = False
        self._name = name
        self._thread = threading.Thread(
            target=self._live, name=f"go_scheduler-bus {name}", daemon=True
        )

    def start(self) -> None:
        """Begin to connect, in the background."""
        self._waker = Waker()
        self._thread.start()

    def wake(self) -> None:
        """Have the thread look at what it has been left."""
        if threading.current_thread() is not self._thread:
            self._waker.wake()

    def end(self) -> None:
        """End the thread, and wait until it has ended, unless it is the caller."""
        self.closing = True
        self.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _live(self) -> None:
        try:
            while not self.closing:
                self._connect_and_talk()
        finally:
            self._waker.close()

    def _connect_and_talk(self) -> None:
        try:
            wire = self.address.connect()
        except Exception as error:
            self._failed(error)
            return
        answered = True
        try:
            self._begin(wire)
            self._failures = 0
            self._tell_of_return()
            while not self.closing:
                self._turn()
                self._listen(wire)
            self._finish(wire)
        except Exception as error:
            answered = False
            self._failed(error)
        finally:
            wire.close(answered=answered)

    def _listen(self, wire: Wire) -> None:
        """Wait for the broker or a wake, and handle all that has come."""
        if not self.address.is_amqp:
            self._listen_without_socket(wire)
            return
        readable = self._waker.wait(_BEAT.total_seconds(), wire.socket)
        while readable:
            wire.drain(_BEAT.total_seconds())
            readable = self._waker.wait(0, wire.socket)
        wire.beat()

    def _failed(self, error: Exception) -> None:
        if self.closing:
            return
        self._lost(error)
        self._tell_of_loss(error)
        delay = backoff(error, self._failures)
        self._failures += 1
        self._back_off(delay)

    def _back_off(self, delay: timedelta) -> None:
        until = self._clock.elapsed() + delay
        while not self.closing and (left := until - self._clock.elapsed()) > ZERO:
            self._waker.wait(left.total_seconds())

    def _tell_of_loss(self, error: Exception) -> None:
        if not self._away:
            self._away = True
            _LOG.warning("%s: %s", self._name, self.address.unavailable(error))

    def _tell_of_return(self) -> None:
        if self._away:
            self._away = False
            _LOG.info("%s: the bus at %s is there", self._name, self.address.shown)

    @abstractmethod
    def _begin(self, wire: Wire) -> None:
        """A connection has been made."""

    @abstractmethod
    def _turn(self) -> None:
        """Do what others have left to be done."""

    @abstractmethod
    def _listen_without_socket(self, wire: Wire) -> None:
        """Wait as ``_listen`` does, for a broker that is not heard on a socket."""

    @abstractmethod
    def _finish(self, wire: Wire) -> None:
        """It is closed in order; the connection is still there."""

    @abstractmethod
    def _lost(self, error: Exception) -> None:
        """There is no connection, for this reason."""
