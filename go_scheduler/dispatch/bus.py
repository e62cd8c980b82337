"""The interface of a message bus: what is published, delivered and acknowledged."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future
from functools import cached_property, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

_MOST_THREADS = 16


class Aside:
    """Calls each function on one of a few daemon threads.

    Args:
        most: The most threads.
    """

    def __init__(self, most: int = _MOST_THREADS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._threads = 0

    def call(self, function: Callable[[], None]) -> Future[None]:
        """Have it called soon; answers what comes of it."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((function, future))
            begin = self._threads < self._most
            self._threads += begin
        if begin:
            name = "go_scheduler-bus publishing"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def _work(self) -> None:
        while (found := self._next()) is not None:
            function, future = found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

    def _next(self) -> tuple[Callable[[], None], Future[None]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None


OPENER = "open_bus(), in go_scheduler.dispatch"
"""What makes one of a URL."""


class MessageBus(ABC):
    """Takes messages by topic, and delivers each at least once to one subscriber.

    A topic is a queue: of its subscribers, wherever they are, one is given a message,
    and another one if that one goes without acknowledging it. A message may come twice,
    and late; what goes over a bus is fenced, so that this does no harm.

    Making one connects to nothing. Every method may be called from any thread.
    """

    @abstractmethod
    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> None:
        """Put a message on the bus; on return it is there for good.

        It survives the bus's restart, and waits for a subscriber if there is none yet.

        Args:
            topic: Where to, of 1 to 255 bytes.
            body: The message.
            expires: The bus may drop it after this time, if nobody was given it.
            keep: Whether it has to wait if nobody subscribes to the topic. Without,
                for what is told to one process alone, the bus may drop it then, and at
                its restart.

        Raises:
            BusUnavailableError: Within about two seconds, at once if the bus is known
                to be away. The message may nevertheless be on the bus, or come to be,
                unless the error's ``unsent`` is true.
        """

    def publish_soon(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> Future[None]:
        """Put a message on the bus, and return at once: many are so under way.

        A bus that can, sends without waiting for what it has sent before. This one
        calls ``publish`` on some threads, which end when nothing is left.

        Args:
            topic: As for ``publish``.
            body: Likewise.
            expires: Likewise.
            keep: Likewise.

        Returns:
            Done once the message is there for good, or raises what ``publish`` would,
            within some seconds. What is called when it is done is not to wait. Those
            that are under way together may come in any order.
        """
        publish = partial(self.publish, topic, body, expires=expires, keep=keep)
        return self._aside.call(publish)

    @cached_property
    def _aside(self) -> Aside:
        return Aside()

    @abstractmethod
    def subscribe(
        self,
        topic: str,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int = 1,
        own: bool = False,
    ) -> Subscription:
        """Have what comes under a topic delivered, until the subscription is closed.

        It returns at once, survives the bus, and connects anew by itself.

        Args:
            topic: What to hear.
            receive: Called with each message, on the subscription's own thread. It is
                not to wait. If it raises, that is logged, and the message rejected
                without being queued again.
            prefetch: The most messages that are delivered and not acknowledged; with
                zero, none come.
            own: The topic is this process's alone; the bus forgets it, and what waits
                there, once the subscription has been closed, or gone for a while.

        Raises:
            BusUnavailableError: The bus has been closed.
        """

    @abstractmethod
    def is_up(self) -> bool:
        """Whether a publish is likely to succeed: known, without asking.

        True to begin with. False from a failure until the bus has answered again, for
        which somebody looks in the background.
        """

    def check(self) -> None:
        """Find out whether the bus lets us in, for whoever wants to know at once.

        A bus that cannot find out does nothing, as this one.

        Raises:
            BusUnavailableError: Within some seconds; its ``refused`` says whether to
                wait helps. Nothing else is changed by it: what publishes and subscribes
                connects by itself, and anew, whatever this has raised.
        """
        return

    @abstractmethod
    def close(self) -> None:
        """End all subscriptions, let go of connections and threads.

        Harmless if it is closed; a later ``publish`` or ``subscribe`` raises
        ``BusUnavailableError``.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Delivery(ABC):
    """A message that was delivered, to be acknowledged once, from any thread.

    Once the connection it came over has gone, ``ack`` and ``reject`` do nothing: the
    bus delivers the message again. So does a second call.
    """

    @property
    @abstractmethod
    def body(self) -> bytes:
        """The message."""

    @property
    @abstractmethod
    def redelivered(self) -> bool:
        """Whether it may have been delivered before, as far as the bus knows."""

    @abstractmethod
    def ack(self) -> None:
        """Tell the bus that it is done with; returns at once."""

    @abstractmethod
    def reject(self, *, requeue: bool) -> None:
        """Give it back, for anybody, or have the bus drop it; returns at once."""


class Subscription(ABC):
    """What is delivered of a topic to this process."""

    @abstractmethod
    def resize(self, prefetch: int) -> None:
        """Change how many may be delivered and not acknowledged; returns at once.

        It holds for what is acknowledged from then on. What is under way may still
        come when it is made smaller, and what was delivered before may not count.

        Args:
            prefetch: Zero or more; with zero, none come until it is raised.
        """

    @abstractmethod
    def close(self) -> None:
        """Take no more; what is not acknowledged goes back to the bus.

        ``receive`` is not called once this has returned, unless it is called from
        there. Harmless if it is closed.
        """
