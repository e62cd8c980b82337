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
    from collections.abc import Sequence

    from go_scheduler.testing import ManualClock

SECOND = timedelta(seconds=1)
STARTED = NodeStarted(node=UUID(int=1), queues=("default",), max_workers=1)
AWAY = StoreAway(loop="cleanup", error="away")


def fails(loop: str, error: Exception | None = None) -> LoopFailed:
    raised = error or StoreUnavailableError("away")
    return LoopFailed(loop=loop, failures=1, error=str(raised), exception=raised)


def recovers(loop: str) -> LoopRecovered:
    return LoopRecovered(loop=loop, failures=1)


OTHERWISE = fails("cleanup", ValueError("no"))


@pytest.mark.parametrize(
    ("happens", "heard"),
    [
        ([fails("cleanup"), fails("keeper"), fails("cleanup")], [AWAY]),
        ([fails("cleanup"), fails("keeper"), recovers("cleanup")], [AWAY]),
        ([fails("cleanup"), recovers("cleanup")], [AWAY, StoreBack(away=SECOND)]),
        ([OTHERWISE, recovers("cleanup")], []),
        ([fails("cleanup"), OTHERWISE], [AWAY, StoreBack(away=SECOND)]),
        (
            [fails("cleanup"), STARTED, fails("keeper")],
            [AWAY, StoreBack(away=SECOND), StoreAway(loop="keeper", error="away")],
        ),
    ],
)
def test_it_is_away_once_and_back_when_no_loop_misses_it(
    clock: ManualClock, happens: Sequence[Event], heard: Sequence[Event]
) -> None:
    told: list[Event] = []
    events = Events([hears(StoreAway, StoreBack)(told.append)], clock)
    for each in happens:
        events.teller("ticking").tell(each)
        clock.advance(SECOND)
    assert told == heard
