"""The direct start: by whose time, and a store that leaves all starts to the loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler import ExecuteOnceTrigger, TaskDefinition
from go_scheduler.clock import StoreClock
from go_scheduler.events import InstanceFinished
from go_scheduler.testing import ManualClock
from go_scheduler.testing.store.claims import HandOverTests
from tests.behaviour.house import HOUR, ThreadedWorld, seconds, wait_until
from tests.behaviour.test_handing_over import Plain

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler import MemoryStore


class TestPlain(HandOverTests):
    """The suite takes it as it is."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return Plain(clock)


def test_what_may_be_due_by_the_store_is_handed_over_and_called_no_sooner(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    called_at: list[datetime] = []
    monkeypatch.setattr(StoreClock, "round_trip", seconds(1))
    node = threaded.node(lambda _: called_at.append(threaded.clock.now()), lease=HOUR)
    wait_until(lambda: all(each.last_good for each in node.health().loops.values()))
    fire_at = threaded.clock.now() + seconds(0.2)
    node.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(fire_at)))
    threaded.heard.wait(InstanceFinished)
    assert "put_definitions and start" in threaded.faults.asked
    assert called_at[0] >= fire_at
