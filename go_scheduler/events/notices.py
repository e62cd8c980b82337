"""What somebody should look into though all is well: said once, and kept for health."""

from __future__ import annotations

import threading

_MOST = 1000


class Notices:
    """Texts, each once and no more than a thousand, in the order of their coming."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them."""
        with self._lock:
            return tuple(self._texts)

    def add(self, text: str) -> bool:
        """Add a text; false if it is there already, or there are too many."""
        with self._lock:
            if text in self._texts or len(self._texts) >= _MOST:
                return False
            self._texts[text] = None
            return True
