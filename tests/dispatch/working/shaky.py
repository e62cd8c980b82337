"""A bus that a test takes away, as a broker is that confirms nothing any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from go_scheduler.dispatch import Delivery, Subscription
from go_scheduler.errors import BusUnavailableError
from tests.dispatch.wrapped_bus import WrappedBus
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.dispatch import MessageBus


class ShakyBus(WrappedBus):
    """What one worker has of a bus: it hears all, and says nothing while that is away.

    Attributes:
        wrong: What ``publish`` raises; None: nothing is wrong.
        heard: Released for each delivery.
        refused: Released for each message that was not published.
    """

    def __init__(self, bus: MessageBus) -> None:
        super().__init__(bus)
        self.wrong: Exception | None = None
        self.heard = threading.Semaphore(0)
        self.refused = threading.Semaphore(0)

    def take_away(self) -> None:
        self.wrong = BusUnavailableError("the bus is away, for a test")

    def bring_back(self) -> None:
        self.wrong = None

    def wait_until_refused(self) -> None:
        assert self.refused.acquire(timeout=FAILED_AFTER)

    def publish(self, topic: str, body: bytes, **options: Any) -> None:
        if (wrong := self.wrong) is not None:
            self.refused.release()
            raise wrong
        super().publish(topic, body, **options)

    def subscribe(
        self, topic: str, receive: Callable[[Delivery], None], **options: Any
    ) -> Subscription:
        def heard(delivery: Delivery) -> None:
            receive(delivery)
            self.heard.release()

        return super().subscribe(topic, heard, **options)

    def is_up(self) -> bool:
        return self.wrong is None


class ClumsyBus(ShakyBus):
    """A bus that does what its deliveries and subscriptions are told, and raises."""

    def subscribe(
        self, topic: str, receive: Callable[[Delivery], None], **more: Any
    ) -> Subscription:
        def heard(delivery: Delivery) -> None:
            receive(_ClumsyDelivery(delivery))

        return _ClumsySubscription(super().subscribe(topic, heard, **more))


class _ClumsyDelivery(Delivery):
    redelivered, body = True, b""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.body = delivery.body

    def ack(self) -> None:
        self._delivery.ack()
        raise OSError("no ack, for a test")

    def reject(self, *, requeue: bool) -> None:
        self._delivery.reject(requeue=requeue)
        raise OSError("no reject, for a test")


class _ClumsySubscription(Subscription):
    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def resize(self, prefetch: int) -> None:
        self._subscription.resize(prefetch)
        raise OSError("no resize, for a test")

    def close(self) -> None:
        self._subscription.close()
