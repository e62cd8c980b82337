"""Why instances were given back: nothing of that is stored, and somebody may ask."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.events.instance_events import InstanceGivenBack

_MOST = 1000
_MINUTE = timedelta(minutes=1)


class GivenBack:
    """The reasons for which the last thousand instances were given back here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[UUID, tuple[int, str]] = {}

    def hear(self, event: InstanceGivenBack) -> None:
        """Keep why one was given back."""
        with self._lock:
            self._last.pop(event.instance_id, None)
            self._last[event.instance_id] = event.attempt, event.reason
            if len(self._last) > _MOST:
                del self._last[next(iter(self._last))]

    def reason(self, instance_id: UUID, attempt: int) -> str | None:
        """Why an attempt was given back; None: it was not, or that is not known."""
        of, reason = self._last.get(instance_id, (None, None))
        return reason if of == attempt else None


class GivenBackLately:
    """Which definitions had something given back within the last minute, and why.

    Args:
        clock: Measures the minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[UUID, str], timedelta] = {}

    def again(self, definition_id: UUID, reason: str) -> bool:
        """Note that one is given back; whether that is nothing new."""
        now, key = self._clock.elapsed(), (definition_id, reason)
        with self._lock:
            last = self._last.pop(key, None)
            self._last[key] = now
            if len(self._last) > _MOST:
                del self._last[next(iter(self._last))]
        return last is not None and now - last <= _MINUTE
