"""Polls: hints of a store that is told of nothing, as long as there is work."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.stores.hints import Hints, News

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY = timedelta(milliseconds=100)
_BUSY_FOR = timedelta(minutes=1)


class LastWork:
    """When a process has had work last: where there was some, more may come.

    Args:
        elapsed: Measures how long ago that is.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._until = ZERO

    def note(self) -> None:
        """There is some now."""
        self._until = self._elapsed() + _BUSY_FOR

    @property
    def is_recent(self) -> bool:
        """Whether there was some a moment ago."""
        return self._elapsed() < self._until


class Polls(Hints):
    """Ten looks a second while there is work, and none of its own otherwise.

    Args:
        last: When there was some.
    """

    def __init__(self, last: LastWork) -> None:
        self._last = last
        self._closed = threading.Event()

    def wait(self) -> News:
        """Wait for the next poll."""
        while not self._closed.wait(_EVERY.total_seconds()):
            if self._last.is_recent:
                return News.ANYTHING
        return News.NOTHING

    def close(self) -> None:
        """End a wait."""
        self._closed.set()
