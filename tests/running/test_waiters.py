"""One node claims for workers that wait for different sets of queues."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.run import HandedOn
from go_scheduler.running.calling.waiters import Waiter
from tests.behaviour.house import LeapingClock
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler import TaskInstance
    from go_scheduler.stores import Claimant

SECOND = timedelta(seconds=1)
TOOK = SECOND / 5


class Asleep(Waiter):
    """One that waits on and on."""

    def __init__(self, queue: str) -> None:
        super().__init__((queue,), HandedOn(expire_after=SECOND), 1)

    def wake(self) -> None:
        raise AssertionError("there is nothing to hand out")


class SlowStore(MemoryStore):
    """Takes a while for each claim.

    Attributes:
        far: Set when a claim looks as far ahead as all sets of queues take.
    """

    def __init__(self, clock: LeapingClock, most: timedelta) -> None:
        super().__init__(clock)
        self._leaping, self._most = clock, most
        self.far = threading.Event()

    def claim_instances(
        self, claimant: Claimant, *, ahead: timedelta, **asked: Any
    ) -> Sequence[TaskInstance]:
        if ahead >= self._most:
            self.far.set()
        self._leaping.leap(TOOK)
        return super().claim_instances(claimant, ahead=ahead, **asked)


def test_the_more_sets_a_slow_store_is_asked_for_the_farther_it_is_looked_ahead() -> (
    None
):
    clock, queues = LeapingClock(), [str(each) for each in range(10)]
    # As for one set, and in addition what the others take.
    store = SlowStore(clock, SECOND + 5 * TOOK + len(queues) * TOOK)
    out = Scheduler(None, store, clock=clock)._handing_out()
    node = out._started()
    try:
        for each in queues:
            node.waiters.join(Asleep(each))
            node.subscribe((each,))
        assert store.far.wait(FAILED_AFTER)
    finally:
        out.stop()
