"""A bus that delivers some messages twice: later, and not in their order."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING

from go_scheduler.dispatch import MessageBus
from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.dispatch import Delivery, Subscription

_OFTEN = 0.2


class RepeatingBus(MessageBus):
    """Another bus, on which a fifth of what is published here is published again.

    It is published between later messages, in any order.

    Args:
        bus: The other one.
        seed: By which it is chosen.
    """

    def __init__(self, bus: MessageBus, seed: int) -> None:
        self._bus = bus
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._again: list[tuple[str, bytes]] = []
        self.repeated = 0

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        expires: timedelta | None = None,
        keep: bool = True,
    ) -> None:
        """Publish it, and perhaps one that was published before."""
        self._bus.publish(topic, body, expires=expires, keep=keep)
        with self._lock:
            if keep and self._random.random() < _OFTEN:
                self._again.append((topic, body))
            late = None
            if self._again and self._random.random() < _OFTEN:
                late = self._again.pop(self._random.randrange(len(self._again)))
                self.repeated += 1
        if late is not None:
            try:
                self._bus.publish(*late)
            except BusUnavailableError:
                # It has been published once, and nobody is owed more.
                return

    def subscribe(
        self,
        topic: str,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int = 1,
        own: bool = False,
    ) -> Subscription:
        """As the other one does it."""
        return self._bus.subscribe(topic, receive, prefetch=prefetch, own=own)

    def is_up(self) -> bool:
        """Whether the other one is."""
        return self._bus.is_up()

    def close(self) -> None:
        """Close the other one."""
        self._bus.close()
