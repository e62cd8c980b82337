"""A bus within a test: what is published there, and delivered when the test says so."""

from __future__ import annotations

from collections import defaultdict, deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from go_scheduler.dispatch.bus import Delivery, MessageBus, Subscription
from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta


class Message(Delivery):
    """One that was published or delivered, and what has become of it."""

    body = b""
    redelivered = False

    def __init__(self, body: bytes, expires: timedelta | None = None) -> None:
        self.body = body
        self.expires = expires
        self.settled: list[str] = []

    def ack(self) -> None:
        self.settled.append("ack")

    def reject(self, *, requeue: bool) -> None:
        self.settled.append("requeue" if requeue else "reject")


class DirectSubscription(Subscription):
    """To one topic."""

    def __init__(self, bus: DirectBus, topic: str) -> None:
        self._bus, self._topic = bus, topic

    def resize(self, prefetch: int) -> None:
        pass

    def close(self) -> None:
        self._bus.subscribers.pop(self._topic, None)


class DirectBus(MessageBus):
    """Delivers in place, on the thread of whoever publishes."""

    def __init__(self) -> None:
        self.up = True
        self.fails = self.unsent = False
        self.subscribers: dict[str, Callable[[Delivery], None]] = {}
        self.published: defaultdict[str, deque[Message]] = defaultdict(deque)

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> None:
        if self.fails or not self.up:
            self.up = False
            error = BusUnavailableError("the bus is away")
            error.unsent = self.unsent
            raise error
        self.published[topic].append(Message(body, expires))

    def publish_soon(self, topic: str, body: bytes, **options: Any) -> Future[None]:
        """In place, so that a test knows when it has been."""
        future: Future[None] = Future()
        try:
            self.publish(topic, body, **options)
        except BusUnavailableError as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def deliver(self, topic: str, body: bytes) -> Message:
        """Deliver a message to whoever has subscribed."""
        message = Message(body)
        self.subscribers[topic](message)
        return message

    def subscribe(
        self,
        topic: str,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int = 1,
        own: bool = False,
    ) -> Subscription:
        self.subscribers[topic] = receive
        return DirectSubscription(self, topic)

    def is_up(self) -> bool:
        return self.up

    def close(self) -> None:
        self.subscribers.clear()
