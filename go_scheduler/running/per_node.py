"""How many runs of one definition a node has in its hands, where that is limited."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from go_scheduler.running.intake import GivenBack

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun

_STEP = timedelta(seconds=1)
_MOST_STEPS = 30


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
        self._lock = Lock()
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
        return GivenBack(reason, _STEP * min(refused // most + 1, _MOST_STEPS))
