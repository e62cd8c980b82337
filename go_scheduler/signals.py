"""The requests to stop that a running program gets: signals, and ``stop()``."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


def next_request(requests: SimpleQueue[int | None]) -> int | None:
    """Wait for the next one: a signal's number, or None for ``stop()``."""
    while True:
        # In an endless wait, a signal that came just before the wait would only be
        # noticed with the next one.
        with suppress(Empty):
            return requests.get(timeout=0.5)


@contextmanager
def caught_signals(requests: SimpleQueue[int | None]) -> Iterator[None]:
    """Put SIGINT and SIGTERM to a queue while this lasts, if on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def put(number: int, frame: FrameType | None) -> None:
        requests.put(number)

    before = {
        number: signal.signal(number, put) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
