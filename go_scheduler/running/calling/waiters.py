"""The waiters: workers elsewhere that wait for a run, and take it with them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING

from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.running.calling.calls import Calls
from go_scheduler.running.state import NodeState, Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler.models import TaskInstance
    from go_scheduler.run import HandedOn
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.result_writer import ResultWriter

# So many instances are held before they are due for each that is waited for: others may
# have waiters for more by then.
_HELD_FOR_EACH = 16


class Waiter(ABC):
    """A worker that waits.

    Args:
        queues: For work from which queues, each once and in order.
        handed_on: What the store is told of what it is handed.
        most: How many instances it takes.

    Attributes:
        found: What it has been handed.
        left: How many more it takes.
    """

    def __init__(self, queues: tuple[str, ...], handed_on: HandedOn, most: int) -> None:
        self.queues = queues
        self.handed_on = handed_on
        self.left = most
        self.found: list[TaskInstance] = []

    @abstractmethod
    def wake(self) -> None:
        """Tell it that it has been handed something; called from any thread."""


class _Line:
    """Those that wait for the same queues.

    Attributes:
        waiters: Who, by when they came, the longest waiting first.
        room: How much those take that have been handed nothing: who has is about to
            leave.
    """

    def __init__(self) -> None:
        self.waiters: dict[Waiter, int] = {}
        self.room = 0


class Waiters(Part):
    """Hand each run to one of the workers that wait for its queue.

    The one that has waited longest is first. One that takes several gets its second
    when all have one.

    Args:
        state: What the node's parts share.
        writer: Told of what is handed on, and for how long.
    """

    # Nothing keeps them from taking more.
    trouble = None

    def __init__(self, state: NodeState, writer: ResultWriter) -> None:
        super().__init__(state)
        # The registry is never asked: nothing is called here.
        self._calls = Calls(state, HandlerRegistry(), writer)
        self._writer = writer
        self._max_held = state.settings.max_held
        self._room_made = state.room_made
        self._guard = threading.Lock()
        self._lines: dict[tuple[str, ...], _Line] = {}
        self._order = count()

    def room(self, queues: tuple[str, ...]) -> int:
        """How much those take that wait for these and have been handed nothing."""
        line = self._lines.get(queues)
        return 0 if line is None else line.room

    def free(self, queues: tuple[str, ...], recently: int = 0) -> int:
        """How much more is taken at once by those that wait for these queues."""
        # What is due is not counted as theirs until it is handed over.
        room = self.room(queues) - self._held.due_in(queues)
        return min(room, self._max_held - self._writer.backlog)

    def ahead(self, queues: tuple[str, ...]) -> int:
        """How much more may be held for them before it is due."""
        most = min(self._max_held, _HELD_FOR_EACH * self.room(queues))
        return most - self._held.waiting_in(queues)

    def join(self, waiter: Waiter) -> None:
        """Let a worker wait."""
        with self._guard:
            self._add(waiter)
            self._hand_over(self._held.due())
        self._room_made()

    def leave(self, waiter: Waiter) -> None:
        """Let a worker wait no more: it is handed nothing from now on."""
        with self._guard:
            if waiter.left:
                self._remove(waiter)
                waiter.left = 0

    def wake_all(self) -> None:
        """Have all wait no longer."""
        with self._guard:
            waiting = [each for line in self._lines.values() for each in line.waiters]
        for each in waiting:
            each.wake()

    def submit(self, runs: Iterable[HeldRun]) -> None:
        """Hand over runs that are due, as far as anybody waits for them."""
        fallen = self._held.fall_due(runs, self._clock.elapsed())
        with self._guard:
            self._hand_over(fallen)

    def ready(self) -> bool:
        """Whether there is no trouble."""
        return True

    def prepare(self, runs: Iterable[HeldRun]) -> None:
        """Nothing has to be made ready for what falls due soon."""

    def give_back_left(self) -> None:
        """Nothing is left: what is called here has been handed on."""

    def end(self, run: HeldRun) -> bool:
        """Nothing runs here that could be told to end."""
        return False

    def replace(self, run: HeldRun) -> None:
        """Nothing runs here that could hang."""

    def stop(self) -> None:
        """Nothing has to be ended: who waits is told by whoever let it."""

    def _hand_over(self, runs: Iterable[HeldRun]) -> None:
        for run in runs:
            waiter = self._next(run.instance.definition.queue)
            if waiter is not None and self._calls.begin(run):
                self._take(waiter, run)

    def _next(self, queue: str) -> Waiter | None:
        """Who has waited longest for a queue."""
        firsts = [
            next(iter(line.waiters.items()))
            for queues, line in self._lines.items()
            if queue in queues
        ]
        return min(firsts, key=itemgetter(1))[0] if firsts else None

    def _take(self, waiter: Waiter, run: HeldRun) -> None:
        is_first = not waiter.found
        self._remove(waiter)
        waiter.found.append(run.instance)
        waiter.left -= 1
        if waiter.left:
            self._add(waiter)
        self._calls.hand_on(run, waiter.handed_on)
        if is_first:
            waiter.wake()

    def _add(self, waiter: Waiter) -> None:
        line = self._lines.setdefault(waiter.queues, _Line())
        line.waiters[waiter] = next(self._order)
        if not waiter.found:
            line.room += waiter.left

    def _remove(self, waiter: Waiter) -> None:
        line = self._lines[waiter.queues]
        del line.waiters[waiter]
        if not waiter.found:
            line.room -= waiter.left
        if not line.waiters:
            del self._lines[waiter.queues]
