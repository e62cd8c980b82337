"""A message bus by kombu: RabbitMQ, and a bus in memory for tests.

Passwords are never shown.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from select import POLLIN, poll
from ssl import SSLSocket
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from amqp.exceptions import (
    AccessRefused,
    ChannelError,
    ConsumerCancelled,
    NotAllowed,
    NotFound,
)
from kombu import Connection

from go_scheduler.checks import check_at_least, check_positive, check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.dispatch.bus import (
    Delivery,
    MessageBus,
    PacedLog,
    Subscription,
    check_prefetch,
    check_topic,
)
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# The schemes with which an option, or the argument that it stands for, has an effect.
_SCHEMES = {"queue_type": ("amqp", "amqps"), "tls_ca": ("amqps",)}
# kombu takes amqp:// for librabbitmq, another library, where that is installed.
_TRANSPORTS = {"amqp": "pyamqp", "amqps": "amqps", "memory": "memory"}
_CLASSIC = "classic"
_QUEUE_TYPES = (_CLASSIC, "quorum")
_HIDDEN = "***"


class Wire:
    """An open connection, which is never opened again by itself.

    Args:
        client: The connection parameters.

    Attributes:
        connection: The driver's.

    Raises:
        Exception: The driver raises it if the connection cannot be opened.
    """

    def __init__(self, client: Connection) -> None:
        # Not the client's own methods: they connect again, and try several times.
        self._transport = client.transport
        self.connection: Any = self._transport.establish_connection()

    def channel(self) -> Any:
        """A new channel."""
        return self._transport.create_channel(self.connection)

    def drain(self, seconds: float) -> bool:
        """Handle the next event; returns whether one came in time."""
        try:
            self._transport.drain_events(self.connection, timeout=seconds)
        except TimeoutError:
            return False
        return True

    def close(self, *, answered: bool = True) -> None:
        """Close it; with ``answered``, wait for the broker's answer."""
        with suppress(Exception):
            if answered:
                self._transport.close_connection(self.connection)
        # The socket is closed in any case; a bus in memory has none.
        with suppress(Exception):
            self.connection.collect()


class Address:
    """The address of a broker, and how to speak to it.

    Args:
        url: The URL; of several hosts, with ``;`` between them.
        queue_type: The type of queues that do not exist yet.
        ca_certs: The file of CA certificates that the broker's is checked against.
        heartbeat: The interval of heartbeats in both directions.
        timeout: How long to wait for any answer.
        options: More options of kombu's transport.

    Attributes:
        shown: The URL without a password.
        prefix: The beginning of the names of queues.
        is_amqp: Whether the broker speaks AMQP: it confirms, and has a socket.
        queue_type: The option in the URL, or else the argument.
        ca_certs: Likewise.

    Raises:
        ConfigurationError: It is not the URL of a broker, or an option is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        queue_type: str,
        ca_certs: str | None,
        heartbeat: timedelta,
        timeout: timedelta,
        options: Mapping[str, object],
    ) -> None:
        self._parts = [_split(each) for each in url.split(";")]
        first = self._parts[0]
        if len({each.scheme for each in self._parts}) > 1:
            raise ConfigurationError("the URLs of a bus's hosts have different schemes")
        self.is_amqp = first.scheme != "memory"
        self.shown = ";".join(map(_masked, self._parts))
        given = _options_of(self._parts)
        for argument, option, is_given in (
            ("queue_type", "queue_type", queue_type != _CLASSIC),
            ("ca_certs", "tls_ca", ca_certs is not None),
        ):
            if is_given and first.scheme not in _SCHEMES[option]:
                raise ConfigurationError(
                    f"{argument} means nothing with {first.scheme}://, but with"
                    f" {' and '.join(_SCHEMES[option])}: leave it out"
                )
        self.queue_type = given.get("queue_type", queue_type)
        self.ca_certs = given.get("tls_ca", ca_certs)
        if self.ca_certs is not None:
            _check_certificates(self.ca_certs)
        if self.queue_type not in _QUEUE_TYPES:
            known = " or ".join(_QUEUE_TYPES)
            raise ConfigurationError(
                f"queue_type must be {known}, not {shown(self.queue_type)}"
            )
        self._heartbeat = heartbeat.total_seconds() if self.is_amqp else 0
        self._timeout = timeout.total_seconds()
        # A broker that hangs keeps nobody waiting.
        limits = {"read_timeout": self._timeout, "write_timeout": self._timeout}
        self._options = {**(limits if self.is_amqp else {}), **options}
        self._next = 0
        # The host in the URL tells buses in memory apart.
        is_named = first.netloc and not self.is_amqp
        self.prefix = f"{first.netloc}." if is_named else ""

    def connect(self) -> Wire:
        """Open a connection; to the next host, if the last one did not answer.

        Raises:
            Exception: Any error of the driver.
        """
        parts = self._parts[self._next % len(self._parts)]
        self._next += 1
        # The certificate and the host's name are checked.
        tls = {
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": parts.hostname,
            "ca_certs": self.ca_certs,
        }
        wire = Wire(
            Connection(
                f"{_TRANSPORTS[parts.scheme]}://{parts.netloc}{parts.path}",
                ssl=tls if parts.scheme == "amqps" else False,
                heartbeat=self._heartbeat,
                connect_timeout=self._timeout,
                transport_options=self._options,
            )
        )
        # This host has answered: the next connection tries it first.
        self._next -= 1
        return wire

    def unavailable(self, error: BaseException) -> BusUnavailableError:
        """The error that the broker cannot be used, with the reason, no password."""
        text = reason(error)
        for each in self._parts:
            for secret in (each.password, unquote(each.password or "")):
                if secret:
                    text = text.replace(secret, _HIDDEN)
        raised = BusUnavailableError(f"the bus at {self.shown} cannot be used: {text}")
        raised.__cause__ = error
        return raised


def reason(error: BaseException) -> str:
    """The text of an error; for an AMQP error, without the numbers of its method."""
    if isinstance(error, ConsumerCancelled):
        return "its queue was deleted, or has moved to another node"
    said = getattr(error, "reply_text", None) or str(error)
    return said or type(error).__name__


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.scheme in _TRANSPORTS and not parts.fragment
        known = known and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known:
        schemes = ", ".join(_TRANSPORTS)
        raise ConfigurationError(
            "a bus's URL is scheme://user:password@host:port/vhost, with a port of 1 to"
            f" 65535 if any, and a scheme of {schemes}; what is special in a name or"
            " password is percent-encoded"
        )
    return parts


def _masked(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    user = parts.username
    if parts.password is not None:
        user = f"{user}:{_HIDDEN}"
    return f"{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}"


def _options_of(hosts: Iterable[SplitResult]) -> Mapping[str, str]:
    """The options in the URLs of several hosts; of equal names the last counts.

    Raises:
        ConfigurationError: An option does not exist, is not for this scheme, or has no
            value. Text that may be part of a password is not repeated.
    """
    found: dict[str, str] = {}
    for parts in hosts:
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if parts.scheme not in _SCHEMES.get(name, ()) or not value:
                known = "; ".join(
                    f"{each}=… for {' and '.join(schemes)}"
                    for each, schemes in _SCHEMES.items()
                )
                what = "such option" if "@" in parts.query else f"option {shown(name)}"
                raise ConfigurationError(
                    f"the URL of a bus has no {what} with {parts.scheme}://; known:"
                    f" {known}"
                )
            found[name] = value
    return found


def _check_certificates(file: object) -> None:
    check_type("ca_certs", file, str)
    assert isinstance(file, str)
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:
        raise ConfigurationError(f"ca_certs: {shown(file)}: {error}") from error


class Waker:
    """Lets one thread wait for a socket or for a wake by any other thread."""

    def __init__(self) -> None:
        self._end, self._waker = socket.socketpair()
        self._end.setblocking(False)
        self._waker.setblocking(False)
        self._woken = False

    def wake(self) -> None:
        """End the present wait, or the next one; does nothing after ``close``."""
        if not self._woken:
            self._woken = True
            try:
                self._waker.send(b"\0")
            except OSError:
                # It has been closed.
                return

    def wait(self, seconds: float, heard: socket.socket | None = None) -> bool:
        """Wait, and return whether the socket has something to be read."""
        if isinstance(heard, SSLSocket) and heard.pending():
            return True
        # The socket may be another one at the next wait.
        waited = poll()
        waited.register(self._end, POLLIN)
        if heard is not None:
            waited.register(heard, POLLIN)
        found = {each for each, _ in waited.poll(max(0, seconds) * 1000)}
        if self._end.fileno() in found:
            self._end.recv(1024)
            # From here on a wake ends the next wait.
            self._woken = False
        return heard is not None and heard.fileno() in found

    def close(self) -> None:
        """Close its sockets."""
        self._end.close()
        self._waker.close()


_LOG = logging.getLogger("go_scheduler.dispatch")
_BEAT = timedelta(seconds=1)
_FIRST_BACKOFF = timedelta(milliseconds=100)
_LONGEST_BACKOFF = timedelta(seconds=5)
_OWN_LIVES = timedelta(minutes=1)
# Seconds between two looks at a bus in memory.
_POLLING = 0.005


def backoff(error: Exception, failures: int) -> timedelta:
    """How long to wait until the next try, after an error and a number of failures."""
    if isinstance(error, AccessRefused):
        # An administrator has to grant access first.
        return _LONGEST_BACKOFF
    return min(_LONGEST_BACKOFF, _FIRST_BACKOFF * (1 << min(failures, 10)))


class Line(ABC):
    """A thread that keeps a connection to a broker: of the publisher or a subscription.

    Only this thread uses the connection. Other threads queue what is to be done, and
    wake it.

    Args:
        address: The broker's address.
        name: Its name in the log, and in the name of its thread.
        clock: The clock for pauses between tries.
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
        """Wake the thread, to do what has been queued."""
        if threading.current_thread() is not self._thread:
            self._waker.wake()

    def end(self) -> None:
        """End the thread, and wait until it has ended, unless it is the caller."""
        self.closing = True
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._waker.wake()
            self._thread.join()

    def _live(self) -> None:
        try:
            while not self.closing:
                self._connect_and_talk()
        finally:
            self._waker.close()

    def _connect_and_talk(self) -> None:
        wire, answered = None, False
        try:
            wire = self.address.connect()
            self._begin(wire)
            self._failures = 0
            if self._away:
                self._away = False
                _LOG.info("%s: the bus at %s is there", self._name, self.address.shown)
            while not self.closing:
                self._turn()
                self._listen(wire)
            self._finish()
            answered = True
        except Exception as error:
            self._failed(error)
        finally:
            if wire is not None:
                wire.close(answered=answered)

    def _listen(self, wire: Wire) -> None:
        """Wait for the broker or a wake, and handle all that has come."""
        if not self.address.is_amqp:
            if not wire.drain(0):
                self._waker.wait(_POLLING)
            return
        sock = wire.connection.sock
        readable = self._waker.wait(_BEAT.total_seconds(), sock)
        while readable:
            wire.drain(_BEAT.total_seconds())
            readable = self._waker.wait(0, sock)
        # Raises if the broker has sent nothing for too long.
        wire.connection.heartbeat_tick()

    def _failed(self, error: Exception) -> None:
        if self.closing:
            return
        self._lost(error)
        if not self._away:
            self._away = True
            _LOG.warning("%s: %s", self._name, self.address.unavailable(error))
        until = self._clock.elapsed() + backoff(error, self._failures)
        self._failures += 1
        while not self.closing and (left := until - self._clock.elapsed()) > ZERO:
            self._waker.wait(left.total_seconds())

    def _declare(
        self, wire: Wire, queue: str, *, own: bool = False
    ) -> ChannelError | None:
        """Declare a queue that survives a restart of the broker.

        Args:
            wire: The connection.
            queue: Its name.
            own: Whether the broker deletes it a while after its last consumer has gone.

        Returns:
            Why the broker refused; None: it did not. The queue may exist all the same,
            with other properties.
        """
        arguments: dict[str, object] = {}
        if own:
            arguments["x-expires"] = int(_OWN_LIVES.total_seconds() * 1000)
        elif self.address.queue_type != _CLASSIC:
            arguments["x-queue-type"] = self.address.queue_type
        # A broker that refuses closes the channel.
        channel = wire.channel()
        try:
            channel.queue_declare(
                queue=queue, durable=True, auto_delete=False, arguments=arguments
            )
        except ChannelError as error:
            refused: ChannelError = error
            return refused
        channel.close()
        return None

    @abstractmethod
    def _begin(self, wire: Wire) -> None:
        """A connection has been made."""

    @abstractmethod
    def _turn(self) -> None:
        """Do what other threads have queued."""

    def _finish(self) -> None:
        """Prepare for an orderly close, while the connection is open."""
        return

    @abstractmethod
    def _lost(self, error: Exception) -> None:
        """The connection is lost, or there was none, for this reason."""


# RabbitMQ closes the connection if an expiry is longer than about ten years.
_LONGEST_EXPIRY = timedelta(days=3650)


@dataclass(slots=True, eq=False)
class Posting:
    """A message to be published.

    Attributes:
        queue: The name of the queue.
        body: The message.
        expires: When the broker may drop it.
        keep: Whether it waits in the queue for a consumer.
        returned: Whether the broker had no queue for it, so that it is sent again.
        outcome: Done once the broker has stored it.
    """

    queue: str
    body: bytes
    expires: timedelta | None
    keep: bool
    returned: bool = False
    outcome: Future[None] = field(default_factory=Future)

    def properties(self, number: int) -> dict[str, object]:
        """Its AMQP properties, with its number on the channel."""
        found: dict[str, object] = {
            "delivery_mode": 2 if self.keep else 1,
            "message_id": str(number),
        }
        if self.expires is not None and self.expires < _LONGEST_EXPIRY:
            found["expiration"] = str(int(self.expires.total_seconds() * 1000))
        return found

    def is_awaited(self) -> bool:
        """Whether it is still to be sent; from then on it cannot be cancelled."""
        outcome = self.outcome
        if outcome.running():
            return True
        return not outcome.done() and outcome.set_running_or_notify_cancel()


_CLOSED = "it has been closed here"
_UNCONFIRMED = "it has not confirmed a message within {:g} s"


class Publisher(Line):
    """Publishes the messages of all threads over one connection.

    It sends all that is queued, and receives confirms meanwhile: many messages share
    one wait for the broker's disk.

    Args:
        address: The broker's address.
        timeout: How long the broker may take to confirm.
        clock: The clock.
    """

    def __init__(self, address: Address, *, timeout: timedelta, clock: Clock) -> None:
        super().__init__(address, name="publisher", clock=clock)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: deque[Posting] = deque()
        # Their callers have stopped waiting.
        self._overdue: list[Posting] = []
        self._down: Exception | None = None
        # Those sent and not confirmed, by their number on the channel, in their order.
        self._unconfirmed: dict[int, Posting] = {}
        # The message that is unconfirmed for longest, and since when it is that one.
        self._oldest: Posting | None = None
        self._oldest_since = ZERO

    @property
    def is_up(self) -> bool:
        """Whether a publish is likely to succeed."""
        return self._down is None and not self.closing

    def publish(self, posting: Posting) -> None:
        """Publish a message, and wait until the broker has stored it.

        Raises:
            BusUnavailableError: The broker does not have it, or may not have it.
        """
        self.put(posting)
        try:
            posting.outcome.result(self._timeout.total_seconds())
        except TimeoutError as error:
            # If it has not been sent, it never will be.
            never = posting.outcome.cancel()
            with self._lock:
                self._overdue.append(posting)
            self.wake()
            raise self._error(self._late(), unsent=never) from error

    def put(self, posting: Posting) -> None:
        """Queue a message; its outcome follows later."""
        try:
            with self._lock:
                if self.closing:
                    raise ConnectionAbortedError(_CLOSED)
                if self._down is not None:
                    # A new error: the traceback of one raised again grows each time.
                    raise ConnectionError(reason(self._down))
                if self._thread.ident is None:
                    self.start()
                self._waiting.append(posting)
        # This includes a process that has no threads or sockets left.
        except (OSError, RuntimeError) as error:
            self._refuse(posting, error, unsent=True)
        else:
            self.wake()

    def end(self) -> None:
        """End the thread; the messages without an outcome fail."""
        super().end()
        self._fail(ConnectionAbortedError(_CLOSED))

    def _begin(self, wire: Wire) -> None:
        self._wire = wire
        self._channel = wire.channel()
        self._sent = 0
        # The queues that exist, as far as is known, each with why it was refused.
        self._declared: dict[str, ChannelError | None] = {}
        self._unconfirmed = {}
        if self.address.is_amqp:
            wire.connection.on_blocked = self._blocked
            wire.connection.on_unblocked = self._unblocked
            self._channel.confirm_select()
            self._channel.events["basic_ack"].add(self._acked)
            self._channel.events["basic_nack"].add(self._nacked)
            self._channel.events["basic_return"].add(self._returned)
        self._unblocked()

    def _turn(self) -> None:
        with self._lock:
            overdue, self._overdue = self._overdue, []
        # A message has an outcome if its connection was lost, or if it was never sent.
        if [each for each in overdue if not each.outcome.done()] or self._is_late():
            raise self._late()
        # As many as there are now: confirms have to be read as well. A broker that is
        # short of memory says so at any time, and then none of them waits any more.
        left = len(self._waiting)
        while left and self._waiting:
            left -= 1
            posting = self._waiting.popleft()
            if posting.is_awaited():
                self._send(posting)

    def _send(self, posting: Posting) -> None:
        self._sent += 1
        # First: it has an outcome, whatever happens next.
        self._unconfirmed[self._sent] = posting
        if posting.keep and posting.queue not in self._declared:
            refused = self._declare(self._wire, posting.queue)
            self._declared[posting.queue] = refused
        message = self._channel.prepare_message(
            posting.body,
            content_type="application/json",
            properties=posting.properties(self._sent),
        )
        self._channel.basic_publish(
            message, exchange="", routing_key=posting.queue, mandatory=posting.keep
        )
        if not self.address.is_amqp:
            # A bus in memory has it by now.
            self._acked(self._sent, False)

    def _returned(
        self, error: Exception, exchange: str, routing_key: str, message: Any
    ) -> None:
        """Handle a message without a queue; the broker confirms it next."""
        refused = self._declared.pop(routing_key, None)
        posting = self._unconfirmed.pop(int(message.properties["message_id"]))
        if posting.returned:
            self._refuse(posting, refused or error, unsent=True)
        else:
            posting.returned = True
            self._waiting.append(posting)
            self._waker.wake()

    def _acked(self, number: int, multiple: bool) -> None:
        for each in self._taken(number, multiple):
            with suppress(InvalidStateError):
                each.outcome.set_result(None)

    def _nacked(self, number: int, multiple: bool) -> None:
        error = RuntimeError("the queue has refused the message")
        for each in self._taken(number, multiple):
            self._refuse(each, error, unsent=True)

    def _taken(self, number: int, multiple: bool) -> list[Posting]:
        """The messages that a number confirms."""
        found = [number]
        if multiple:
            found = list(takewhile(lambda each: each <= number, self._unconfirmed))
        known = [each for each in found if each in self._unconfirmed]
        return [self._unconfirmed.pop(each) for each in known]

    def _is_late(self) -> bool:
        """Whether the broker has not confirmed a message in time."""
        oldest = next(iter(self._unconfirmed.values()), None)
        now = self._clock.elapsed()
        # A blocked broker is not late: another connection would be no better.
        if oldest is not self._oldest or self._down is not None:
            self._oldest, self._oldest_since = oldest, now
        return oldest is not None and now - self._oldest_since >= self._timeout

    def _late(self) -> TimeoutError:
        return TimeoutError(_UNCONFIRMED.format(self._timeout.total_seconds()))

    def _blocked(self, reason: str) -> None:
        """Handle that the broker is short of memory or disk, and reads no more."""
        self._lost(BlockingIOError("it takes nothing: it is short of memory or disk"))

    def _unblocked(self) -> None:
        with self._lock:
            self._down = None

    def _lost(self, error: Exception) -> None:
        with self._lock:
            self._down = error
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Refuse all messages without an outcome."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._refuse(each, error, unsent=True)
        # Without the permission to publish, the broker has none of them.
        is_refused = isinstance(error, AccessRefused)
        for each in self._unconfirmed.values():
            self._refuse(each, error, unsent=is_refused)

    def _refuse(self, posting: Posting, error: Exception, *, unsent: bool) -> None:
        """Note that the broker does not have a message, or may not have it."""
        # It may have been cancelled.
        with suppress(InvalidStateError):
            posting.outcome.set_exception(self._error(error, unsent=unsent))

    def _error(self, error: Exception, *, unsent: bool) -> BusUnavailableError:
        # Each message gets an error of its own, though many have the same cause.
        raised = self.address.unavailable(error)
        raised.unsent = unsent
        return raised


class KombuDelivery(Delivery):
    """A message that came over one connection of a consumer."""

    def __init__(self, consumer: Consumer, message: Any) -> None:
        self._consumer = consumer
        self._message = message
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
        clock: Clock,
    ) -> None:
        super().__init__(address, name=f"topic {queue}", clock=clock)
        self._log = PacedLog(_LOG, clock)
        self._queue = queue
        self._receive = receive
        self._wanted = prefetch
        self._own = own
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
        # What still comes stays unacknowledged, and goes back.
        self._receive = lambda delivery: None
        self.end()

    def _begin(self, wire: Wire) -> None:
        self._unacked.clear()
        refused = self._declare(wire, self._queue, own=self._own)
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

    def _received(self, raw: Any) -> None:
        message = self._channel.message_to_python(raw)
        delivery = KombuDelivery(self, message)
        self._unacked[delivery.tag] = delivery
        try:
            self._receive(delivery)
        except Exception as error:
            text = "a message of topic %r is dropped"
            self._log.write(logging.ERROR, text, self._queue, error=error)
            delivery.reject(requeue=False)

    def _finish(self) -> None:
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
            queue_type=queue_type,
            ca_certs=ca_certs,
            heartbeat=heartbeat,
            timeout=timeout,
            options=transport_options or {},
        )
        self._clock: Clock = SystemClock()
        self._publisher = Publisher(self._address, timeout=timeout, clock=self._clock)
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
            self._address.connect().close()
        except Exception as error:
            raised = self._address.unavailable(error)
            # Waiting does not help.
            raised.refused = isinstance(error, AccessRefused | NotAllowed)
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
        return Posting(queue, body, expires, keep)

    def _queue(self, topic: str) -> str:
        return self._address.prefix + check_topic(topic)
