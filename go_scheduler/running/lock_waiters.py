"""Lock waiters: has the store go over what is parked, in time for what it awaits."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.definition_events import InstanceSkipped
from go_scheduler.events.event import of_instance, of_skipped
from go_scheduler.events.instance_events import (
    InstanceParked,
    InstanceReplaced,
    InstanceUnparked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.state import NodeState
    from go_scheduler.stores.messages import Reviewed

_BATCH = 500
_PAUSE = timedelta(seconds=1)
# Where this is left to another node, which may not be able to.
_LONG_PAUSE = timedelta(seconds=5)
# While there is more than a look goes over, or others have locked what could go on.
_SHORT_PAUSE = timedelta(milliseconds=100)


class LockWaiters:
    """Lets what is parked go on soon after its slot is free, or end when it is due.

    What this node has parked or ended is looked after at once, and whatever is parked
    each second, for other nodes may have died, or parked beside an end. Where nodes
    share the work, one of them does so each second, and the others more seldom.

    Args:
        state: What the node's parts share.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(self, state: NodeState) -> None:
        self._store = state.store
        self._clock = state.clock
        self._work_found = state.work_found
        self._shares = state.shares
        # While nothing is parked: sooner than that nothing lapses that another node
        # has left behind.
        self._lease = state.settings.lease
        self._events = state.events.teller("running", bounded=True)
        # Elapsed times at which there is something to look after.
        self._expected: deque[timedelta] = deque()
        self.ticker = state.ticker("slots", self.tick, self._lease)
        state.slot_freed.connect(self.free)

    def park(self, instances: Sequence[TaskInstance]) -> None:
        """Look after what was parked here, when it is due."""
        for each in instances:
            self._events.tell(InstanceParked(**of_instance(each)))
        self._expect(min(each.due_at for each in instances))

    def free(self) -> None:
        """Look after those that wait for a slot: here one was let go of."""
        self._expect(self._clock.now())

    def tick(self) -> timedelta:
        """Have the store go over what is parked; answer how soon to do so again."""
        self._events.begin()
        elapsed = self._clock.elapsed()
        # Before the store is asked: what is expected meanwhile needs another look.
        for _ in range(len(self._expected)):
            at = self._expected.popleft()
            if at > elapsed:
                self._expected.append(at)
        found = self._store.review_parked(limit=_BATCH)
        self._tell(found)
        if found.unparked:
            self._work_found()
        pause = self._pause_after(found)
        at = min(self._expected.copy(), default=elapsed + pause)
        return max(ZERO, min(pause, at - elapsed))

    def _pause_after(self, found: Reviewed) -> timedelta:
        """How soon there may be something to do again."""
        if found.skipped or found.replaced:
            # They may have left their slots to others.
            return ZERO
        if not (found.more or found.parked):
            return self._lease
        # A node without a handler has no such loop.
        if self._shares.is_first("slots", serves=True):
            return _SHORT_PAUSE if found.more else _PAUSE
        return _PAUSE if found.more else _LONG_PAUSE

    def _expect(self, at: datetime) -> None:
        wait = max(ZERO, at - self._clock.now())
        self._expected.append(self._clock.elapsed() + wait)
        self.ticker.wake()

    def _tell(self, found: Reviewed) -> None:
        for each in found.unparked:
            self._events.tell(InstanceUnparked(**of_instance(each)))
        for each in found.replaced:
            self._events.tell(InstanceReplaced(**of_instance(each)))
        for each in found.skipped:
            assert each.skipped is not None
            ids = of_skipped(each.definition, each.skipped)
            self._events.tell(InstanceSkipped(**ids, late=False))
