"""The store is away as soon as a loop fails for want of it, until none does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events import (
    Event,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    StoreAway,
    StoreBack,
    hears,
)
from go_scheduler.events.event_bus import Events

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

AWAY = StoreUnavailableError("away")
STARTED = NodeStarted(node=UUID(int=1), queues=("default",), max_workers=1)


class House:
    """What is told of loops, and what is heard of the store."""

    def __init__(self, clock: ManualClock) -> None:
        self.heard: list[Event] = []
        listener = hears(StoreAway, StoreBack)(self.heard.append)
        self.tell = Events([listener], clock).teller("ticking").tell

    def fail(self, loop: str, error: Exception = AWAY) -> None:
        self.tell(LoopFailed(loop=loop, failures=1, error=str(error), exception=error))

    def recover(self, loop: str) -> None:
        self.tell(LoopRecovered(loop=loop, failures=1))


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


def test_it_is_away_once_and_back_when_no_loop_misses_it(
    house: House, clock: ManualClock
) -> None:
    house.fail("cleanup")
    house.fail("keeper")
    house.fail("cleanup")
    clock.advance(timedelta(seconds=3))
    house.recover("cleanup")
    assert house.heard == [StoreAway(loop="cleanup", error="away")]
    house.recover("keeper")
    assert house.heard[1:] == [StoreBack(away=timedelta(seconds=3))]


def test_a_loop_that_fails_for_another_reason_has_its_store(house: House) -> None:
    house.fail("cleanup", ValueError("no"))
    house.recover("cleanup")
    assert house.heard == []
    house.fail("cleanup")
    house.fail("cleanup", ValueError("no"))
    assert [type(each) for each in house.heard] == [StoreAway, StoreBack]


def test_a_new_node_begins_with_a_store(house: House) -> None:
    house.fail("cleanup")
    house.tell(STARTED)
    house.fail("keeper")
    assert [type(each) for each in house.heard] == [StoreAway, StoreBack, StoreAway]
