"""Arrivals: what the store has given this node, on its way to the start queue."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.stores.messages import Claim, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.recovery import Unanswered
    from go_scheduler.running.start_queue import StartQueue
    from go_scheduler.running.state import NodeState
    from go_scheduler.running.withdrawing import Watch


class Arrivals:
    """Lets in what was claimed or started: at once, or on a thread of its own.

    Whoever creates an instance may be within a request, whose context is not the
    handler's. And while many instances are read, the claimer sends its next claim.

    Args:
        state: What the node's parts share.
        admission: Keeps out what is not to be called here.
        start_queue: Takes what is admitted.
        unanswered: Told of what could not be let in.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        state: NodeState,
        *,
        admission: Admission,
        start_queue: StartQueue,
        unanswered: Unanswered,
    ) -> None:
        self._store = state.store
        self._in_flight = state.in_flight
        self._admission = admission
        self._start_queue = start_queue
        self._unanswered = unanswered
        self._inbox: deque[tuple[Sequence[TaskInstance], Watch]] = deque()
        self._closed = False
        self.ticker = state.ticker("arrivals", self.tick)

    @contextmanager
    def asking(self) -> Iterator[Watch]:
        """Ask the store for instances, and let in what it gives.

        What is edited meanwhile is noted, and that an answer was lost, or not let in.
        """
        watch = self._admission.watch()
        with self._unanswered.noting():
            yield watch

    def let_in(self, instances: Sequence[TaskInstance], watch: Watch) -> None:
        """Let in what the store has given, on a thread of the node's own."""
        self._start_queue.add(self._admission.admit(instances, watch))

    def add(self, instances: Sequence[TaskInstance], watch: Watch) -> None:
        """Take what the store has given, to be let in soon.

        Args:
            instances: They may be read from their rows when they are let in.
            watch: What is edited since they were asked for.
        """
        self._in_flight.add(len(instances))
        self._inbox.append((instances, watch))
        self.ticker.wake()
        if self._closed:
            self._give_back()

    def tick(self) -> None:
        """Let in all that has come."""
        self._take_in(self.let_in)

    def hold_late(self) -> None:
        """Hold what has come too late to be run, as the node is about to give back."""
        if self.ticker.ended:
            self._take_in(self._admission.admit)

    def close(self) -> None:
        """Leave it to whoever adds more to give that back."""
        self._closed = True
        self._give_back()

    def _take_in(self, take: Callable[[Sequence[TaskInstance], Watch], object]) -> None:
        while self._inbox:
            instances, watch = self._inbox.popleft()
            try:
                take(instances, watch)
            except BaseException:
                self._unanswered.note()
                raise
            finally:
                self._in_flight.end(len(instances))

    def _give_back(self) -> None:
        """Give back what nobody else does any more, in whatever thread has found it."""
        while self._inbox:
            # Another thread may be at it.
            with suppress(IndexError):
                instances, _ = self._inbox.popleft()
                self._in_flight.end(len(instances))
                # Else the claims lapse.
                with suppress(StoreError):
                    self._store.release_instances(
                        [Release(claim=Claim.of(each)) for each in instances]
                    )
