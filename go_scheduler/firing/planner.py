"""The planner: plans definitions under guard, with what has to be read for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.firing.displacement import DisplacedError, LastFired
from go_scheduler.firing.full import within_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.firing.guard import Guard
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MOST_DISPLACED = 50
"""The most definitions for which is read at once what has fired last, one by one."""


class Planned(NamedTuple):
    """What came of planning.

    Attributes:
        firings: The steps to take, in no order.
        complete: Whether there is no definition for which there was no time.
    """

    firings: Sequence[Firing]
    complete: bool


class Planner:
    """Plans definitions; what time zones have displaced by what has fired last.

    Args:
        store: Tells what has fired last.
        guard: Calls the triggers.
    """

    def __init__(self, store: Store, guard: Guard) -> None:
        self._store = store
        self._guard = guard

    def plan(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        now: datetime,
        until: datetime,
        failed: Callable[[TaskDefinition, Exception], None],
    ) -> Planned:
        """Plan the step of each definition.

        Args:
            definitions: The definitions, with a ``next_fire_time``.
            now: The store's time.
            until: How far ahead to go.
            failed: Told of each whose trigger raised, misbehaved or hung.
        """
        displaced: list[TaskDefinition] = []

        def fail(definition: TaskDefinition, error: Exception) -> None:
            if isinstance(error, DisplacedError):
                displaced.append(definition)
            else:
                failed(definition, error)

        planned = self._guard.plan(definitions, now=now, until=until, failed=fail)
        firings = [self._within_queue(each) for each in planned]
        if not displaced:
            return Planned(firings, complete=True)
        some = displaced[:MOST_DISPLACED]
        last = {each.id: self._last_fired(each) for each in some}
        found = self._guard.plan(some, now=now, until=until, failed=failed, last=last)
        more = [self._within_queue(each) for each in found]
        return Planned([*firings, *more], complete=len(some) == len(displaced))

    def _within_queue(self, firing: Firing) -> Firing:
        """A step, of as much as may wait; what is beyond it is left out."""
        most = firing.definition.max_queue
        if most is None or firing.definition.trigger.waits or not firing.fire_times:
            return firing
        waiting = self._store.count_waiting(firing.definition.id, most=most)
        return within_queue(firing, most - waiting)

    def _last_fired(self, definition: TaskDefinition) -> LastFired:
        last, since = None, _EARLIEST
        # By a jitter an earlier fire time may run later: each look is behind the last.
        while newest := self._store.list_instances(
            definition_id=definition.id, fired_since=since, newest_first=True, limit=1
        ):
            fired = newest[0].fire_time
            assert fired is not None
            since = fired + _MICROSECOND
            # Before one that was backfilled the schedule need not have fired.
            last = fired if newest[0].backfilled is None else last
        return LastFired(last)
