"""How messages are sent: confirmed by the broker, or by the return of the call."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from go_scheduler.dispatch.kombu_bus.queues import Queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.dispatch.kombu_bus.posting import Posting
    from go_scheduler.dispatch.kombu_bus.wire import Wire


class Outlet(Protocol):
    """Sends messages over one connection.

    Attributes:
        unconfirmed: What has been sent, by its number, and has no outcome yet.
    """

    unconfirmed: dict[int, Posting]

    def send(self, posting: Posting) -> None:
        """Send it; its outcome follows."""
        ...


class PlainOutlet:
    """Sends to a broker that has a message once the call returns."""

    def __init__(self, wire: Wire) -> None:
        self._channel = wire.channel()
        self.unconfirmed: dict[int, Posting] = {}

    def send(self, posting: Posting) -> None:
        """Send it, and wait for the broker."""
        message = self._channel.prepare_message(
            posting.body, properties=posting.properties()
        )
        try:
            self._channel.basic_publish(message, exchange="", routing_key=posting.queue)
        except Exception as error:
            posting.failed(error)
            raise
        posting.done()


class ConfirmedOutlet:
    """Sends without waiting; the broker confirms each message when it has it for good.

    Args:
        wire: The connection.
        queue_type: The type of the queues that are not there yet.
        again: Called with a message for which the broker had no queue, to be sent
            again.
    """

    def __init__(
        self, wire: Wire, queue_type: str, *, again: Callable[[Posting], None]
    ) -> None:
        self._queues = Queues(wire, queue_type)
        self._again = again
        self._declared: set[str] = set()
        self._channel: Any = wire.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._acked)
        self._channel.events["basic_nack"].add(self._nacked)
        self._channel.events["basic_return"].add(self._returned)
        # By their number on this channel, in their order.
        self.unconfirmed: dict[int, Posting] = {}
        self._sent = 0

    def send(self, posting: Posting) -> None:
        """Send it."""
        if posting.keep:
            self._declare(posting)
        self._sent += 1
        number = self._sent
        self.unconfirmed[number] = posting
        message = self._channel.prepare_message(
            posting.body,
            content_type="application/json",
            properties={**posting.properties(), "message_id": str(number)},
        )
        self._channel.basic_publish(
            message, exchange="", routing_key=posting.queue, mandatory=posting.keep
        )

    def _declare(self, posting: Posting) -> None:
        if posting.queue in self._declared:
            return
        posting.refused = self._queues.declare(posting.queue)
        self._declared.add(posting.queue)

    def _returned(
        self, error: Exception, exchange: str, routing_key: str, message: Any
    ) -> None:
        """There is no queue for it; it is confirmed next."""
        self._declared.discard(routing_key)
        posting = self.unconfirmed.pop(int(message.properties["message_id"]))
        if posting.returned:
            posting.refused_for(posting.refused or error)
        else:
            posting.returned = True
            self._again(posting)

    def _acked(self, number: int, multiple: bool) -> None:
        for each in self._taken(number, multiple):
            each.done()

    def _nacked(self, number: int, multiple: bool) -> None:
        for each in self._taken(number, multiple):
            each.refused_for(RuntimeError("the queue has refused the message"))

    def _taken(self, number: int, multiple: bool) -> list[Posting]:
        """Those that are confirmed by a number."""
        found = [number]
        if multiple:
            found = list(takewhile(lambda each: each <= number, self.unconfirmed))
        known = [each for each in found if each in self.unconfirmed]
        return [self.unconfirmed.pop(each) for each in known]
