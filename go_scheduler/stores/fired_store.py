"""The part of the store interface that is about what one definition has fired.

A store may leave these as they stand here, as it may those of ``ViewStore``.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from go_scheduler.models import RUNS, WAITING
from go_scheduler.stores import orders
from go_scheduler.stores.instance_store import InstanceStore
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import State, TaskInstance

_PAGE = 1_000


class FiredStore(InstanceStore):
    """Reads a definition's instances by fire time, and those that have none."""

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired, in the order of fire times.

        Args:
            definition_id: Which; of one that is not there nothing is found.
            since: Their ``fire_time`` is not before this.
            before: It is before this.
            newest_first: Whether the latest come first.
            limit: Most instances to return; at least 1.
        """
        found = sorted(
            self._every(None, definition_id, since=since, before=before),
            key=orders.by_fire_time,
            reverse=newest_first,
        )
        return found[:limit]

    def count_fired(
        self, definition_id: UUID, bounds: Sequence[datetime], *, most: int
    ) -> Sequence[Mapping[State, int]]:
        """How many a definition has fired, by their state, in some spans of time.

        Args:
            definition_id: Which; of one that is not there nothing is found.
            bounds: Each span goes from one of them to the next, which is not in it.
            most: So many are counted of a span, those with the earliest fire times.

        Returns:
            The numbers of each span; states that have none are left out.
        """
        spans = pairwise(bounds)
        found = (
            self.list_fired(definition_id, since=since, before=before, limit=most)
            for since, before in spans
        )
        return [Counter(each.state for each in fired) for fired in found]

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first.

        That is what was made by hand or on demand, and records of what was skipped. Of
        more than five thousand it is any five thousand of which the latest are taken.

        Args:
            definition_id: Which; of one that is not there nothing is found.
            limit: Most instances to return; at least 1.

        Returns:
            They, in the order of ``(execute_at, id)`` backwards.
        """
        found = [
            each for each in self._every(None, definition_id) if each.fire_time is None
        ]
        return sorted(found, key=orders.by_execution, reverse=True)[:limit]

    def count_waiting(self, definition_id: UUID, *, most: int) -> int:
        """How many instances of a definition have not ended, and have not begun.

        A run on a bus has not begun while it has a ``start_by``: it is published, or
        accepted. Any other that is running has begun.

        Args:
            definition_id: Which; of one that is not there none does.
            most: So many are counted at most.
        """
        waiting = (
            each
            for state in (*WAITING, *RUNS)
            for each in self._every(state, definition_id)
            if state in WAITING or each.start_by is not None
        )
        return sum(1 for _ in islice(waiting, most))

    def _every(
        self,
        state: State | None,
        definition_id: UUID | None = None,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[TaskInstance]:
        """All that there are, a page at a time."""
        after = None
        while True:
            page = self.list_instances(
                state=state,
                definition_id=definition_id,
                fired_since=since,
                fired_before=before,
                queues=queues,
                owners=owners,
                newest_first=newest_first,
                after=after,
                limit=_PAGE,
            )
            yield from page
            if len(page) < _PAGE:
                return
            after = Position.of_instance(page[-1])
