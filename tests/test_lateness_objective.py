"""How late runs begin is measured always, and told when it is later than is wanted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events import ObjectiveBroken, ObjectiveMet, hears
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import MINUTE
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.simple import IntervalTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.events import Event
    from go_scheduler.models import TaskInstance

MOST_IN_TIME = seconds(0.0005)


def nothing(instance: TaskInstance) -> None:
    pass


class Wrong(ManualClock):
    """That of a node whose time of day is off, and may be set."""

    off = ZERO

    def now(self) -> datetime:
        return super().now() + self.off


def test_a_node_whose_clock_is_off_and_jumps_breaks_no_objective() -> None:
    wrong = Wrong()
    told: list[Event] = []
    store = MemoryStore(wrong)
    store._time = lambda: ManualClock.now(wrong)
    listeners = [hears(ObjectiveBroken, ObjectiveMet)(told.append)]
    begun: list[timedelta] = []

    def handler(instance: TaskInstance) -> None:
        begun.append(store.now() - instance.due_at)

    every = TaskDefinition(trigger=IntervalTrigger(seconds(1), anchor=START))
    with Scheduler(
        handler, store, clock=wrong, lateness_objective=seconds(2), listeners=listeners
    ) as scheduler:
        scheduler.schedule(every)
        for minutes in (5, -10, 0, -5):
            wrong.off = timedelta(minutes=minutes)
            wrong.advance(seconds(10))
        lateness = scheduler.health().lateness
    assert (told, {*begun}) == ([], {ZERO})
    assert lateness.minute is not None
    assert lateness.minute.p99 == MOST_IN_TIME
    # The store's minutes are those in which they ran.
    counted = store.list_stats(since=START, until=START + MINUTE)
    assert sum(each.lateness.total for each in counted) == len(begun) == 40
