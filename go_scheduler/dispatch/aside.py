"""Threads for calls that wait, which are there only while something is to be called."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 16


class Aside:
    """Calls each function on one of a few daemon threads.

    Args:
        most: The most threads.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._threads = 0

    def call(self, function: Callable[[], None]) -> Future[None]:
        """Have it called soon; answers what comes of it."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((function, future))
            begin = self._threads < self._most
            self._threads += begin
        if begin:
            name = "go_scheduler-bus publishing"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def _work(self) -> None:
        while (found := self._next()) is not None:
            function, future = found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

    def _next(self) -> tuple[Callable[[], None], Future[None]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None
