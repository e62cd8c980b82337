"""A message bus by kombu: RabbitMQ, and a bus in memory for tests."""

from __future__ import annotations

import logging
import ssl
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from amqp.exceptions import NotFound

from go_scheduler.checks import check_at_least, check_positive, check_type
from go_scheduler.clock import Clock, SystemClock
from go_scheduler.dispatch.bus import Delivery, MessageBus, Subscription
from go_scheduler.dispatch.kombu_bus.address import Address, check_meant
from go_scheduler.dispatch.kombu_bus.publisher import Line, Posting, Publisher, Queues
from go_scheduler.dispatch.recording import PacedLog, check_prefetch, check_topic
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from go_scheduler.dispatch.kombu_bus.address import Wire

_LOG = logging.getLogger("go_scheduler.dispatch")
# Seconds for which a bus in memory is polled: with unacknowledged messages, or none.
_UNACKED, _IDLE = 0.01, 0.1


class KombuDelivery(Delivery):
    """A message that came over one connection of a consumer."""

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
        """Whether the message may have been delivered before."""
        return bool(self._message.delivery_info.get("redelivered"))

    def ack(self) -> None:
        """Have the consumer's thread acknowledge it."""
        self._consumer.settle(self, None)

    def reject(self, *, requeue: bool) -> None:
        """Have the consumer's thread reject it."""
        self._consumer.settle(self, requeue)


class Consumer(Line, Subscription):
    """Receives the messages of one topic.

    Args:
        address: The broker's address.
        queue: The queue of the topic.
        receive: Called with each delivery.
        prefetch: The most messages that are delivered and not acknowledged.
        own: Whether the queue is deleted in the end.
        queue_type: The type of the queue, if it does not exist yet.
        clock: The clock.
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
        # What other threads want acknowledged (None) or rejected (whether to requeue).
        self._settled: deque[tuple[KombuDelivery, bool | None]] = deque()
        self._unacked: dict[Any, KombuDelivery] = {}
        self._channel: Any = None
        self._size = 0
        self._consuming = 0

    def settle(self, delivery: KombuDelivery, requeue: bool | None) -> None:
        """Acknowledge or reject a delivery; does nothing the second time."""
        self._settled.append((delivery, requeue))
        self.wake()

    def resize(self, prefetch: int) -> None:
        """Change the prefetch."""
        check_prefetch(prefetch)
        self._wanted = prefetch
        self.wake()

    def close(self) -> None:
        """Receive no more messages."""
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
            # The refusal says why the queue does not exist.
            raise refused or error from None

    def _turn(self) -> None:
        settled = [self._settled.popleft() for _ in range(len(self._settled))]
        # First: a new prefetch has to hold before an acknowledgement brings a message.
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
            # A broker may count for each consumer: a new prefetch needs a new consumer.
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
        """Put the unacknowledged messages back into the queue."""
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
    """Do nothing: the subscription is closed, and the message goes back."""


_CLASSIC = "classic"
_QUEUE_TYPES = (_CLASSIC, "quorum")
_MILLISECOND = timedelta(milliseconds=1)


class KombuBus(MessageBus):
    """A bus on RabbitMQ, or, for tests, in memory.

    One thread with one connection publishes for all threads, and sends without waiting
    for confirms. Each subscription has a thread and a connection of its own. All these
    threads are daemons, and end with ``close()``.

    Args:
        url: ``amqp://user:password@host:5672/vhost``, ``amqps://…`` or, for tests,
            ``memory://name``: one bus in this process for each name. For a cluster,
            write the URLs of several hosts with ``;`` between them: they are tried in
            turn. ``?queue_type=quorum`` and ``?tls_ca=FILE`` at the end of the URL set
            ``queue_type`` and ``ca_certs``.
        timeout: How long the broker may take for any answer, such as a confirm.
        queue_type: The type of the queues that the bus creates on RabbitMQ:
            ``classic``, or ``quorum``, which a cluster keeps on several nodes.
        ca_certs: With ``amqps://``, the file of CA certificates that the broker's
            certificate is checked against; None: those that the system trusts.
        heartbeat: After about twice this time without a sign of life, the broker and
            the bus each take the connection for lost.
        transport_options: More options of kombu's transport.

    Raises:
        ConfigurationError: An argument is wrong. The constructor does not connect: a
            broker that is away, or refuses the user, shows when the bus is used.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: timedelta = timedelta(seconds=2),
        queue_type: str = _CLASSIC,
        ca_certs: str | None = None,
        heartbeat: timedelta = timedelta(seconds=10),
        transport_options: dict[str, object] | None = None,
    ) -> None:
        check_type("url", url, str)
        check_positive("timeout", timeout)
        check_at_least("heartbeat", heartbeat, timedelta(seconds=1))
        check_type("transport_options", transport_options or {}, dict)
        self._address = Address(
            url,
            ca_certs=ca_certs,
            heartbeat=heartbeat,
            timeout=timeout,
            options=transport_options or {},
        )
        if queue_type != _CLASSIC:
            check_meant(self._address.scheme, "queue_type")
        if ca_certs is not None:
            check_meant(self._address.scheme, "ca_certs")
        if self._address.ca_certs is not None:
            _check_certificates(self._address.ca_certs)
        self._queue_type = _checked_type(self._address.queue_type or queue_type)
        self._clock: Clock = SystemClock()
        self._publisher = Publisher(
            self._address,
            timeout=timeout,
            queue_type=self._queue_type,
            clock=self._clock,
        )
        self._lock = threading.Lock()
        self._consumers: list[Consumer] = []

    def __repr__(self) -> str:
        return f"KombuBus({self._address.shown!r})"

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> None:
        """Put a message on the bus, and return once the broker has stored it."""
        self._publisher.publish(self._posting(topic, body, expires, keep))

    def publish_soon(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> Future[None]:
        """Put a message on the bus, and return at once."""
        posting = self._posting(topic, body, expires, keep)
        self._publisher.put(posting)
        return posting.outcome

    def subscribe(
        self,
        topic: str,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int = 1,
        own: bool = False,
    ) -> Subscription:
        """Receive the messages of a topic, until the subscription is closed."""
        queue = self._queue(topic)
        check_prefetch(prefetch)
        with self._lock:
            if self._publisher.closing:
                raise BusUnavailableError("the bus has been closed")
            consumer = Consumer(
                self._address,
                queue,
                receive,
                prefetch=prefetch,
                own=own,
                queue_type=self._queue_type,
                clock=self._clock,
            )
            consumer.start()
            # Forget the subscriptions that have been closed since.
            kept = [each for each in self._consumers if not each.closing]
            self._consumers = [*kept, consumer]
        return consumer

    def is_up(self) -> bool:
        """Whether a publish is likely to succeed."""
        return self._publisher.is_up

    def check(self) -> None:
        """Check that the broker accepts the user, by a connection of its own."""
        try:
            wire = self._address.connect()
            try:
                # Some transports connect only for this.
                wire.channel()
            finally:
                wire.close()
        except Exception as error:
            raised = self._address.unavailable(error)
            raised.refused = self._address.refuses(error)
            raise raised from error

    def close(self) -> None:
        """End all subscriptions, connections and threads."""
        with self._lock:
            closed, self._consumers = self._consumers, []
            self._publisher.closing = True
        for each in closed:
            each.close()
        self._publisher.end()

    def _posting(
        self, topic: str, body: bytes, expires: timedelta | None, keep: bool
    ) -> Posting:
        queue = self._queue(topic)
        check_type("body", body, bytes)
        if expires is not None:
            check_at_least("expires", expires, _MILLISECOND)
        return Posting(queue, body, expires, keep, explain=self._address.unavailable)

    def _queue(self, topic: str) -> str:
        return self._address.prefix + check_topic(topic)


def _checked_type(queue_type: object) -> str:
    if queue_type not in _QUEUE_TYPES:
        known = " or ".join(_QUEUE_TYPES)
        raise ConfigurationError(f"queue_type must be {known}, not {shown(queue_type)}")
    return str(queue_type)


def _check_certificates(file: object) -> None:
    check_type("ca_certs", file, str)
    assert isinstance(file, str)
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:
        raise ConfigurationError(f"ca_certs: {shown(file)}: {error}") from error
