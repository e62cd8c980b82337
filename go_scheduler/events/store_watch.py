"""The store watch: learns from the loops when the store is away, and when back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError
from go_scheduler.events.node_events import (
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    StoreAway,
    StoreBack,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.events.event import Event


class StoreWatch:
    """Tells that the store is away as soon as a loop fails for want of it.

    Args:
        clock: Measures for how long.
        tell: Told of it.
    """

    HEARD = (LoopFailed, LoopRecovered, NodeStarted)

    def __init__(self, clock: Clock, tell: Callable[[Event], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._failing: set[str] = set()
        self._since: timedelta = ZERO

    def hear(self, event: Event) -> None:
        """Hear of a loop that has failed or goes on, or of a new node."""
        was_away = bool(self._failing)
        if isinstance(event, NodeStarted):
            self._failing.clear()
        elif isinstance(event, LoopFailed) and isinstance(event.exception, StoreError):
            self._failing.add(event.loop)
            if not was_away:
                self._since = self._clock.elapsed()
                self._tell(StoreAway(loop=event.loop, error=event.error))
        else:
            assert isinstance(event, LoopFailed | LoopRecovered)
            self._failing.discard(event.loop)
        if was_away and not self._failing:
            self._tell(StoreBack(away=self._clock.elapsed() - self._since))
