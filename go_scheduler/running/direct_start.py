"""The direct start: what this process creates and is due runs here, and at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.base import is_run_by
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.announcing import Announcing
    from go_scheduler.running.claimer import Claimer
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.recovery import Unanswered
    from go_scheduler.running.start_queue import StartQueue
    from go_scheduler.running.state import NodeState
    from go_scheduler.running.withdrawing import Watch
    from go_scheduler.stores.messages import Addition, Claimant, Fired, Firing


class DirectStart:
    """Has the write that creates claim and start as well, and passes on what it has.

    Only while there are workers free for it and nothing else is left to be claimed:
    otherwise it is for the instance runner to say what is next, and where.

    Args:
        state: What the node's parts share.
        announcing: Knows what this node runs.
        claimer: Says how many workers are free for it.
        admission: Keeps out what is not to be called here.
        start_queue: Takes what is admitted.
        unanswered: Looks after what is not answered.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        state: NodeState,
        announcing: Announcing,
        *,
        claimer: Claimer,
        admission: Admission,
        start_queue: StartQueue,
        unanswered: Unanswered,
    ) -> None:
        self._store = state.store
        self._clock = state.clock
        self._in_flight = state.in_flight
        self._announcing = announcing
        self._claimer = claimer
        self._admission = admission
        self._start_queue = start_queue
        self._unanswered = unanswered
        # What the store has started and the node does not hold yet.
        self._inbox: deque[tuple[TaskInstance, Watch]] = deque()
        self._stopped = self._closed = False
        self.ticker = Ticker(
            "direct start",
            self.tick,
            interval=None,
            clock=state.clock.base,
            events=state.events,
        )

    @property
    def free(self) -> int:
        """How many more would run at once."""
        return self._claimer.free - self._in_flight.count

    def tick(self) -> None:
        """Let in what has been started, on a thread of the node's own.

        Whoever creates it may be within a request, whose context is not the handler's.
        """
        started = list(self._inbox)
        try:
            if started:
                self._start_queue.add(self._admit(started))
        except BaseException:
            self._unanswered.note()
            raise
        finally:
            self._forget(len(started))

    def stop(self) -> None:
        """Begin none any more; what is under way is not waited for."""
        self._stopped = True

    def let_in(self) -> None:
        """Hold what has come too late to be run, as the node is about to give back."""
        if self.ticker.ended:
            started = list(self._inbox)
            self._admit(started)
            self._forget(len(started))

    def close(self) -> None:
        """Leave it to what is under way yet to give back what it has started."""
        self._closed = True
        self._give_back()

    def put(
        self,
        firing: Firing,
        created: Callable[[TaskDefinition, bool], None],
    ) -> TaskDefinition | None:
        """Put a definition that is due, and run it.

        Args:
            firing: As for ``Store.put_definitions``.
            created: Told before it runs of the definition, as it was put, and whether
                it was started.

        Returns:
            The definition, as it was put; None: it was not, or nobody knows.
        """
        claimant = self._announcing.claimant
        if not is_run_by(firing.definition, claimant):
            return None
        if not self._begin(1):
            return None
        try:
            watch = self._admission.watch()
            with self._unanswered.noting():
                answer = self._store.put_definitions(
                    [firing.definition], firings=[firing], claimant=claimant
                )
                [put] = answer.definitions
                created(put, bool(answer.started))
                if answer.started:
                    self._pass_on(answer.started, watch)
        except StoreUnavailableError:
            # Puts by themselves are tried again, and say what there is to say.
            return None
        finally:
            self._in_flight.end(1)
        return put

    def fire(
        self, firings: Sequence[Firing], told: Callable[[Fired], None]
    ) -> Fired | None:
        """Fire definitions, and run what they make; on a thread of the node's own.

        Args:
            firings: As for ``Store.fire_definitions``.
            told: Told of the answer before any of it runs.

        Returns:
            As ``Store.fire_definitions``; None: nothing was fired.
        """
        now, claimant = self._clock.now(), self._announcing.claimant
        may_start = all(_may_start(each, claimant, now) for each in firings)
        if not (may_start and self._begin(len(firings))):
            return None
        try:
            watch = self._admission.watch()
            with self._unanswered.noting():
                fired = self._store.fire_definitions(firings, claimant=claimant)
                told(fired)
                self._start_queue.add(self._admission.admit(fired.started, watch))
        finally:
            self._in_flight.end(len(firings))
        return fired

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        created: Callable[[Sequence[TaskInstance]], None],
    ) -> Sequence[TaskInstance] | None:
        """Add instances, and run them if they are due.

        Args:
            definition_id: Of which definition.
            additions: What to add.
            created: Told of the answer before any of it runs.

        Returns:
            As ``Store.add_instances``; None: nothing was added.

        Raises:
            TaskDefinitionNotFoundError: There is no such definition.
        """
        now = self._clock.now()
        are_due = all(each.execute_at(now) <= now for each in additions)
        if not (are_due and self._begin(len(additions))):
            return None
        ids, claimant = {each.id for each in additions}, self._announcing.claimant
        try:
            watch = self._admission.watch()
            with self._unanswered.noting():
                added = self._store.add_instances(
                    definition_id, additions, claimant=claimant
                )
                created(added)
                mine = [
                    each
                    for each in added
                    if each.id in ids and each.claimed_by == claimant.node
                ]
                self._pass_on(mine, watch)
        finally:
            self._in_flight.end(len(additions))
        if len(mine) < len(additions):
            self._claimer.look()
        return added

    def _pass_on(self, started: Sequence[TaskInstance], watch: Watch) -> None:
        self._in_flight.add(len(started))
        self._inbox.extend([(each, watch) for each in started])
        self.ticker.wake()
        if self._closed:
            self._give_back()

    def _admit(
        self, started: Sequence[tuple[TaskInstance, Watch]]
    ) -> Sequence[HeldRun]:
        watches = {watch: None for _, watch in started}
        return self._admission.admit([each for each, _ in started], *watches)

    def _give_back(self) -> None:
        """Give back what nobody else does any more, in whatever thread has found it."""
        left = []
        while self._inbox:
            # Another thread may be at it.
            with suppress(IndexError):
                left.append(self._inbox.popleft()[0])
        self._in_flight.end(len(left))
        if left:
            # Else the claims lapse.
            with suppress(StoreError):
                claims = [Claim.of(each) for each in left]
                self._store.release_instances([Release(claim=each) for each in claims])

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._inbox.popleft()
        self._in_flight.end(count)

    def _begin(self, count: int) -> bool:
        """Begin if so many can run at once; false: it is not to be."""
        with self._in_flight.lock:
            # Noted first: whoever looks for lost answers sees it, or this sees that one
            # is lost.
            self._in_flight.add(count)
            begins = False
            try:
                begins = not self._stopped and self.free >= 0
            finally:
                # An executor's own code may have raised.
                if not begins:
                    self._in_flight.end(count)
            return begins


def _may_start(firing: Firing, claimant: Claimant, now: datetime) -> bool:
    """Whether a firing makes one instance that is due and that the node may start."""
    of = firing.definition
    at = [execute_at for _, execute_at in firing.instances()]
    return (
        len(at) == 1
        and at[0] <= now
        and firing.skipped is None
        and not (of.trigger.waits or uses_slot(of))
        and is_run_by(of, claimant)
    )
