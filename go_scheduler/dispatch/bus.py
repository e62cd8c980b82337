"""The interface of a message bus, opened by its URL; and the topics on it."""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Self

from go_scheduler.checks import check_name, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.event_bus import BoundedLog
from go_scheduler.formatting import a, shown

if TYPE_CHECKING:
    from types import TracebackType

    from go_scheduler.clock import Clock


_MOST_THREADS = 16


class Aside:
    """Calls functions on some daemon threads, which end when none is left to call.

    A pool of the standard library would keep the process until a call that hangs ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._threads = 0

    def call(self, function: Callable[[], None]) -> Future[None]:
        """Call a function on one of the threads; the future has its outcome."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((function, future))
            begins = self._threads < _MOST_THREADS
            self._threads += begins
        if begins:
            name = "go_scheduler-bus publishing"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                function, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)


OPENER = "open_bus(), in go_scheduler.dispatch"
"""How a user makes a bus; for error messages."""


class MessageBus(ABC):
    """Delivers each message of a topic at least once, to one subscriber.

    A topic is a queue. A message goes to one of its subscribers, in any process. If
    that subscriber ends without acknowledging the message, another one gets it. A
    message may come twice, or late. Each message names the attempt of its run, so a
    repeated or late one does no harm.

    The constructor connects to nothing. Every method may be called from any thread.
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
        """Put a message on the bus, and return once the bus has stored it.

        The message survives a restart of the bus. It waits if there is no subscriber.

        Args:
            topic: The topic, of 1 to 255 bytes.
            body: The message.
            expires: The bus may drop the message after this time, if it has not
                delivered it.
            keep: Whether the message waits for a subscriber and survives a restart.
                False is for messages to one process: the bus may drop them.

        Raises:
            BusUnavailableError: Within about two seconds; at once if the bus is known
                to be away. The bus may have the message all the same, or get it later,
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
        """Put a message on the bus, and return at once.

        A bus may send many messages without waiting for each. This implementation
        calls ``publish`` on some threads. They end when no message is left.

        Args:
            topic: As for ``publish``.
            body: Likewise.
            expires: Likewise.
            keep: Likewise.

        Returns:
            A future that is done once the bus has stored the message. Otherwise it
            has, within some seconds, the error that ``publish`` would raise. Its
            callbacks must not block. Messages that are sent at the same time may
            arrive in any order.
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
        """Receive the messages of a topic, until the subscription is closed.

        It returns at once. If the bus goes away, the subscription connects again by
        itself.

        Args:
            topic: The topic.
            receive: Called with each message, on the subscription's own thread. It
                must not block. If it raises, the error is logged, and the message is
                rejected without being queued again.
            prefetch: The most messages that are delivered and not acknowledged; zero:
                none are delivered.
            own: Whether the topic belongs to this process alone. The bus then deletes
                the topic and its messages once the subscription is closed, or has been
                gone for a while.

        Raises:
            BusUnavailableError: The bus has been closed.
        """

    @abstractmethod
    def is_up(self) -> bool:
        """Whether a publish is likely to succeed; answers without asking the bus.

        True at first. False after a failure, until the bus answers again: the bus is
        tried in the background.
        """

    def check(self) -> None:
        """Check that the bus can be reached and accepts the credentials.

        This implementation does nothing, for a bus that cannot check.

        Raises:
            BusUnavailableError: Within some seconds. If its ``refused`` is true,
                waiting does not help. The check changes nothing else: publishers and
                subscriptions connect by themselves all the same.
        """
        return

    @abstractmethod
    def close(self) -> None:
        """End all subscriptions, connections and threads.

        A second call does nothing. A later ``publish`` or ``subscribe`` raises
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
    """A delivered message; acknowledge or reject it once, from any thread.

    A second call of ``ack`` or ``reject`` does nothing. They do nothing either once
    the connection of the message is lost: the bus then delivers the message again.
    """

    @property
    @abstractmethod
    def body(self) -> bytes:
        """The message."""

    @property
    @abstractmethod
    def redelivered(self) -> bool:
        """Whether the message may have been delivered before, as far as is known."""

    @abstractmethod
    def ack(self) -> None:
        """Tell the bus that the message has been handled; returns at once."""

    @abstractmethod
    def reject(self, *, requeue: bool) -> None:
        """Put the message back into the queue, or drop it; returns at once."""


class Subscription(ABC):
    """Delivers the messages of a topic to this process."""

    @abstractmethod
    def resize(self, prefetch: int) -> None:
        """Change the prefetch; returns at once.

        Messages that are on their way may still come after the number was lowered.
        Messages that were delivered before may not count.

        Args:
            prefetch: Zero or more; zero: none are delivered until it is raised.
        """

    @abstractmethod
    def close(self) -> None:
        """Receive no more messages; the unacknowledged ones go back to the bus.

        ``receive`` is not called after this has returned, unless ``receive`` itself
        called it. A second call does nothing.
        """


LONGEST_TOPIC = 255
"""The most bytes of a topic's name, in UTF-8: what AMQP allows."""
MOST_PREFETCHED = 65_535
"""The largest prefetch of a subscription: what AMQP allows."""
_ESCAPED = str.maketrans({"%": "%25", ".": "%2E", "\n": "%0A", "\r": "%0D"})


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of topics.

    Attributes:
        namespace: The beginning of all topics. Schedulers that share a bus and do not
            work together need different namespaces.

    Raises:
        ConfigurationError: The namespace is no short text, has a character that cannot
            be printed, or begins with ``amq``, which brokers reserve.
    """

    namespace: str = "go_scheduler"

    def __post_init__(self) -> None:
        namespace = check_name("namespace", self.namespace)
        if not namespace.isprintable() or f"{namespace}.".startswith("amq."):
            raise ConfigurationError(
                "namespace must be of characters that can be printed, and not begin"
                f" with amq, which brokers keep for themselves: {shown(namespace)}"
            )

    def runs(self, queue: str, task: str | None = None) -> str:
        """The topic for the runs of a queue, or of one task in that queue."""
        return self._named("run", queue, *() if task is None else (task,))

    @property
    def statuses(self) -> str:
        """The topic to which workers send statuses."""
        return self._named("statuses")

    def control(self, worker: str) -> str:
        """The topic that tells one worker which runs to cancel."""
        return self._named("control", worker)

    def _named(self, *parts: str) -> str:
        # A dot within a name could make two topics equal, and RabbitMQ removes line
        # breaks from names.
        escaped = [each.translate(_ESCAPED) for each in parts]
        topic = ".".join([self.namespace, *escaped])
        return check_topic(topic)


def check_topic(topic: object) -> str:
    """Check that a bus can have a topic, and return it.

    Raises:
        ConfigurationError: It is not text, or it is empty or too long.
    """
    check_type("topic", topic, str)
    assert isinstance(topic, str)
    if not 0 < (size := len(topic.encode())) <= LONGEST_TOPIC:
        raise ConfigurationError(
            f"topic {shown(topic)} has {size} bytes, and a bus takes 1 to"
            f" {LONGEST_TOPIC}: give what it is made of shorter names"
        )
    return topic


def checked_tasks(given: object) -> bool | frozenset[str]:
    """Check which tasks have a topic of their own: all, none, or those of some names.

    Raises:
        ConfigurationError: It does not say so, or a name is none.
    """
    if isinstance(given, bool):
        return given
    if isinstance(given, str) or not isinstance(given, Collection):
        raise ConfigurationError(
            f"topic_per_task must be True, False or names of tasks, not {shown(given)}"
        )
    return frozenset(check_name("topic_per_task", each) for each in given)


def check_prefetch(prefetch: object) -> None:
    """Check that a prefetch is a number that a bus allows.

    Raises:
        ConfigurationError: It is not.
    """
    if type(prefetch) is not int or not 0 <= prefetch <= MOST_PREFETCHED:
        raise ConfigurationError(
            f"prefetch must be a number of 0 to {MOST_PREFETCHED}: {shown(prefetch)}"
        )


_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(minutes=1)
_MOST_DOUBLED = 6


def offered_again_after(attempt: int) -> timedelta:
    """How long nobody may claim an instance that a worker has given back."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * (1 << min(attempt - 1, _MOST_DOUBLED)))


_SECOND = timedelta(seconds=1)


class PacedLog:
    """A log that writes a few lines of each kind per second, and counts the others.

    Each kind has a limit of its own, so that many lines of one kind never hide a rare
    one of another.

    Args:
        log: The log to write to.
        clock: Measures seconds.
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._kinds: dict[str, BoundedLog] = {}
        self._clock = clock
        self._begun = clock.elapsed()

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless this second had enough lines of this message."""
        # Lines below the level of the log do not count.
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.elapsed()
        if now >= self._begun + _SECOND:
            self._begun = now
            self.close()
        kind = self._kinds.setdefault(message, BoundedLog(self._log))
        kind.write(level, message, *args, ids={}, error=error)

    def close(self) -> None:
        """Write how many lines were left out; call it after the last line."""
        for each in list(self._kinds.values()):
            each.begin()


class SafeDelivery:
    """Wraps a delivery: if ``ack`` or ``reject`` raises, that is logged.

    The bus then delivers the message again.

    Args:
        delivery: The delivery.
        log: The log for errors.

    Raises:
        Exception: The bus raises it for the body.

    Attributes:
        body: The message.
    """

    def __init__(self, delivery: Delivery, log: PacedLog) -> None:
        self._delivery = delivery
        self._log = log
        self.body = delivery.body

    def ack(self) -> None:
        """Tell the bus that the message has been handled."""
        self._tell(self._delivery.ack)

    def reject(self, *, requeue: bool) -> None:
        """Put the message back into the queue, or drop it."""
        self._tell(partial(self._delivery.reject, requeue=requeue))

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        # A third party's bus may raise anything.
        except Exception as error:
            text = "a message could not be acknowledged or rejected: %s"
            self._log.write(logging.ERROR, text, error, error=error)


ENTRY_POINTS = "go_scheduler.buses"

# The same as the schemes in kombu_bus.py, which needs kombu to import.
_BY_KOMBU = ("amqp", "amqps", "memory")
# A scheme by RFC 3986, in lower case.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_registered: dict[str, Callable[..., MessageBus]] = {}


def open_bus(url: str, **options: object) -> MessageBus:
    """Make the bus of a URL; it does not connect yet.

    ``amqp://`` and ``amqps://`` are RabbitMQ, and ``memory://`` is a bus in this
    process, for tests. All three are a ``KombuBus``. Other schemes come from
    ``register_bus``, or from an installed package with an entry point in the group
    ``go_scheduler.buses``: its name is the scheme, and it loads a callable that takes
    the URL and the options.

    Args:
        url: Such as ``amqps://user:password@host:5671/vhost``.
        **options: Options of this bus, such as ``queue_type="quorum"``.

    Raises:
        ConfigurationError: No bus has this scheme or this option, it cannot be
            imported, or the entry point makes no bus. The message does not repeat the
            URL, which may have a password.
    """
    if not isinstance(url, str) or "://" not in url:
        raise ConfigurationError(
            "a bus's URL begins with a scheme, as in amqp://localhost or memory://"
        )
    scheme = url.split("://", 1)[0].lower()
    try:
        bus = _maker(scheme)(url, **options)
    except TypeError as error:
        raise ConfigurationError(f"the bus of {scheme}://: {error}") from error
    if not isinstance(bus, MessageBus):
        raise ConfigurationError(
            f"what is announced for {shown(scheme)} made {a(type(bus).__name__)}, not"
            " a MessageBus"
        )
    return bus


def register_bus(scheme: str, make: Callable[..., MessageBus]) -> None:
    """Register a bus of your own for ``open_bus``.

    Args:
        scheme: The scheme of its URLs: a letter, and then letters, digits, ``+``, ``-``
            and ``.``, in upper or lower case.
        make: Called with the URL and the options; returns a bus.

    Raises:
        ConfigurationError: The scheme is wrong, or it has a bus already; or ``make``
            cannot be called.
    """
    check_type("scheme", scheme, str)
    scheme = scheme.lower()
    if _SCHEME.fullmatch(scheme) is None:
        raise ConfigurationError(
            "scheme must be a letter, and then letters, digits, +, - and ., such as"
            f" nats, not {shown(scheme)}"
        )
    if not callable(make):
        raise ConfigurationError(f"what makes a bus cannot be called: {shown(make)}")
    if scheme in _BY_KOMBU or _registered.get(scheme, make) is not make:
        raise ConfigurationError(f"scheme {shown(scheme)} has a bus: take another one")
    _registered[scheme] = make


def _maker(scheme: str) -> Callable[..., object]:
    if scheme in _BY_KOMBU:
        try:
            from go_scheduler.dispatch.kombu_bus import KombuBus
        except ImportError as error:
            raise ConfigurationError(
                f"the bus of {scheme}:// cannot be imported: {error}; it needs the"
                " extra 'dispatch' of go_scheduler: in a checkout,"
                " pip install '.[dispatch]'"
            ) from error
        return KombuBus
    if scheme in _registered:
        return _registered[scheme]
    announced = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if scheme not in announced:
        known = ", ".join(sorted({*_BY_KOMBU, *_registered, *announced}))
        raise ConfigurationError(
            f"no bus has the scheme {shown(scheme)}; known: {known}"
        )
    try:
        make: Callable[..., object] = announced[scheme].load()
    except Exception as error:
        raise ConfigurationError(
            f"the bus announced for {shown(scheme)} cannot be imported: {shown(error)}"
        ) from error
    return make
