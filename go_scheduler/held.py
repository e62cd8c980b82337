"""What a node has in its hands: its claims, by how far each has come."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from go_scheduler.run import Run


class Held:
    """The runs of a node that have not ended.

    A run *waits* for its time, is *queued* for a worker, and *runs*. Each step succeeds for
    one caller only, so that a run that is given back is not called as well.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Dictionaries for their order: the first is the one that has been there longest.
        self._waiting: dict[Run, None] = {}
        self._queued: dict[Run, None] = {}
        self._running: dict[Run, None] = {}

    @property
    def waiting(self) -> int:
        """How many runs wait for their time."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many runs need a worker or have one."""
        return len(self._queued) + len(self._running)

    def running(self) -> Sequence[Run]:
        """The runs whose handler has been called and has not come back."""
        with self._lock:
            return list(self._running)

    def uncalled(self) -> Sequence[Run]:
        """The runs that wait for their time or for a worker."""
        with self._lock:
            return [*self._waiting, *self._queued]

    def queued(self, *, before: timedelta | None = None) -> Sequence[Run]:
        """The runs that wait for a worker, longest waiting first.

        Args:
            before: Only those queued before this elapsed time; None: all.
        """
        found = []
        with self._lock:
            for run in self._queued:
                if before is not None and run.queued is not None and run.queued >= before:
                    break
                found.append(run)
        return found

    def add(self, runs: Iterable[Run]) -> None:
        """Take claimed runs, which now wait for their time."""
        with self._lock:
            self._waiting.update(dict.fromkeys(runs))

    def enqueue(self, run: Run, elapsed: timedelta) -> bool:
        """Say that a run's time has come; false if it is not waiting any more."""
        with self._lock:
            if run not in self._waiting:
                return False
            del self._waiting[run]
            run.queued = elapsed
            self._queued[run] = None
            return True

    def call(self, run: Run) -> bool:
        """Say that a run is being called; false if it is not queued any more."""
        with self._lock:
            if run not in self._queued:
                return False
            del self._queued[run]
            self._running[run] = None
            return True

    def drop(self, run: Run) -> bool:
        """Let go of a run that was not called; false if it was, or was let go before."""
        with self._lock:
            for runs in (self._waiting, self._queued):
                if run in runs:
                    del runs[run]
                    return True
            return False

    def end(self, run: Run) -> None:
        """Say that a called run has come back."""
        with self._lock:
            del self._running[run]

    def settle(self, run: Run) -> bool:
        """Decide a run's outcome; false if it has been decided before."""
        with self._lock:
            if run.settled:
                return False
            run.settled = True
            return True
