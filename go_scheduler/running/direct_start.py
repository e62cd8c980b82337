"""The direct start: what this process creates and is due runs here, and at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.base import is_run_by
from go_scheduler.stores.rules import uses_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.running.arrivals import Arrivals
    from go_scheduler.running.claimer import Claimer
    from go_scheduler.running.presence import Presence
    from go_scheduler.running.state import NodeState
    from go_scheduler.stores.messages import Addition, Claimant, Fired, Firing


class DirectStart:
    """Has the write that creates claim and start as well, and passes on what it has.

    Only while there are workers free for it and nothing else is left to be claimed:
    otherwise it is for the instance runner to say what is next, and where.

    Args:
        state: What the node's parts share.
        presence: Knows what this node runs.
        claimer: Says how many workers are free for it.
        arrivals: Let in what is started.
    """

    def __init__(
        self,
        state: NodeState,
        presence: Presence,
        *,
        claimer: Claimer,
        arrivals: Arrivals,
    ) -> None:
        self._store = state.store
        self._clock = state.clock
        self._in_flight = state.in_flight
        self._presence = presence
        self._claimer = claimer
        self._arrivals = arrivals
        self._stopped = False

    def free(self, queues: Collection[str]) -> int:
        """How many more would run at once, in each of these queues."""
        return self._claimer.free(queues) - self._in_flight.count

    def stop(self) -> None:
        """Begin none any more; what is under way is not waited for."""
        self._stopped = True

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
        claimant = self._presence.claimant
        if not is_run_by(firing.definition, claimant):
            return None
        if not self._begin(1, {firing.definition.queue}):
            return None
        try:
            with self._arrivals.asking() as watch:
                answer = self._store.put_definitions(
                    [firing.definition], firings=[firing], claimant=claimant
                )
                [put] = answer.definitions
                created(put, bool(answer.started))
                if answer.started:
                    self._arrivals.add(answer.started, watch)
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
        now, claimant = self._clock.now(), self._presence.claimant
        may_start = all(_may_start(each, claimant, now) for each in firings)
        queues = {each.definition.queue for each in firings}
        if not (may_start and self._begin(len(firings), queues)):
            return None
        try:
            with self._arrivals.asking() as watch:
                fired = self._store.fire_definitions(firings, claimant=claimant)
                told(fired)
                self._arrivals.let_in(fired.started, watch)
        finally:
            self._in_flight.end(len(firings))
        return fired

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        created: Callable[[Sequence[TaskInstance]], None],
        *,
        queue: str | None,
    ) -> Sequence[TaskInstance] | None:
        """Add instances, and run them if they are due.

        Args:
            definition_id: Of which definition.
            additions: What to add.
            created: Told of the answer before any of it runs.
            queue: The queue of the definition; None: it may be any.

        Returns:
            As ``Store.add_instances``; None: nothing was added.

        Raises:
            TaskDefinitionNotFoundError: There is no such definition.
        """
        now = self._clock.now()
        are_due = all(each.execute_at(now) <= now for each in additions)
        claimant = self._presence.claimant
        queues = claimant.queues if queue is None else (queue,)
        if not (are_due and self._begin(len(additions), queues)):
            return None
        ids = {each.id for each in additions}
        try:
            with self._arrivals.asking() as watch:
                added = self._store.add_instances(
                    definition_id, additions, claimant=claimant
                )
                created(added)
                mine = [
                    each
                    for each in added
                    if each.id in ids and each.claimed_by == claimant.node
                ]
                if mine:
                    self._arrivals.add(mine, watch)
        finally:
            self._in_flight.end(len(additions))
        if len(mine) < len(additions):
            self._claimer.look()
        return added

    def _begin(self, count: int, queues: Collection[str]) -> bool:
        """Begin if so many can run at once; false: it is not to be."""
        with self._in_flight.lock:
            # Noted first: whoever looks for lost answers sees it, or this sees that one
            # is lost.
            self._in_flight.add(count)
            begins = not self._stopped and self.free(queues) >= 0
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
