"""The threads that call handlers: daemons, no more than are needed and allowed."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from go_scheduler.events.event import of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import ResultLost
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.running.held_run import HeldRun


class Threads:
    """Calls runs on threads that are started as they are needed.

    Args:
        call: Calls the handler of one run.
        most: The most threads, those that have been replaced not counted.
        events: Told of calls of which nobody else can tell.
    """

    def __init__(
        self,
        call: Callable[[HeldRun], None],
        *,
        most: int,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("running")
        self._call = call
        self._most = most
        self._runs: SimpleQueue[HeldRun | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._stopped = False
        # One entry for each thread that waits; taking one out is atomic.
        self._free: deque[None] = deque()
        # The runs that are being called; whoever takes one out has the say over its
        # thread.
        self._calling: dict[HeldRun, None] = {}
        self.count = 0

    def prepare(self, count: int) -> None:
        """Have threads for so many runs that fall due soon: a start takes time."""
        # What cannot be started now is tried again when it is needed.
        with suppress(RuntimeError):
            for _ in range(min(count, self._most) - self.count):
                self._add()
                self._free.append(None)

    def submit(self, run: HeldRun) -> None:
        """Call a run as soon as a thread is free."""
        self._runs.put(run)
        if self.count >= self._most:
            return
        try:
            self._free.pop()
        except IndexError:
            self._add()

    def replace(self, run: HeldRun) -> None:
        """If a thread of these calls it, let another one take that one's place."""
        if self._calling.pop(run, _GONE) is _GONE:
            return
        with self._lock:
            self.count -= 1
        self._add()

    def stop(self) -> None:
        """Let the threads end once they are free; what runs goes on."""
        with self._lock:
            self._stopped = True
            for _ in range(self.count):
                self._runs.put(None)

    def _add(self) -> None:
        with self._lock:
            # One that is started once it has stopped would never end.
            if self.count < self._most and not self._stopped:
                name = f"go_scheduler worker {self._started + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._started += 1
                self.count += 1

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            self._calling[run] = None
            try:
                self._call(run)
            except BaseException as error:
                ids = of_instance(run.instance)
                event = ResultLost(**ids, error=shown(error), exception=error)
                self._events.tell(event)
            if self._calling.pop(run, _GONE) is _GONE:
                return
            if self.count < self._most:
                self._free.append(None)


_GONE = object()
