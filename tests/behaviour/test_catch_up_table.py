"""What becomes of what is late is as the table of the documentation has it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from go_scheduler import (
    CatchUp,
    CronTrigger,
    ExecuteOnceTrigger,
    State,
    TaskDefinition,
)
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, counts_by_state
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from tests.behaviour.house import World

CONCEPTS = (Path(__file__).parents[2] / "docs/concepts.md").read_text()
HALF_PAST = 7 * HOUR / 2
WINDOWS = {"schedule_window": MINUTE, "runner_window": MINUTE}
"""As nothing is to happen for hours."""


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


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) == 7


def miss(world: World, task: TaskDefinition, until: timedelta, *, paused: bool) -> None:
    """Have no node, or a pause, from half past midnight on."""
    node = world.node(world.note, **WINDOWS)
    node.schedule(task)
    world.clock.advance(HOUR / 2)
    if not paused:
        node.stop()
        world.clock.advance(START + until - world.clock.now())
        return
    node.pause(task.id)
    world.clock.advance(START + until - world.clock.now())
    node.resume(task.id)
    node.stop()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.catch_up)
@pytest.mark.parametrize("paused", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("back", "column"),
    [(HALF_PAST, "at_half_past"), (3 * HOUR + 5 * SECOND, "at_once")],
)
def test_of_an_hourly_schedule_runs_what_the_documentation_says(
    world: World, row: Row, paused: bool, back: timedelta, column: str
) -> None:
    task = TaskDefinition(trigger=CronTrigger("0 * * * *"), catch_up=row.policy)
    miss(world, task, back, paused=paused)
    world.node(world.note, **WINDOWS)
    world.clock.advance(10 * MINUTE)
    fired = [each.instance.fire_time for each in world.called]
    hours = [each.hour for each in fired if each is not None]
    expected = getattr(row, column)
    assert hours == [int(each) for each in re.findall(r"\d", expected)], expected
    found = world.store.select(Filter(states=[State.SKIPPED]))
    skipped = [each.skipped for each in found if each.skipped is not None]
    missing = sorted({1, 2, 3} - set(hours))
    told = [(each.first.hour, each.last.hour, each.count) for each in skipped]
    assert told == ([(missing[0], missing[-1], len(missing))] if missing else [])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.catch_up)
@pytest.mark.parametrize("column", ["one_off", "overdue"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_one_off_runs_if_the_documentation_says_so(
    world: World, row: Row, column: str, paused: bool
) -> None:
    once = ExecuteOnceTrigger(START + HOUR)
    task = TaskDefinition(trigger=once, catch_up=row.policy)
    if column == "one_off":
        miss(world, task, HALF_PAST, paused=paused)
    world.clock.advance(START + HALF_PAST - world.clock.now())
    node = world.node(world.note, **WINDOWS)
    if column == "overdue":
        node.schedule(replace(task, paused=paused))
        assert node.get_definition(task.id).overdue
        world.clock.advance(HOUR)
        node.resume(task.id)
    world.clock.advance(10 * MINUTE)
    runs = {"runs": 1, "skipped": 0}[getattr(row, column)]
    assert len(world.called) == runs
    assert counts_by_state(world.store)[State.SKIPPED] == 1 - runs
