"""How long runs have taken, as a store remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from go_scheduler.clock import ZERO
from go_scheduler.models import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance

MOST_ASKED = 1000
"""Of so many definitions the history is read."""
_RUNS = 20


class ListsInstances(Protocol):
    """A client of a store, or of a server."""

    def list_instances(
        self,
        *,
        definition_id: UUID | None,
        state: State | str | None,
        newest_first: bool,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read a page of instances."""


def durations_of(
    client: ListsInstances, definitions: Iterable[TaskDefinition]
) -> Mapping[UUID, timedelta]:
    """How long the last twenty runs of each took, in the middle.

    Args:
        client: Of the store that remembers them.
        definitions: Of a thousand at most, those with a revision first, it is read.

    Returns:
        By the ids of those that have a run that is remembered and succeeded.
    """
    found: dict[UUID, timedelta] = {}
    known = [each for each in definitions if each.revision is not None]
    for each in known[:MOST_ASKED]:
        runs = client.list_instances(
            definition_id=each.id, state=State.COMPLETED, newest_first=True, limit=_RUNS
        )
        lengths = sorted(
            run.completed_at - run.started_at
            for run in runs
            if run.completed_at is not None and run.started_at is not None
        )
        if lengths:
            found[each.id] = max(lengths[len(lengths) // 2], ZERO)
    return found
