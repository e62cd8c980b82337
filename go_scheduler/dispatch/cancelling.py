"""Cancelling: workers are told which of their runs are to end."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from go_scheduler.dispatch.messages.actions import Cancel
from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.dispatch.topics import Topics
    from go_scheduler.stores.messages import Claim

_MOST = 1000
_EXPIRES = timedelta(minutes=1)


class _Asked(NamedTuple):
    worker: str
    claim: Claim
    reason: Literal["cancelled", "lost"]


class Cancelling:
    """Tells workers to end runs, as long as the bus is there.

    Nothing is kept for when it is back: the next heartbeat of the run is answered
    again.

    Args:
        bus: The bus.
        topics: The names of its topics.
    """

    def __init__(self, bus: MessageBus, topics: Topics) -> None:
        self._bus = bus
        self._topics = topics
        self._asked: deque[_Asked] = deque(maxlen=_MOST)

    def ask(
        self, worker: str, claim: Claim, reason: Literal["cancelled", "lost"]
    ) -> None:
        """Have a worker told with the next ``send``; from any thread."""
        self._asked.append(_Asked(worker, claim, reason))

    def send(self) -> None:
        """Tell all that have to be told; it waits for the bus, not for long."""
        asked: set[_Asked] = set()
        while self._asked:
            asked.add(self._asked.popleft())
        for worker, claim, reason in asked:
            if not self._bus.is_up():
                return
            cancel = Cancel(
                instance_id=claim.instance_id, attempt=claim.attempt, reason=reason
            )
            topic = self._topics.control(worker)
            try:
                self._bus.publish(
                    topic, cancel.to_bytes(), expires=_EXPIRES, keep=False
                )
            except BusUnavailableError:
                return
