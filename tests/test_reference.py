"""The behaviour of the reference: what an ancestor of this scheduler promised."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.scheduler import Scheduler
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from datetime import datetime


@pytest.mark.slow
def test_all_of_it_holds_in_real_time() -> None:
    clock = SystemClock()
    counts = {"once": 0, "hung": 0, "failing": 0}
    order: list[int] = []
    starts: list[tuple[datetime, TaskInstance]] = []
    hung_again, failed_thrice, ended = (threading.Event() for _ in range(3))

    def handler(instance: TaskInstance) -> None:
        starts.append((clock.now(), instance))
        kind = instance.metadata["kind"]
        if kind == "order":
            order.append(int(str(instance.metadata["number"])))
            return
        if kind == "tick":
            return
        assert isinstance(kind, str)
        counts[kind] += 1
        if kind == "hung":
            if counts[kind] == 1:
                ended.wait(FAILED_AFTER)
            else:
                hung_again.set()
        if kind == "failing":
            if counts[kind] == 3:
                failed_thrice.set()
            raise ValueError("no")

    def one(kind: str, after: float, number: int = 0) -> TaskDefinition:
        return TaskDefinition(
            trigger=ExecuteOnceTrigger(clock.now() + seconds(after)),
            metadata={"kind": kind, "number": number},
            expire_after=seconds(0.5),
        )

    with Scheduler(handler) as scheduler:
        scheduler.schedule(one("once", 1))
        for number in (3, 2, 1):
            scheduler.schedule(one("order", 0.2 * number, number))
        scheduler.schedule(one("hung", 0))
        scheduler.schedule(one("failing", 0))
        ticking = IntervalTrigger(seconds(0.1))
        scheduler.schedule(
            TaskDefinition(trigger=ticking, metadata={"kind": "tick", "number": 0})
        )
        assert hung_again.wait(FAILED_AFTER)
        assert failed_thrice.wait(FAILED_AFTER)
        ended.set()
    assert counts["once"] == 1
    assert order == [1, 2, 3]
    assert counts["hung"] == 2
    assert all(at >= instance.execute_at for at, instance in starts)
    ticks = [one for _, one in starts if one.metadata["kind"] == "tick"]
    assert len({each.fire_time for each in ticks}) == len(ticks)
