"""A subscription: a thread that hears a topic, and acknowledges what it is told to."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from amqp.exceptions import NotFound

from go_scheduler.dispatch.bus import Delivery, Subscription
from go_scheduler.dispatch.kombu_bus.line import Line
from go_scheduler.dispatch.kombu_bus.queues import Queues
from go_scheduler.dispatch.paced_log import PacedLog
from go_scheduler.dispatch.topics import check_prefetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock
    from go_scheduler.dispatch.kombu_bus.address import Address
    from go_scheduler.dispatch.kombu_bus.wire import Wire

_LOG = logging.getLogger("go_scheduler.dispatch")
# How long a broker without a socket of ours is listened to before others are.
_UNACKED, _IDLE = 0.01, 0.1


class KombuDelivery(Delivery):
    """One message, of one connection of a consumer."""

    def __init__(self, consumer: Consumer, wire: Wire, message: Any) -> None:
        self._consumer = consumer
        self._message = message
        self.wire = wire
        self.tag = message.delivery_tag

    @property
    def body(self) -> bytes:
        """The message."""
        body = self._message.body
        return body.encode() if isinstance(body, str) else bytes(body)

    @property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before."""
        return bool(self._message.delivery_info.get("redelivered"))

    def ack(self) -> None:
        """Have the consumer's thread acknowledge it."""
        self._consumer.settle(self, None)

    def reject(self, *, requeue: bool) -> None:
        """Have the consumer's thread reject it."""
        self._consumer.settle(self, requeue)


class Consumer(Line, Subscription):
    """Hears one topic.

    Args:
        address: Where the broker is.
        queue: The queue of the topic.
        receive: Called with each delivery.
        prefetch: The most that are delivered and not acknowledged.
        own: Whether the queue is deleted in the end.
        queue_type: Its type, if it is not there yet.
        clock: That of the line.
    """

    def __init__(
        self,
        address: Address,
        queue: str,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        own: bool,
        queue_type: str,
        clock: Clock,
    ) -> None:
        super().__init__(address, name=f"topic {queue}", clock=clock)
        self._log = PacedLog(_LOG, clock)
        self._queue = queue
        self._receive = receive
        self._wanted = prefetch
        self._own = own
        self._queue_type = queue_type
        # What is to be acknowledged or rejected: each once, as others leave it.
        self._settled: deque[tuple[KombuDelivery, bool | None]] = deque()
        self._unacked: dict[Any, KombuDelivery] = {}
        self._channel: Any = None
        self._size = 0
        self._consuming = 0

    def settle(self, delivery: KombuDelivery, requeue: bool | None) -> None:
        """Acknowledge it, or reject it; nothing if that has been done."""
        self._settled.append((delivery, requeue))
        self.wake()

    def resize(self, prefetch: int) -> None:
        """Have another prefetch."""
        check_prefetch(prefetch)
        self._wanted = prefetch
        self.wake()

    def close(self) -> None:
        """Take no more."""
        self._receive = _leave_unacknowledged
        self.end()

    def _begin(self, wire: Wire) -> None:
        self._unacked.clear()
        refused = Queues(wire, self._queue_type).declare(self._queue, own=self._own)
        self._wire = wire
        self._channel = wire.channel()
        self._size = 0
        try:
            self._resize()
        except NotFound as error:
            # Why there is none.
            raise refused or error from None

    def _turn(self) -> None:
        settled = [self._settled.popleft() for _ in range(len(self._settled))]
        # A size that was said before something was acknowledged holds from then on.
        self._resize()
        for delivery, requeue in settled:
            if self._unacked.get(delivery.tag) is not delivery:
                continue
            del self._unacked[delivery.tag]
            if requeue is None:
                self._channel.basic_ack(delivery.tag)
            else:
                self._channel.basic_reject(delivery.tag, requeue=requeue)

    def _resize(self) -> None:
        wanted = self._wanted
        if wanted == self._size:
            return
        if self._size:
            # A broker may count for each consumer: a new size takes a new one.
            self._channel.basic_cancel(self._tag)
        self._size = wanted
        if wanted:
            self._consuming += 1
            self._channel.basic_qos(0, wanted, False)
            self._channel.basic_consume(
                self._queue,
                no_ack=False,
                callback=self._received,
                consumer_tag=self._tag,
            )

    @property
    def _tag(self) -> str:
        return f"go_scheduler-{self._consuming}"

    def _listen_without_socket(self, wire: Wire) -> None:
        if self._size:
            wire.drain(_UNACKED if self._unacked else _IDLE)
        else:
            self._waker.wait(_IDLE)

    def _received(self, raw: Any) -> None:
        message = self._channel.message_to_python(raw)
        delivery = KombuDelivery(self, self._wire, message)
        self._unacked[delivery.tag] = delivery
        try:
            self._receive(delivery)
        except Exception as error:
            text = "a message of topic %r is dropped"
            self._log.write(logging.ERROR, text, self._queue, error=error)
            delivery.reject(requeue=False)

    def _finish(self, wire: Wire) -> None:
        """Give back what nobody has acknowledged."""
        self._turn()
        for tag in self._unacked:
            self._channel.basic_reject(tag, requeue=True)
        if self._own:
            # Only AMQP deletes one that is bound to nothing.
            self._channel.queue_purge(self._queue)
            self._channel.queue_delete(self._queue)

    def _lost(self, error: Exception) -> None:
        self._settled.clear()


def _leave_unacknowledged(delivery: Delivery) -> None:
    """Nobody takes it any more."""
