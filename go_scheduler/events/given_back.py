"""Recognises repeated give-backs, which the log leaves out for a minute."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import Clock

_MOST = 1000
_MINUTE = timedelta(minutes=1)


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
        """Note a give-back; return whether it is a repeated one."""
        now, key = self._clock.elapsed(), (definition_id, reason)
        with self._lock:
            last = self._last.pop(key, None)
            self._last[key] = now
            if len(self._last) > _MOST:
                del self._last[next(iter(self._last))]
        return last is not None and now - last <= _MINUTE
