"""Capacity: how much a node may claim, hold and call at a moment."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.running.intake import GivenBack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.waiters import Waiters
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.held import Held, HeldRun
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.running.state import NodeState


class Allowance(NamedTuple):
    """What a claim may take.

    Attributes:
        limit: How many instances; none if it is not above zero.
        ahead: Whether instances whose time is still to come are among them; else only
            what is about to start.
    """

    limit: int
    ahead: bool


class Capacity:
    """What there is room for: workers for what is due, places for what is held.

    Args:
        state: What the node's parts share.
        queues: Of these queues.
        writer: Tells how many ends were recorded lately.
        workers: Tell how many are free, and whether they can be given anything.
    """

    def __init__(
        self,
        state: NodeState,
        queues: tuple[str, ...],
        writer: ResultWriter,
        workers: Workers | Waiters,
    ) -> None:
        self._clock = state.clock
        self._window = state.settings.runner_window
        self._queues = queues
        self._in_flight = state.in_flight
        self._writer = writer
        self._workers = workers

    @property
    def free(self) -> int:
        """How many workers there are for what is handed over at this moment."""
        if self._workers.trouble is not None:
            return 0
        return self._workers.free(self._queues)

    def measure(self, most: int, *, all_due_taken: bool) -> Allowance:
        """How much there is now.

        Of what is due no more than can be called within a window: the free workers, and
        as many as came free in the last one. Of what is not due yet, what may be held.

        Args:
            most: No more than so many.
            all_due_taken: Whether the claim before has left nothing that is due.
        """
        if not self._workers.ready():
            return Allowance(0, ahead=True)
        since = self._clock.elapsed() - self._window
        recently = self._writer.written_since(since)
        coming = self._in_flight.count
        due = self._workers.free(self._queues, recently) - coming
        ahead = self._workers.ahead(self._queues) - coming
        if ahead <= 0:
            return Allowance(min(due, most), ahead=False)
        if due > 0 and all_due_taken:
            return Allowance(min(ahead, most), ahead=True)
        return Allowance(min(due, ahead, most), ahead=True)


_LEAST_EACH = 3
_SHARE = 8


class Spares:
    """How many handlers may hang on a node without costing it a worker.

    Args:
        held: The node's runs.
        most: The most of them.
    """

    def __init__(self, held: Held, *, most: int) -> None:
        self._held = held
        self._most = most
        # So many of one definition, and no further run of it begins here.
        self._enough = max(1, min(max(_LEAST_EACH, most // _SHARE), most - 1))
        # Runs that were begun by then may need more, but must leave as many to others.
        self._most_of_one = max(self._enough, most - self._enough)

    @property
    def used_up(self) -> bool:
        """Whether there is none left."""
        return len(self._held.apart()) >= self._most

    @property
    def unreplaced(self) -> Sequence[HeldRun]:
        """Those of them that still keep a worker."""
        hung, apart = self._held.hung(), self._held.apart()
        return [run for run in hung if run not in apart]

    def take(self, run: HeldRun) -> bool:
        """Let another worker take the place of a run that hangs; false: none may."""
        same = [each for each in self._held.apart() if _are_of_one(each, run.instance)]
        if self.used_up or len(same) >= self._most_of_one:
            return False
        return self._held.set_apart(run)

    def refusal(self, instance: TaskInstance) -> str | None:
        """Why an instance is left to other nodes, if it is."""
        # All together first: this is asked of every instance.
        if len(self._held.hung_runs) < self._enough:
            return None
        same = sum(_are_of_one(run, instance) for run in self._held.hung())
        if same < self._enough:
            return None
        definition = instance.definition
        return f"{self._enough} runs of {definition.name or definition.id} hang here"


def _are_of_one(run: HeldRun, instance: TaskInstance) -> bool:
    return run.instance.definition.id == instance.definition.id


_DELAY = timedelta(seconds=1)
_MOST_DELAYS = 30


class PerNode:
    """Keeps out what is beyond the ``max_per_node`` of its definition.

    It comes later, and what else is due in its queue before it. The more of a
    definition is kept out in a row, the later each comes: a long backlog is not claimed
    again and again for nothing.

    Args:
        held: The node's runs.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lock = threading.Lock()
        self._in_a_row: dict[UUID, int] = {}

    def take(self, run: HeldRun, full: set[UUID]) -> GivenBack | None:
        """Hold a run of a limited definition, or say what becomes of it instead.

        Args:
            run: The run; of a definition that has a limit.
            full: The definitions of which no more can be held in this batch; kept here.
        """
        definition = run.instance.definition
        most = definition.max_per_node
        assert most is not None
        # Several threads let in: two must not both see the last place.
        with self._lock:
            if definition.id not in full:
                if self._held.count_of(definition.id) < most:
                    self._held.add([run])
                    self._in_a_row.pop(definition.id, None)
                    return None
                full.add(definition.id)
            refused = self._in_a_row.get(definition.id, 0)
            self._in_a_row[definition.id] = refused + 1
        reason = (
            f"{most} of {definition.name or definition.id} are here already, and no"
            " more may be on one node (max_per_node)"
        )
        return GivenBack(reason, _DELAY * min(refused // most + 1, _MOST_DELAYS))
