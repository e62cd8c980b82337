"""New data of time zones: what waits to fire follows them, and nothing fires twice."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import CronTrigger, Scheduler, TaskDefinition
from go_scheduler.events import DefinitionsMoved
from go_scheduler.models.values import changed
from go_scheduler.stores import MemoryStore
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import dump_trigger, load_trigger
from tests.behaviour.house import HOUR, MINUTE, SELDOM, World, every
from tests.zones import ZONE, Zones, zones_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 24 * HOUR
DAILY = "0 9 * * *"
NINE = START + 8 * HOUR
"""Nine o'clock of the first day, in a zone that is one hour ahead."""


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    with zones_in(tmp_path) as zones:
        zones.write(then=1)
        yield zones


def cron(expression: str = DAILY, **options: Any) -> TaskDefinition:
    return TaskDefinition(trigger=CronTrigger(expression, ZONE), **options)


def node(world: World, name: str = "node", handler: Any = None) -> Scheduler:
    return world.node(handler or world.note, name, **SELDOM)


def bring(
    world: World, zones: Zones, *offsets: tuple[datetime, float], then: float
) -> None:
    """Change the data of the zone; what is stored is read anew, as by a new process."""
    assert isinstance(world.store, MemoryStore)
    zones.bring(*offsets, then=then)
    for row in world.store._tables.definitions.values():
        trigger = load_trigger(*dump_trigger(row.definition.trigger))
        row.definition = changed(row.definition, trigger=trigger)


def ran(world: World) -> list[str]:
    """The day and the time of each run, in UTC."""
    return [f"{each.at:%d %H:%M}" for each in world.called]


@pytest.mark.parametrize(
    ("then", "times"),
    [
        (2, ["01 08:00", "02 08:00", "03 07:00", "04 07:00"]),
        (0, ["01 08:00", "02 08:00", "03 09:00", "04 09:00"]),
        (5.75, ["01 08:00", "02 08:00", "03 03:15", "04 03:15"]),
        (1, ["01 08:00", "02 08:00", "03 08:00", "04 08:00"]),
    ],
)
def test_what_is_to_come_fires_when_the_clock_on_the_wall_shows_its_time(
    world: World, zones: Zones, then: float, times: list[str]
) -> None:
    scheduler = node(world)
    yearly = scheduler.schedule(cron("0 9 1 7 *"))
    daily = scheduler.schedule(cron())
    other = scheduler.schedule(every(7 * 3600))
    world.clock.advance(DAY + 12 * HOUR)
    assert scheduler.stop()
    bring(world, zones, (START + DAY + 13 * HOUR, 1), then=then)
    # A node that starts goes over all that waits.
    scheduler = node(world, "next")
    world.clock.advance(2 * HOUR)
    moved = scheduler.get_definition(yearly.id)
    assert moved.next_fire_time == datetime(2030, 7, 1, 9, tzinfo=UTC) - then * HOUR
    assert moved.revision == yearly.revision
    assert scheduler.get_definition(other.id).revision == other.revision
    world.clock.advance(2 * DAY)
    mine = [each for each in world.called if each.instance.definition.id == daily.id]
    assert [f"{each.at:%d %H:%M}" for each in mine] == times
    moves = world.heard.of(DefinitionsMoved)
    assert [each.count for each in moves] == ([] if then == 1 else [2])


def test_what_the_change_has_passed_over_fires_at_once(
    world: World, zones: Zones
) -> None:
    stored = world.scheduler(None).schedule(cron())
    world.clock.advance(7.4 * HOUR)
    bring(world, zones, then=2)
    scheduler = node(world)
    world.clock.advance(2 * MINUTE)
    assert len(world.called) == 1
    assert world.called[0].instance.fire_time == NINE - HOUR
    assert scheduler.get_definition(stored.id).next_fire_time == NINE + DAY - HOUR
    world.clock.advance(DAY)
    assert len(world.called) == 2


@pytest.mark.parametrize("beside", ["nothing", "run by hand"])
def test_what_has_fired_does_not_fire_again_when_its_time_comes_again(
    world: World, zones: Zones, beside: str
) -> None:
    scheduler = node(world)
    stored = scheduler.schedule(cron("0 9,15 * * *"))
    world.clock.advance(8.4 * HOUR)
    # What else there is of it says nothing of what its schedule has fired last.
    if beside == "run by hand":
        scheduler.run_now(stored.id, at=START + 40 * DAY)
    assert scheduler.stop()
    bring(world, zones, then=0)
    node(world, "next")
    world.clock.advance(DAY)
    assert ran(world) == ["01 08:00", "01 15:00"]
    world.clock.advance(HOUR)
    assert ran(world)[2:] == ["02 09:00"]


def test_many_that_have_moved_do_not_hold_up_what_fires(
    world: World, zones: Zones
) -> None:
    client = world.scheduler(None)
    client.schedule_all(cron() for _ in range(120))
    on_time = client.schedule(every(8 * 3600))
    bring(world, zones, then=0)
    world.clock.advance(8 * HOUR - MINUTE / 2)
    scheduler = world.node(world.note)
    world.advance(31)
    assert [each.instance.definition.id for each in world.called] == [on_time.id]
    times = {each.next_fire_time for each in scheduler.list_definitions(limit=200)}
    assert times == {NINE + HOUR, START + 16 * HOUR}


def test_a_node_that_starts_goes_over_what_another_one_has_left(
    world: World, zones: Zones
) -> None:
    client = world.scheduler(None)
    stored, paused = client.schedule(cron()), client.schedule(cron())
    client.pause(paused.id)
    bring(world, zones, then=0)
    scheduler = node(world)
    assert scheduler.get_definition(stored.id).next_fire_time == NINE
    world.clock.advance(2 * MINUTE)
    assert scheduler.get_definition(stored.id).next_fire_time == NINE + HOUR
    assert scheduler.get_definition(paused.id).next_fire_time == NINE
    scheduler.resume(paused.id)
    world.clock.advance(DAY)
    assert ran(world) == ["01 09:00", "01 09:00"]


def test_one_that_cannot_be_moved_costs_only_itself(world: World, zones: Zones) -> None:
    client = world.scheduler(None)
    bad, good = client.schedule(cron()), client.schedule(cron())
    bring(world, zones, then=0)
    world.faults.bad.add(bad.id)
    scheduler = node(world)
    world.clock.advance(2 * MINUTE)
    assert scheduler.get_definition(bad.id).next_fire_time == NINE
    assert scheduler.get_definition(good.id).next_fire_time == NINE + HOUR
    assert scheduler.health().ok


def test_an_edit_at_the_same_moment_wins(world: World, zones: Zones) -> None:
    client = world.scheduler(None)
    stored = client.schedule(cron())
    bring(world, zones, then=0)
    moved = TaskDefinition(trigger=CronTrigger("0 15 * * *", "UTC"), id=stored.id)
    world.faults.before["fire_definitions"] = lambda: client.schedule(moved)
    scheduler = node(world)
    world.clock.advance(2 * MINUTE)
    assert "fire_definitions" not in world.faults.before
    assert scheduler.get_definition(stored.id).next_fire_time == START + 15 * HOUR
    world.clock.advance(DAY)
    assert ran(world) == ["01 15:00"]


def test_a_store_that_is_away_is_gone_over_when_it_is_back(
    world: World, zones: Zones
) -> None:
    stored = world.scheduler(None).schedule(cron())
    bring(world, zones, then=0)
    scheduler = node(world)
    world.faults.away = True
    world.clock.advance(5 * MINUTE)
    world.faults.away = False
    world.clock.advance(MINUTE)
    assert scheduler.get_definition(stored.id).next_fire_time == NINE + HOUR
