"""A definition that fires all the time keeps none of the others from their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.clock import START
from go_scheduler.triggers.interval import IntervalTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.testing import ManualClock


@pytest.mark.slow
def test_an_interval_of_a_millisecond_leaves_twenty_others_on_time(
    clock: ManualClock,
) -> None:
    late: dict[str | None, list[timedelta]] = {"fast": [], None: []}

    def handler(instance: TaskInstance) -> None:
        name = instance.definition.name
        late[name].append(clock.now() - instance.execute_at)

    scheduler = Scheduler(handler, MemoryStore(clock), clock=clock)
    scheduler.schedule(
        TaskDefinition(trigger=IntervalTrigger(seconds(0.001), START), name="fast")
    )
    for number in range(20):
        anchor = START + number * seconds(0.05)
        scheduler.schedule(TaskDefinition(trigger=IntervalTrigger(seconds(1), anchor)))
    with scheduler:
        clock.advance(seconds(2))
    assert len(late["fast"]) == 2000
    assert len(late[None]) == 40
    assert max(late[None]) < seconds(0.05)
