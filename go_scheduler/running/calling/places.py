"""Places: a bound on how many runs are under way at once in something without one."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.running.held_run import HeldRun


class Places:
    """Lets runs begin while there are places; the others wait their turn.

    Args:
        size: How many there are.
        begin: Begins a run that has got a place.
    """

    def __init__(self, size: int, begin: Callable[[HeldRun], None]) -> None:
        self.size = size
        self._begin = begin
        self._waiting: SimpleQueue[HeldRun] = SimpleQueue()
        self._lock = threading.Lock()
        self._taken: dict[HeldRun, None] = {}

    def enter(self, run: HeldRun) -> None:
        """Begin a run as soon as there is a place."""
        self._waiting.put(run)
        self.fill()

    def leave(self, run: HeldRun) -> None:
        """Give the place of a run to the next, if it has one still."""
        self.vacate(run)
        self.fill()

    def vacate(self, run: HeldRun) -> None:
        """Leave a place, which the next ``fill`` gives away."""
        with self._lock:
            self._taken.pop(run, None)

    def fill(self) -> None:
        """Begin what waits, as far as there are places."""
        while (run := self._next()) is not None:
            self._begin(run)

    def drain(self) -> Iterator[HeldRun]:
        """Take out what waits."""
        while True:
            try:
                yield self._waiting.get_nowait()
            except Empty:
                return

    def empty(self) -> Iterator[HeldRun]:
        """Take out all there is: what has a place, and what waits."""
        with self._lock:
            taken, self._taken = self._taken, {}
        yield from taken
        yield from self.drain()

    def _next(self) -> HeldRun | None:
        with self._lock:
            if len(self._taken) >= self.size:
                return None
            try:
                run = self._waiting.get_nowait()
            except Empty:
                return None
            self._taken[run] = None
            return run
