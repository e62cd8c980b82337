"""Hints by ``PRAGMA data_version``: whether another process has written to the file."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.stores.hints import Hints, News

if TYPE_CHECKING:
    from collections.abc import Callable

# It costs some microseconds, and no lock of the file.
_EVERY = timedelta(milliseconds=20)


class FileWatch(Hints):
    """Asks for the version of a file, again and again.

    Args:
        version: Answers another number if another process has written since.
    """

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._seen: int | None = None
        self._closed = threading.Event()

    def wait(self) -> News:
        """Wait until it is another one; the first is one too."""
        while not self._closed.wait(_EVERY.total_seconds()):
            before, self._seen = self._seen, self._version()
            if before != self._seen:
                return News.ANYTHING
        return News.NOTHING

    def close(self) -> None:
        """End a wait."""
        self._closed.set()
