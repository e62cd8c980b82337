"""The thread that publishes for all others, and hears what the broker confirms."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from amqp.exceptions import AccessRefused

from go_scheduler.clock import ZERO
from go_scheduler.dispatch.kombu_bus.address import reason
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
        self._timeout = timeout
        self._queue_type = queue_type
        self._lock = threading.Lock()
        self._waiting: list[Posting] = []
        self._sending: list[Posting] = []
        # For which nobody waits any more.
        self._overdue: list[Posting] = []
        # What has been unconfirmed for longest, and how long it has been that.
        self._oldest: Posting | None = None
        self._oldest_since = ZERO
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
        self.put(posting)
        try:
            posting.outcome.result(self._timeout.total_seconds())
        except TimeoutError as error:
            # It is not sent any more, unless it has been.
            never = posting.outcome.cancel()
            self._put_overdue(posting)
            raised = self.address.unavailable(self._late())
            raised.unsent = never
            raise raised from error

    def put(self, posting: Posting) -> None:
        """Have it published; its outcome follows."""
        try:
            with self._lock:
                self._check()
                if not self._started:
                    self.start()
                    self._started = True
                self._waiting.append(posting)
        # Also of a process that may have no more threads or sockets now.
        except (OSError, RuntimeError) as error:
            posting.failed(error)
        else:
            self.wake()

    def _check(self) -> None:
        if self.closing:
            raise ConnectionAbortedError(_CLOSED)
        if self._down is not None:
            # Not itself, which would get a longer traceback each time.
            raise ConnectionError(reason(self._down))

    def _late(self) -> TimeoutError:
        return TimeoutError(_UNCONFIRMED.format(self._timeout.total_seconds()))

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
        if [each for each in overdue if not each.outcome.done()] or self._is_late():
            raise self._late()
        assert self._outlet is not None
        for each in self._sending:
            each.sent = True
            self._outlet.send(each)
        self._sending = []

    def _is_late(self) -> bool:
        """Whether the broker owes a confirmation that nobody need be waiting for."""
        assert self._outlet is not None
        oldest = next(iter(self._outlet.unconfirmed.values()), None)
        now = self._clock.elapsed()
        # While it takes nothing it owes nothing: another connection would be no better.
        if oldest is not self._oldest or self._down is not None:
            self._oldest, self._oldest_since = oldest, now
        return oldest is not None and now - self._oldest_since >= self._timeout

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
            # Who may not publish may publish none of them.
            if isinstance(error, AccessRefused):
                each.refused_for(error)
            else:
                each.failed(error)
