"""The feed: hands runs to an executor of the user's, and copes with one that breaks."""

from __future__ import annotations

import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.events import ExecutorFailed, ExecutorRecovered
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.formatting import shown
from go_scheduler.running.calling.process_executor import ProcessExecutor
from go_scheduler.running.calling.workers import Places

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock
    from go_scheduler.running.held import HeldRun

_PAUSE = timedelta(seconds=1)
_ARGUMENTS = (
    "max_workers",
    "mp_context",
    "initializer",
    "initargs",
    "max_tasks_per_child",
)


class Feed:
    """Hands over no more than there is room for; an executor's own queue has no bound.

    A process pool is handed no more than it has processes, so that all it has is being
    called. An executor that refuses what it is handed is asked again every second; a
    plain process pool that broke is made again.

    Args:
        executor: Calls the handlers.
        hand_over: Submits a run to an executor; None: there was nothing to submit.
        give_back: Takes what has not been called.
        clock: Measures elapsed time.
        max_workers: The most handlers that run at once.
        events: Told when it takes nothing, and when it does again.
    """

    def __init__(
        self,
        executor: Executor,
        hand_over: Callable[[Executor, HeldRun], Future[Any] | None],
        *,
        give_back: Callable[[HeldRun], None],
        clock: Clock,
        max_workers: int,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("running")
        self._executor = executor
        self._hand_over = hand_over
        self._give_back = give_back
        self._clock = clock
        self._places = Places(_room_of(executor, max_workers), self._begin)
        self._lock = threading.Lock()
        # Why it takes nothing, and when it was last asked.
        self._refusal: Exception | None = None
        self._asked: timedelta | None = None
        self._made: Executor | None = None
        # What can be ended, as long as it is not done.
        self._futures: dict[HeldRun, Future[Any]] = {}

    @property
    def size(self) -> int:
        """How many it is handed at once."""
        return self._places.size

    @property
    def trouble(self) -> str | None:
        """Why it takes nothing; None: it does."""
        refusal = self._refusal
        return None if refusal is None else f"the executor takes nothing: {refusal!r}"

    def submit(self, run: HeldRun) -> None:
        """Hand a run over as soon as there is room."""
        if self._refusal is None:
            self._places.enter(run)
        else:
            self._give_back(run)

    def revive(self) -> None:
        """Ask an executor that refuses once more, if that was not a moment ago."""
        with self._lock:
            if self._refusal is not None:
                self._ask_again(self._refusal)

    def end(self, run: HeldRun) -> bool:
        """End the process that calls a run; false: nothing here can be ended."""
        future = self._futures.get(run)
        if future is None or not isinstance(self._executor, ProcessExecutor):
            return False
        return self._executor.end(future)

    def stop(self) -> None:
        """Shut down what was made here; what runs in it goes on."""
        if isinstance(self._executor, ProcessExecutor):
            self._executor.let_go()
        if self._made is not None:
            self._made.shutdown(wait=False)

    def _begin(self, run: HeldRun) -> None:
        executor = self._executor
        try:
            future = self._hand_over(executor, run)
        except Exception as error:
            self._places.vacate(run)
            self._give_back(run)
            self._refused(executor, error)
            return
        if future is None or future.done():
            self._places.vacate(run)
        else:
            self._futures[run] = future
            future.add_done_callback(lambda done: self._come_back(executor, run, done))

    def _come_back(self, executor: Executor, run: HeldRun, future: Future[Any]) -> None:
        self._futures.pop(run)
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            self._refused(executor, error)
        # A run that still waited in the executor has not been called.
        self._give_back(run)
        self._places.leave(run)

    def _refused(self, executor: Executor, error: Exception) -> None:
        with self._lock:
            # All that a broken pool had comes back, and it may have been made again.
            if executor is self._executor and self._refusal is None:
                event = ExecutorFailed(error=shown(error), exception=error)
                self._events.tell(event)
                self._refusal = error
                self._ask_again(error)
        if self._refusal is not None:
            for run in self._places.drain():
                self._give_back(run)

    def _ask_again(self, refusal: Exception) -> None:
        elapsed = self._clock.elapsed()
        if self._asked is not None and elapsed < self._asked + _PAUSE:
            return
        self._asked = elapsed
        made = _made_again(self._executor, refusal)
        if made is not None:
            self._executor = self._made = made
        elif not _takes_more(self._executor):
            return
        self._events.tell(ExecutorRecovered())
        self._refusal = None


def _room_of(executor: Executor, max_workers: int) -> int:
    if isinstance(executor, ProcessExecutor):
        return min(max_workers, executor.max_workers)
    if isinstance(executor, ProcessPoolExecutor):
        return min(max_workers, getattr(executor, "_max_workers", max_workers))
    return max_workers


def _made_again(executor: Executor, refusal: Exception) -> Executor | None:
    """A process pool like the one that broke; None: it is another kind, or has not."""
    if type(executor) is not ProcessPoolExecutor:
        return None
    attributes = vars(executor)
    arguments = {name: attributes.get(f"_{name}", refusal) for name in _ARGUMENTS}
    if not isinstance(refusal, BrokenExecutor) or refusal in arguments.values():
        return None
    return ProcessPoolExecutor(**arguments)


def _takes_more(executor: Executor) -> bool:
    try:
        executor.submit(int)
    except Exception:
        return False
    return True
