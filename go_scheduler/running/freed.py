"""How many workers have come free lately."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


class Freed:
    """How many runs freed a worker, and when."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._noted: deque[tuple[timedelta, int]] = deque()
        self._lately = 0

    def note(self, elapsed: timedelta) -> None:
        """Note that those that have been counted were freed now."""
        with self._lock:
            self._noted.append((elapsed, self.count))
            self._lately += self.count
        self.count = 0

    def since(self, elapsed: timedelta) -> int:
        """How many were freed since then; older ones are forgotten."""
        with self._lock:
            while self._noted and self._noted[0][0] < elapsed:
                self._lately -= self._noted.popleft()[1]
            return self._lately
