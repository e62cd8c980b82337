"""The thread that publishes for all others, and hears what the broker confirms."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from go_scheduler.dispatch.kombu_bus.line import Line
from go_scheduler.dispatch.kombu_bus.outlets import (
    ConfirmedOutlet,
    Outlet,
    PlainOutlet,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.dispatch.kombu_bus.address import Address
    from go_scheduler.dispatch.kombu_bus.posting import Posting
    from go_scheduler.dispatch.kombu_bus.wire import Wire

_LONG = 3600.0
_CLOSED = "it has been closed here"
_UNCONFIRMED = "it has not confirmed a message within {:g} s"


class Publisher(Line):
    """Publishes over one connection what any number of threads want published.

    It sends whatever there is and hears of confirmations meanwhile, so that the wait
    for the broker's disk is that of all.

    Args:
        address: Where the broker is.
        timeout: How long it may take to confirm.
        queue_type: The type of queues that are not there yet.
        clock: That of the line.
    """

    def __init__(
        self, address: Address, *, timeout: timedelta, queue_type: str, clock: Clock
    ) -> None:
        super().__init__(address, name="publisher", clock=clock)
        self._timeout = timeout.total_seconds()
        self._queue_type = queue_type
        self._lock = threading.Lock()
        self._waiting: list[Posting] = []
        self._sending: list[Posting] = []
        # For which nobody waits any more.
        self._overdue: list[Posting] = []
        self._down: Exception | None = None
        self._started = False
        self._outlet: Outlet | None = None

    @property
    def is_up(self) -> bool:
        """Whether nothing speaks against it."""
        return self._down is None and not self.closing

    def publish(self, posting: Posting) -> None:
        """Publish it, and wait until the broker has it.

        Raises:
            BusUnavailableError: It does not, or nobody knows.
        """
        try:
            self._put(posting)
            posting.outcome.result(self._timeout)
        except TimeoutError as error:
            # It is not sent any more, unless it has been.
            posting.outcome.cancel()
            self._put_overdue(posting)
            late = TimeoutError(_UNCONFIRMED.format(self._timeout))
            raise self._unavailable(posting, late) from error
        except Exception as error:
            raise self._unavailable(posting, error) from error

    def _unavailable(self, posting: Posting, error: Exception) -> Exception:
        # Another one for each: the same is told to all that wait.
        raised = self.address.unavailable(error)
        raised.unsent = not posting.sent
        return raised

    def _put(self, posting: Posting) -> None:
        with self._lock:
            if self.closing:
                raise ConnectionAbortedError(_CLOSED)
            if self._down is not None:
                # Not itself, which would get a longer traceback each time.
                raise ConnectionError(str(self._down) or type(self._down).__name__)
            self._waiting.append(posting)
            if not self._started:
                self._started = True
                self.start()
        self.wake()

    def _put_overdue(self, posting: Posting) -> None:
        with self._lock:
            self._overdue.append(posting)
        self.wake()

    def end(self) -> None:
        """End the thread; whoever waits for an outcome is told."""
        self.closing = True
        if self._started:
            super().end()
        self._fail(ConnectionAbortedError(_CLOSED))

    def _begin(self, wire: Wire) -> None:
        if self.address.is_amqp:
            wire.connection.on_blocked = self._blocked
            wire.connection.on_unblocked = self._unblocked
            self._outlet = ConfirmedOutlet(wire, self._queue_type, again=self._again)
        else:
            self._outlet = PlainOutlet(wire)
        self._unblocked()

    def _turn(self) -> None:
        with self._lock:
            overdue, self._overdue = self._overdue, []
            waiting, self._waiting = self._waiting, []
        self._sending = [each for each in waiting if each.is_awaited()]
        # What went over a connection that has been lost has an outcome, and so has
        # what was not sent.
        if [each for each in overdue if not each.outcome.done()]:
            raise TimeoutError(_UNCONFIRMED.format(self._timeout))
        assert self._outlet is not None
        for each in self._sending:
            each.sent = True
            self._outlet.send(each)
        self._sending = []

    def _listen_without_socket(self, wire: Wire) -> None:
        self._waker.wait(_LONG)

    def _finish(self, wire: Wire) -> None:
        """Whoever waits for an outcome now is told that nobody knows."""

    def _again(self, posting: Posting) -> None:
        with self._lock:
            self._waiting.append(posting)
        self._waker.wake()

    def _blocked(self, reason: str) -> None:
        """The broker has no memory or no disk left, and reads no more of this."""
        self._lost(BlockingIOError("it takes nothing: it is short of memory or disk"))

    def _unblocked(self) -> None:
        with self._lock:
            self._down = None

    def _lost(self, error: Exception) -> None:
        with self._lock:
            self._down = error
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            failed, self._waiting = self._waiting, []
        failed += self._sending
        if self._outlet is not None:
            failed += self._outlet.unconfirmed.values()
        for each in failed:
            each.failed(error)
