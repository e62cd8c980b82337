"""A lock that serves threads in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator


class WriteLock:
    """Lets one thread at a time write, each in its turn.

    A common lock, and a connection pool, go to whoever asks at the right moment: a
    thread that asks again at once can keep the others waiting for seconds.

    Args:
        longest: How many seconds to wait for it.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take it, and pass it on in the end.

        Raises:
            StoreUnavailableError: It was not passed on in time.
        """
        self._take()
        try:
            yield
        finally:
            self._pass_on()

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=self._longest):
            return
        with self._lock:
            # It may have been passed on at the last moment.
            if mine in self._waiting:
                self._waiting.remove(mine)
                raise StoreUnavailableError(
                    f"other threads have been writing for {self._longest:g} s"
                )

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
