"""Buses that change what goes over another one."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

from go_scheduler.dispatch import MessageBus
from go_scheduler.errors import BusUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.dispatch import Delivery, Subscription

_OFTEN = 0.2


class WrappedBus(MessageBus):
    """Another bus, which somebody else closes."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus

    def publish(self, topic: str, body: bytes, **options: Any) -> None:
        self._bus.publish(topic, body, **options)

    def subscribe(
        self, topic: str, receive: Callable[[Delivery], None], **options: Any
    ) -> Subscription:
        return self._bus.subscribe(topic, receive, **options)

    def is_up(self) -> bool:
        return self._bus.is_up()

    def close(self) -> None:
        pass


class RepeatingBus(WrappedBus):
    """Another bus, on which a fifth of what is published here is published again.

    It is published between later messages, in any order.

    Args:
        bus: The other one.
        seed: By which it is chosen.
    """

    def __init__(self, bus: MessageBus, seed: int) -> None:
        super().__init__(bus)
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._again: list[tuple[str, bytes]] = []
        self.repeated = 0

    def publish(
        self, topic: str, body: bytes, *, keep: bool = True, **options: Any
    ) -> None:
        """Publish it, and perhaps one that was published before."""
        super().publish(topic, body, keep=keep, **options)
        with self._lock:
            if keep and self._random.random() < _OFTEN:
                self._again.append((topic, body))
            late = None
            if self._again and self._random.random() < _OFTEN:
                late = self._again.pop(self._random.randrange(len(self._again)))
                self.repeated += 1
        if late is not None:
            try:
                super().publish(*late)
            except BusUnavailableError:
                # It has been published once, and nobody is owed more.
                return
