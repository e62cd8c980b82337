"""Arrivals: what the store gives this node, on its way to the start queue."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.errors import (
    ConflictError,
    QueueFullError,
    StoreError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import ClaimAnswerLost
from go_scheduler.running.held import HeldRun
from go_scheduler.running.state import NodeState, Part
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.ticking.retry_later import write_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.running.start_queue import StartQueue
    from go_scheduler.running.withdrawing import Watch

_PAGE = 500
# For so long the store may still be at work on a claim whose answer was lost.
_MAY_STILL_COME = timedelta(seconds=5)


class Arrivals(Part):
    """Lets in what was claimed or started: at once, or on a thread of its own.

    Whoever creates an instance may be within a request, whose context is not the
    handler's. And while many instances are read, the claimer sends its next claim.

    What a claim has taken whose answer was lost is not known here, and given back.

    Args:
        state: What the node's parts share.
        writer: Knows what is not recorded yet.
        start_queue: Takes what has come.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        state: NodeState,
        *,
        writer: ResultWriter,
        start_queue: StartQueue,
    ) -> None:
        super().__init__(state)
        self._writer = writer
        self._start_queue = start_queue
        self._lost_at: timedelta | None = None
        self._inbox: deque[tuple[Sequence[TaskInstance], Watch]] = deque()
        self._closed = False
        self.ticker = state.ticker("arrivals", self.tick)

    @contextmanager
    def asking(self) -> Iterator[Watch]:
        """Ask the store for instances, and let in what it gives.

        What is edited meanwhile is noted, and that an answer was lost, or not let in.
        """
        watch = self._start_queue.withdrawing.watch()
        try:
            yield watch
        except (ConflictError, QueueFullError, TaskDefinitionNotFoundError):
            raise
        except BaseException:
            self._note_lost()
            raise

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
        self._take_in(self._start_queue.take)

    def give_back_late(self, reason: str) -> None:
        """Give back what has come too late to be let in."""

        def give_back(instances: Sequence[TaskInstance], _: Watch) -> None:
            for each in instances:
                self._writer.release(HeldRun(each, self._defaults), reason)

        if self.ticker.ended:
            self._take_in(give_back)

    @property
    def are_unknown(self) -> bool:
        """Whether a claim may have taken what this node does not know of."""
        return self._lost_at is not None

    def give_back_unknown(self) -> bool:
        """Give back what such a claim has taken; true if there was something."""
        # In this order: none comes under way once an answer is lost.
        if self._lost_at is None or self._in_flight.count:
            return False
        self._events.begin()
        # Before the list is asked for: what comes behind it is not in it.
        has_come = self._clock.elapsed() - self._lost_at >= _MAY_STILL_COME
        unknown = self._list_unknown()
        left = self._release(unknown)
        if has_come and not left:
            self._lost_at = None
        return bool(unknown)

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
                self._note_lost()
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

    def _note_lost(self) -> None:
        """Note that the answer to a claim was lost."""
        self._lost_at = self._clock.elapsed()

    def _list_unknown(self) -> Sequence[Claim]:
        # Before the list is read: what ends meanwhile is in both or in neither, and
        # only the thread that claims comes here.
        known = {*self._held.claims(), *self._writer.claims()}
        unknown: list[Claim] = []
        page = self._list_claimed(None)
        while page:
            claims = [Claim.of(each) for each in page]
            unknown += [each for each in claims if each not in known]
            page = self._list_claimed(page[-1])
        return unknown

    def _list_claimed(self, after: TaskInstance | None) -> Sequence[TaskInstance]:
        return self._store.list_claimed(self._state.node, after=after, limit=_PAGE)

    def _release(self, claims: Sequence[Claim]) -> int:
        """Give back, and answer how many could not be."""
        releases = [Release(claim=claim) for claim in claims]
        written = write_each(releases, self._store.release_instances)
        if claims:
            lost = ClaimAnswerLost(node=self._state.node, count=len(claims))
            self._events.tell(lost)
        return len(written.failed) + len(written.busy)
