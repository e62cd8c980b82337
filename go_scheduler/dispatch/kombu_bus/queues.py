"""Queues: declared before anything is published to them, and before they are heard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from amqp.exceptions import ChannelError

if TYPE_CHECKING:
    from go_scheduler.dispatch.kombu_bus.wire import Wire

_OWN_LIVES = timedelta(minutes=1)


class Queues:
    """Declares queues on a connection, on a channel of its own.

    What the broker refuses closes the channel that asked for it.

    Args:
        wire: The connection.
        queue_type: ``classic`` or ``quorum``.
    """

    def __init__(self, wire: Wire, queue_type: str) -> None:
        self._wire = wire
        self._channel: Any = None
        self._type = queue_type

    def declare(self, queue: str, *, own: bool = False) -> ChannelError | None:
        """Have a queue be there that survives the broker's restart.

        Args:
            queue: Its name.
            own: It is forgotten a while after the last of its consumers.

        Returns:
            Why the broker does not make it, if it does not: it may be there all the
            same, made by somebody else.
        """
        if self._channel is None:
            self._channel = self._wire.channel()
        arguments: dict[str, object] = {}
        if own:
            arguments["x-expires"] = int(_OWN_LIVES.total_seconds() * 1000)
        elif self._type != "classic":
            arguments["x-queue-type"] = self._type
        channel, self._channel = self._channel, None
        try:
            channel.queue_declare(
                queue=queue, durable=True, auto_delete=False, arguments=arguments
            )
        except ChannelError as error:
            refused: ChannelError = error
            return refused
        self._channel = channel
        return None
