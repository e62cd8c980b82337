"""Warnings that do not make a scheduler unwell: logged once, and kept for health."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MOST = 1000


class HealthWarnings:
    """Texts in the order in which they came, each once, a thousand at most.

    They are followed by warnings that hold at this moment only.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}
        self._passing: list[Callable[[], Sequence[str]]] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """All warnings."""
        with self._lock:
            passing = (text for each in self._passing for text in each())
            return (*self._texts, *passing)

    @contextmanager
    def passing(self, texts: Callable[[], Sequence[str]]) -> Iterator[None]:
        """Within this context, add the warnings that a function gives at once."""
        with self._lock:
            self._passing.append(texts)
        try:
            yield
        finally:
            with self._lock:
                self._passing.remove(texts)

    def add(self, text: str) -> bool:
        """Add a text; return false if it is known already, or there are too many."""
        with self._lock:
            if text in self._texts or len(self._texts) >= _MOST:
                return False
            self._texts[text] = None
            return True
