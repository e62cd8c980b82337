"""The thread that publishes for all others, and hears what the broker confirms."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from go_scheduler.dispatch.kombu_bus.line import Line
from go_scheduler.dispatch.kombu_bus.outlets import (
    ConfirmedOutlet,
    Outlet,
    PlainOutlet,
)
from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.dispatch.kombu_bus.address import Address
    from go_scheduler.dispatch.kombu_bus.posting import Posting
    from go_scheduler.dispatch.kombu_bus.wire import Wire

_LONG = 3600.0
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
        super().__init__(address, name="go_scheduler-bus-publisher", clock=clock)
        self._timeout = timeout.total_seconds()
        self._queue_type = queue_type
        self._lock = threading.Lock()
        self._waiting: list[Posting] = []
        self._down: Exception | None = None
        # What was sent, and for which nobody waits any more.
        self._overdue: deque[Posting] = deque()
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
            self._publish(posting)
        except BusUnavailableError as error:
            # Another one for each: the same is told to all that wait.
            own = BusUnavailableError(str(error))
            own.unsent = not posting.sent
            raise own from error.__cause__

    def _publish(self, posting: Posting) -> None:
        with self._lock:
            self._check()
            self._waiting.append(posting)
            if not self._started:
                self._started = True
                self.start()
        self.wake()
        try:
            posting.outcome.result(self._timeout)
        except TimeoutError as error:
            if not posting.outcome.cancel():
                self._overdue.append(posting)
                self.wake()
            late = TimeoutError(_UNCONFIRMED.format(self._timeout))
            raise self.address.unavailable(late) from error
        except BusUnavailableError:
            raise
        except Exception as error:
            raise self.address.unavailable(error) from error

    def _check(self) -> None:
        if self.closing:
            raise BusUnavailableError("the bus has been closed")
        if self._down is not None:
            raise self.address.unavailable(self._down)

    def end(self) -> None:
        """End the thread; whoever waits for an outcome is told."""
        if self._started:
            super().end()
        else:
            self.closing = True
        self._fail(BusUnavailableError("the bus has been closed"))

    def _begin(self, wire: Wire) -> None:
        if self.address.is_amqp:
            wire.connection.on_blocked = self._blocked
            wire.connection.on_unblocked = self._unblocked
            self._outlet = ConfirmedOutlet(wire, self._queue_type, again=self._again)
        else:
            self._outlet = PlainOutlet(wire)
        self._unblocked()

    def _turn(self) -> None:
        while self._overdue:
            if not self._overdue.popleft().outcome.done():
                raise TimeoutError(_UNCONFIRMED.format(self._timeout))
        with self._lock:
            sent, self._waiting = self._waiting, []
        assert self._outlet is not None
        for number, each in enumerate(sent):
            # Nobody waits any more for one that cannot be set running.
            if each.outcome.running() or each.outcome.set_running_or_notify_cancel():
                each.sent = True
                try:
                    self._outlet.send(each)
                except Exception:
                    with self._lock:
                        self._waiting += sent[number:]
                    raise

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
        if self._outlet is not None:
            failed += self._outlet.unconfirmed.values()
            self._outlet.unconfirmed.clear()
        for each in failed:
            each.failed(error)
