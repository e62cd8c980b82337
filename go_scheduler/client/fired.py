"""What users look at of one definition: what it has fired, and has without that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_definition_id, check_type
from go_scheduler.client.arguments import check_limit, checked_bounds, checked_most
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.models import COUNTED
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import State, TaskInstance


class Fired(StoreAccess):
    """Reads a definition's instances by fire time, and those that have none.

    Each call reads a bounded number of rows of an index, as those of ``Views`` do.
    """

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired within a span, in the order of fire times.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            since: Their ``fire_time`` is not before this.
            before: It is before this.
            newest_first: Whether the latest come first.
            limit: The most to return, 1 to 1,000.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        check_type("newest_first", newest_first, bool)
        check_limit(limit)
        return self._ready().list_fired(
            definition_id,
            since=utc(since, name="since"),
            before=utc(before, name="before"),
            newest_first=newest_first,
            limit=limit,
        )

    alist_fired = awaitable(list_fired)
    """Await what ``list_fired`` does; see there."""

    def count_fired(
        self, definition_id: UUID, bounds: Sequence[datetime], *, most: int = COUNTED
    ) -> Sequence[Mapping[State, int]]:
        """How many a definition has fired, by their state, in spans of time.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            bounds: Two to 101 instants: each span goes from one to the next.
            most: So many are counted of a span, the earliest; 1 to 1,000,000.

        Returns:
            The numbers of each span; states that have none are left out.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        times = checked_bounds(bounds)
        return self._ready().count_fired(definition_id, times, most=checked_most(most))

    acount_fired = awaitable(count_fired)
    """Await what ``count_fired`` does; see there."""

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first.

        That is what was made by hand or on demand, and records of what was skipped.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            limit: The most to return, 1 to 1,000.

        Returns:
            They, in the order of ``execute_at`` and id, backwards. Where a definition
            has more than five thousand, some of the latest may be missing.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        check_limit(limit)
        return self._ready().list_unscheduled(definition_id, limit=limit)

    alist_unscheduled = awaitable(list_unscheduled)
    """Await what ``list_unscheduled`` does; see there."""
