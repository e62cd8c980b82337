"""The planner reads what has fired last, whatever else the definition has run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.firing.planner import Guard, Planner
from go_scheduler.firing.steps import DisplacedError, LastFired
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import HOUR, SECOND, firing, put
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler import Store, TaskDefinition
    from go_scheduler.stores.messages import Firing


class Displacing(Guard):
    """Finds each definition displaced, and keeps what it is told of it."""

    def __init__(self) -> None:
        self.last: Mapping[UUID, LastFired] = {}

    def plan(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        now: datetime,
        until: datetime,
        failed: Callable[[TaskDefinition, Exception], None],
        last: Mapping[UUID, LastFired] | None = None,
    ) -> Sequence[Firing]:
        if last is None:
            for each in definitions:
                failed(each, DisplacedError())
        else:
            self.last = last
        return []


def last_fired(store: Store, read: TaskDefinition) -> datetime | None:
    """What the planner finds has fired last of a definition."""
    guard = Displacing()
    Planner(store, guard).plan(
        [read], now=START, until=START, failed=lambda _definition, _error: None
    )
    return guard.last[read.id].at


def test_what_has_fired_last_has_the_latest_fire_time(store: Store) -> None:
    read = put(store)
    step = firing(read, START, START + SECOND, START + 2 * SECOND)
    # By a jitter the last one runs first.
    later = (START + 2 * HOUR, START + 3 * HOUR, START + HOUR)
    store.fire_definitions([replace(step, execute_times=later)])
    assert last_fired(store, read) == START + 2 * SECOND


def test_what_was_run_by_hand_has_not_fired(store: Store) -> None:
    read = put(store)
    store.fire_definitions([firing(read)])
    store.add_instances(read.id, [Addition(at=START + HOUR)])
    assert last_fired(store, read) == START


def test_of_what_has_never_fired_nothing_has_fired_last(store: Store) -> None:
    assert last_fired(store, put(store)) is None
