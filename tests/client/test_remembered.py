"""A program that schedules at every start: what has ended does not run again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.testing.clock import START
from go_scheduler.triggers import zones
from go_scheduler.triggers.combining.limited import LimitedTrigger
from go_scheduler.triggers.cron.cron_trigger import CronTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

DAY = timedelta(days=1)
TRIGGERS: dict[str, Trigger] = {
    "once": ExecuteOnceTrigger(START + DAY),
    "once, and late": ExecuteOnceTrigger(START - DAY),
    "twice": LimitedTrigger(IntervalTrigger(DAY), limit=2),
    "thrice": LimitedTrigger(CronTrigger("0 9 * * *"), start=START, limit=3),
}


class Program:
    """Schedules the same at every start; some of it has ended long ago."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.ran: list[str] = []
        self._scheduler = Scheduler(
            self._run,
            store,
            clock=clock,
            schedule_window=DAY,
            runner_window=DAY,
            cleanup_window=DAY,
            lease=DAY,
            expire_after=DAY,
        )

    def live_for(self, clock: ManualClock, delta: timedelta) -> None:
        with self._scheduler:
            for name, trigger in TRIGGERS.items():
                self._scheduler.schedule(
                    TaskDefinition(
                        id=TaskDefinition.id_for(name), name=name, trigger=trigger
                    )
                )
            clock.advance(delta)

    def _run(self, instance: TaskInstance) -> None:
        assert instance.definition.name is not None
        self.ran.append(instance.definition.name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["memory", "sqlite"], indirect=True)
def test_what_is_scheduled_at_each_start_of_a_year_runs_as_often_as_it_says(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each hour of the year those are looked at that have been asked for.
    monkeypatch.setattr(zones, "_zones", {})
    program = Program(store, clock)
    for _ in range(13):
        program.live_for(clock, 28 * DAY)
    assert {name: program.ran.count(name) for name in TRIGGERS} == {
        "once": 1,
        "once, and late": 1,
        "twice": 2,
        "thrice": 3,
    }
    # What is remembered is no definition.
    assert store.list_definitions() == []


def test_ids_that_are_too_many_to_be_remembered_are_told(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store.most_remembered = 2
    with Scheduler(print, store, clock=clock, retention=timedelta(0)) as scheduler:
        for number in range(4):
            scheduler.schedule(
                TaskDefinition(
                    id=TaskDefinition.id_for(str(number)),
                    trigger=ExecuteOnceTrigger(START),
                )
            )
        clock.advance(timedelta(minutes=2))
    assert "2 ids of definitions that have ended are forgotten" in caplog.text
