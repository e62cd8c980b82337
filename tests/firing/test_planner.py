"""The planner reads what has fired last, whatever else the definition has run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler import MemoryStore
from go_scheduler.firing.planner import Guard, Planner
from go_scheduler.firing.steps import DisplacedError, LastFired
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import HOUR, SECOND, firing, put
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from go_scheduler.testing import ManualClock


class Displacing(Guard):
    """Finds each definition displaced, and keeps what it is told of it."""

    def __init__(self) -> None:
        self.last: Mapping[UUID, LastFired] = {}

    def plan(self, definitions, *, failed, last=None, **_):  # type: ignore[no-untyped-def]
        if last is None:
            for each in definitions:
                failed(each, DisplacedError())
        else:
            self.last = last
        return []


@pytest.mark.parametrize(
    "how", ["never", "fired", "with a jitter", "by hand too", "backfilled"]
)
def test_what_has_fired_last_has_the_latest_fire_time(
    clock: ManualClock, how: str
) -> None:
    store = MemoryStore(clock)
    read, last = put(store), START
    step = firing(read, START)
    if how == "with a jitter":
        # The last one runs first.
        last = START + 2 * SECOND
        step = firing(read, START, START + SECOND, last)
        later = (START + 2 * HOUR, START + 3 * HOUR, START + HOUR)
        step = replace(step, execute_times=later)
    if how in ("never", "backfilled"):
        store.backfill_instances(read, [START + HOUR] * (how != "never"), overlap=ALLOW)
    else:
        store.fire_definitions([step])
    if how == "by hand too":
        store.add_instances(read.id, [Addition(at=START + HOUR)])
    guard = Displacing()
    Planner(store, guard).plan(
        [read], now=START, until=START, failed=lambda _definition, _error: None
    )
    expected = None if how in ("never", "backfilled") else last
    assert guard.last[read.id].at == expected


ALLOW = Overlap.ALLOW
