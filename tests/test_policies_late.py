"""What becomes of what is late, over the real loops, as the documentation has it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from go_scheduler import (
    CatchUp,
    CronTrigger,
    ExecuteOnceTrigger,
    MemoryStore,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler import Store, TaskInstance

CONCEPTS = (Path(__file__).parents[1] / "docs/concepts.md").read_text()
MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)
HOURLY = CronTrigger("0 * * * *")
LEFT = MIDNIGHT + HOUR / 2
BACK = MIDNIGHT + 7 * HOUR / 2
SOON_BACK = MIDNIGHT + 3 * HOUR + 5 * SECOND
# While nothing is to happen, for hours.
SELDOM: dict[str, Any] = {"schedule_window": MINUTE, "runner_window": MINUTE}


class Row(NamedTuple):
    """A row of the table in the documentation."""

    catch_up: str
    at_half_past: str
    at_once: str
    one_off: str
    overdue: str

    @property
    def policy(self) -> CatchUp:
        found = eval(self.catch_up, {"CatchUp": CatchUp, "timedelta": timedelta})
        assert isinstance(found, CatchUp)
        return found


ROWS = [
    Row(*found)
    for found in re.findall(
        r"^\| `(CatchUp\(.*\))` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$",
        CONCEPTS,
        re.MULTILINE,
    )
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MIDNIGHT)


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) == 7


def leave(
    clock: ManualClock, store: Store, task: TaskDefinition, back: datetime
) -> None:
    """Schedule it, and be away over three of its fire times."""
    with Scheduler(print, store, clock=clock, **SELDOM) as scheduler:
        scheduler.schedule(task)
        clock.advance(LEFT - clock.now())
    clock.advance(back - clock.now())


def pause(
    clock: ManualClock, store: Store, task: TaskDefinition, back: datetime
) -> None:
    """Schedule it, and have it paused over three of its fire times."""
    with Scheduler(print, store, clock=clock, **SELDOM) as scheduler:
        scheduler.schedule(task)
        clock.advance(LEFT - clock.now())
        scheduler.pause(task.id)
        clock.advance(back - clock.now())
        scheduler.resume(task.id)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.catch_up)
@pytest.mark.parametrize("away", [leave, pytest.param(pause, marks=pytest.mark.slow)])
@pytest.mark.parametrize("whose", ["definition", "scheduler"])
@pytest.mark.parametrize(
    ("back", "column"), [(BACK, "at_half_past"), (SOON_BACK, "at_once")]
)
def test_of_an_hourly_schedule_runs_what_the_documentation_says(
    clock: ManualClock,
    store: Store,
    row: Row,
    away: Callable[..., None],
    whose: str,
    back: datetime,
    column: str,
) -> None:
    policies = {whose: row.policy}
    task = TaskDefinition(trigger=HOURLY, catch_up=policies.get("definition"))
    # Nothing of this runs before it is over.
    away(clock, store, task, back)
    ran: list[TaskInstance] = []
    default = policies.get("scheduler", CatchUp())
    with Scheduler(ran.append, store, clock=clock, catch_up=default, **SELDOM):
        clock.advance(10 * MINUTE)
    hours = [each.fire_time.hour for each in ran if each.fire_time is not None]
    expected = getattr(row, column)
    assert hours == [int(each) for each in re.findall(r"\d", expected)], expected
    skipped = [each.skipped for each in store.list_instances(state=State.SKIPPED)]
    missing = sorted({1, 2, 3} - set(hours))
    if not missing:
        assert skipped == []
        return
    [record] = skipped
    assert record is not None
    assert (record.first.hour, record.last.hour) == (missing[0], missing[-1])
    assert record.count == len(missing)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.catch_up)
@pytest.mark.parametrize("column", ["one_off", "overdue"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_one_off_runs_if_the_documentation_says_so(
    clock: ManualClock, store: Store, row: Row, column: str, paused: bool
) -> None:
    task = TaskDefinition(
        trigger=ExecuteOnceTrigger(MIDNIGHT + HOUR), catch_up=row.policy
    )
    if column == "one_off":
        (pause if paused else leave)(clock, store, task, BACK)
    clock.advance(BACK - clock.now())
    ran: list[TaskInstance] = []
    with Scheduler(ran.append, store, clock=clock, **SELDOM) as scheduler:
        if column == "overdue":
            scheduler.schedule(replace(task, paused=paused))
            assert scheduler.get_definition(task.id).overdue
            clock.advance(HOUR)
            scheduler.resume(task.id)
        clock.advance(10 * MINUTE)
    assert len(ran) == {"runs": 1, "skipped": 0}[getattr(row, column)]
    assert store.counts()[State.SKIPPED] == 1 - len(ran)
