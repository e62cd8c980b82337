"""What somebody should look into though all is well: said once, and kept for health."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MOST = 1000


class HealthWarnings:
    """Texts, each once and no more than a thousand, in the order of their coming.

    Behind them is what there is to warn of only at this moment.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}
        self._passing: list[Callable[[], Sequence[str]]] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them."""
        with self._lock:
            passing = (text for each in self._passing for text in each())
            return (*self._texts, *passing)

    @contextmanager
    def passing(self, texts: Callable[[], Sequence[str]]) -> Iterator[None]:
        """Have, within this, whatever this answers when it is asked; it never waits."""
        with self._lock:
            self._passing.append(texts)
        try:
            yield
        finally:
            with self._lock:
                self._passing.remove(texts)

    def add(self, text: str) -> bool:
        """Add a text; false if it is there already, or there are too many."""
        with self._lock:
            if text in self._texts or len(self._texts) >= _MOST:
                return False
            self._texts[text] = None
            return True
