"""How long to wait before what did not answer is asked again."""

from __future__ import annotations

import random

_FIRST = 0.1
_LONGEST = 30.0


class Pauses:
    """Longer and longer pauses, each of its own length, so that not all come at once.

    Args:
        longest: The most seconds.
    """

    def __init__(self, longest: float = _LONGEST) -> None:
        self._longest = longest
        self._next = _FIRST

    def next(self, least: float = 0.0) -> float:
        """How many seconds to wait; no less than it asks for, within bounds."""
        seconds = min(max(self._next, least), self._longest)
        self._next = min(2 * self._next, self._longest)
        return seconds * random.uniform(1.0, 1.5)

    def reset(self) -> None:
        """Begin anew, as it has answered."""
        self._next = _FIRST
