"""Catching up: what becomes of fire times that nobody served in time."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from go_scheduler import (
    CatchUp,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    RetryPolicy,
    State,
    TaskDefinition,
    Trigger,
)
from go_scheduler.events import InstanceDropped, InstanceSkipped, RunFailed
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import counts_by_state
from go_scheduler.testing.clock import START
from go_scheduler.triggers import AnyOfTrigger
from tests.behaviour.house import HOUR, MINUTE, SECOND, World, at, every, once, seconds

if TYPE_CHECKING:
    from go_scheduler.models import Skipped

LATER = "missed by more than the grace of {0.grace}; a later fire time ran instead"
NOTHING = (
    "missed by more than the grace of {0.grace}; of what was missed nothing is caught"
    " up"
)
WITHIN = "missed by more than {0.within}, within which it would be caught up"
ONE, FIVE = CatchUp(grace=MINUTE), CatchUp(grace=seconds(5))
BOUNDED = CatchUp(grace=seconds(1), within=seconds(10))
NONE = CatchUp(mode="none", grace=seconds(5))
SOME = CatchUp(mode="all", within=seconds(50))


def due(trigger: Trigger, catch_up: CatchUp | None, **options: Any) -> TaskDefinition:
    """What was to fire first at the start of the clock."""
    return TaskDefinition(
        trigger=trigger, catch_up=catch_up, next_fire_time=START, **options
    )


def starts_late(
    world: World, definition: TaskDefinition, late: timedelta, **settings: Any
) -> TaskDefinition:
    """Store a definition, and start a node so long after its first fire time."""
    [stored] = world.store.put_definitions([definition]).definitions
    world.clock.advance(late)
    world.node(world.note, **settings)
    return stored


def ran(world: World) -> list[float]:
    """The fire times that ran, in seconds after the start."""
    return sorted(
        (each.instance.fire_time - START).total_seconds()
        for each in world.called
        if each.instance.fire_time is not None
    )


def skipped(world: World) -> list[Skipped]:
    found = world.store.select(Filter(states=[State.SKIPPED]))
    return [each.skipped for each in found if each.skipped is not None]


def the_skipped(world: World) -> tuple[float, float, int, str]:
    """The first, the last, the number and the reason of what was skipped."""
    [one] = skipped(world)
    first = (one.first - START).total_seconds()
    return first, (one.last - START).total_seconds(), one.count, one.reason


@pytest.mark.parametrize(
    ("policy", "late", "runs", "leaves_out", "why"),
    [
        # Within the grace each of it runs.
        (ONE, 50, [0, 20, 40], None, ""),
        (ONE, 60, [0, 20, 40, 60], None, ""),
        (ONE, 60.000001, [20, 40, 60], (0, 0, 1), LATER),
        (ONE, 130, [80, 100, 120], (0, 60, 4), LATER),
        # Of what was missed the latest runs.
        (FIVE, 110, [100], (0, 80, 5), LATER),
        (FIVE, 15, [0], None, ""),
        (CatchUp(grace=seconds(0)), 100, [100], (0, 80, 5), LATER),
        (BOUNDED, 110, [100], (0, 80, 5), LATER),
        (BOUNDED, 110.000001, [], (0, 100, 6), WITHIN),
        # All of it runs, or as far back as is said.
        (CatchUp(mode="all"), 110, [0, 20, 40, 60, 80, 100], None, ""),
        (SOME, 110, [60, 80, 100], (0, 40, 3), WITHIN),
        # None of it runs.
        (NONE, 110, [], (0, 100, 6), NOTHING),
        (NONE, 105, [100], (0, 80, 5), NOTHING),
    ],
)
def test_of_what_was_missed_runs_what_the_policy_says(
    world: World,
    policy: CatchUp,
    late: float,
    runs: list[float],
    leaves_out: tuple[float, float, int] | None,
    why: str,
) -> None:
    starts_late(
        world, due(IntervalTrigger(20 * SECOND, anchor=START), policy), seconds(late)
    )
    world.advance(0.5)
    assert ran(world) == runs
    if leaves_out is None:
        assert skipped(world) == []
    else:
        assert the_skipped(world) == (*leaves_out, why.format(policy))
        [told] = world.heard.of(InstanceSkipped)
        assert told.late
        assert (told.count, told.reason) == (leaves_out[2], why.format(policy))
    # And it goes on as ever.
    world.advance(25)
    assert ran(world)[: len(runs) + 1] == [*runs, (late // 20 + 1) * 20]


def test_what_is_missed_runs_in_its_order(world: World) -> None:
    policy = CatchUp(mode="all")
    starts_late(world, due(IntervalTrigger(SECOND, anchor=START), policy), HOUR / 60)
    world.advance(5)
    fired = [each.instance.fire_time for each in world.called]
    assert fired == sorted(fired, key=str)
    assert ran(world) == [*range(66)]


def test_a_definition_that_does_not_say_is_caught_up_as_the_scheduler_says(
    world: World,
) -> None:
    for policy in (None, CatchUp(mode="none")):
        world.store.put_definitions(
            [due(IntervalTrigger(20 * SECOND, anchor=START), policy)]
        )
    world.advance(50)
    world.node(world.note, catch_up=CatchUp(mode="all"))
    world.advance(0)
    assert ran(world) == [0, 20, 40, 40]


def test_what_waits_for_the_end_of_a_run_has_missed_nothing(world: World) -> None:
    policy = CatchUp(mode="none", grace=seconds(0))
    starts_late(world, due(DelayTrigger(HOUR), policy), 10 * HOUR)
    world.advance(1)
    assert len(world.called) == 1


@pytest.mark.parametrize("mode", ["latest", "all", "none"])
@pytest.mark.parametrize(("late", "runs"), [(300, 1), (300.000001, 0)])
def test_what_is_later_than_its_drop_after_is_dropped_one_offs_too(
    world: World, mode: Any, late: float, runs: int
) -> None:
    policy = CatchUp(mode=mode, grace=10 * MINUTE, drop_after=5 * MINUTE)
    stored = starts_late(world, due(ExecuteOnceTrigger(START), policy), seconds(late))
    world.advance(0)
    assert len(world.called) == runs
    if not runs:
        said = "late by more than its drop_after of 0:05:00"
        assert the_skipped(world) == (0, 0, 1, said)
    assert world.store.get_definition(stored.id).completed_at is not None


def test_the_latest_runs_beside_what_fires_soon(world: World) -> None:
    times = [ExecuteOnceTrigger(at(each)) for each in (0, 60, 150, 152)]
    of = due(AnyOfTrigger(times), CatchUp(grace=10 * SECOND))
    starts_late(world, of, seconds(149))
    world.advance(10)
    assert ran(world) == [60, 150, 152]
    assert the_skipped(world)[:3] == (0, 0, 1)


def test_what_was_made_ahead_is_skipped_if_a_later_one_has_passed(
    world: World,
) -> None:
    node = world.node(None)
    node.schedule(every(20, catch_up=CatchUp(grace=seconds(5))))
    world.advance(100)
    node.stop()
    world.node(world.note)
    world.advance(0)
    assert ran(world) == [100]
    said = (
        "missed by more than the grace of 0:00:05; a later fire time has passed since"
    )
    assert {each.reason for each in world.heard.of(InstanceDropped)} == {said}
    assert len(skipped(world)) == 4


def test_a_retry_that_is_later_than_its_drop_after_has_failed(world: World) -> None:
    def handler(_: object) -> None:
        raise ValueError("no paper")

    policy = CatchUp(drop_after=seconds(30))
    world.node(handler).schedule(
        once(1, catch_up=policy, retry=RetryPolicy(delay=seconds(20)))
    )
    world.advance(60)
    ended = world.only()
    assert (ended.state, ended.runs) == (State.FAILED, 2)
    assert (ended.error or "").startswith("not run again: late by more than its drop_a")
    assert "no paper" in (ended.error or "")
    assert len(world.heard.of(RunFailed)) == 3


def test_what_somebody_has_backfilled_is_never_too_late(world: World) -> None:
    policy = CatchUp(mode="none", grace=seconds(1), drop_after=seconds(30))
    client = world.scheduler(world.note)
    world.advance(1)
    stored = client.schedule(every(3600, catch_up=policy))
    world.advance(3599 + 7200)
    client.backfill(stored.id, start=START, end=at(7000))
    client.start()
    world.advance(1)
    assert world.called
    assert world.heard.of(InstanceDropped) == []


def test_what_was_scheduled_late_is_not_missed_but_may_be_dropped(
    world: World,
) -> None:
    node = world.node(world.note)
    world.advance(100)
    missed = CatchUp(mode="none", grace=seconds(1))
    node.schedule(once(10, catch_up=missed, name="missed"))
    node.schedule(once(10, catch_up=replace(missed, drop_after=MINUTE), name="dropped"))
    world.advance(1)
    assert [each.instance.definition.name for each in world.called] == ["missed"]
    assert the_skipped(world)[3] == "late by more than its drop_after of 0:01:00"


def test_what_was_missed_while_it_was_paused_says_so(world: World) -> None:
    node = world.node(world.note)
    stored = node.schedule(every(10, catch_up=CatchUp(grace=seconds(1))))
    world.advance(15)
    node.pause(stored.id, "the printer is away")
    world.advance(60)
    node.resume(stored.id)
    world.advance(1)
    assert ran(world) == [10, 70]
    assert any("the printer is away" in each.reason for each in skipped(world))


MISSED = (Path(__file__).parents[2] / "docs/missed.md").read_text()
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
        MISSED,
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
    missing = sorted({1, 2, 3} - set(hours))
    told = [(each.first.hour, each.last.hour, each.count) for each in skipped(world)]
    assert told == ([(missing[0], missing[-1], len(missing))] if missing else [])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.catch_up)
@pytest.mark.parametrize("column", ["one_off", "overdue"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_one_off_runs_if_the_documentation_says_so(
    world: World, row: Row, column: str, paused: bool
) -> None:
    of = ExecuteOnceTrigger(START + HOUR)
    task = TaskDefinition(trigger=of, catch_up=row.policy)
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
