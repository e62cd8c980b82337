"""What was planned by other time zone data is moved, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.clock import StoreClock, SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events import DefinitionsMoved, Event, InstanceCreated
from go_scheduler.events.event_bus import Events
from go_scheduler.events.listening import checked_listeners
from go_scheduler.firing import zone_watch
from go_scheduler.firing.definition_scheduler import DefinitionScheduler
from go_scheduler.firing.planner import MOST_DISPLACED, Guard, Planner
from go_scheduler.policies import Overlap
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    MINUTE,
    SECOND,
    WAITING,
    definition,
    instances,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers import CronTrigger, LimitedTrigger, Trigger
from tests.conftest import SETTINGS
from tests.zones import ZONE, Zones, zones_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set
    from pathlib import Path

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Firing
    from go_scheduler.testing import ManualClock

DAY = 24 * HOUR
AHEAD = 3 * SECOND
NINE = START + 8 * HOUR
"""Nine o'clock in a zone that is one hour ahead."""


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    with zones_in(tmp_path) as zones:
        zones.write(then=1)
        yield zones


def daily(cron: str = "0 9 * * *") -> TaskDefinition:
    trigger = CronTrigger(cron, ZONE)
    return definition(trigger.next_fire_time(START), trigger=trigger)


class Watch:
    """The loop on a manual clock, and how often it told of instances."""

    def __init__(
        self, clock: ManualClock, store: Store, guard: Guard | None = None
    ) -> None:
        self.told = 0
        self.events: list[Event] = []
        listeners = checked_listeners([self.events.append])
        self._watch = zone_watch.ZoneWatch(
            store,
            StoreClock(clock, store.now),
            planner=Planner(store, guard or Guard(clock, patience=SECOND)),
            ahead=AHEAD,
            created=self._tell,
            events=Events(listeners, clock),
        )
        self.tick = self._watch.tick

    def _tell(self) -> None:
        self.told += 1


def walk(watch: Watch, clock: ManualClock) -> int:
    """Let it walk, as soon as it wants to, to the end; answer in how many pages."""
    pages = 0
    while (pause := watch.tick()) is not None and pause < HOUR / 2:
        clock.advance(pause)
        pages += 1
    return pages


class TestAWalk:
    @pytest.mark.parametrize(("then", "moved"), [(2, -1), (0, 1), (1, 0)])
    def test_it_moves_what_was_computed_by_other_data(
        self, then: float, moved: int, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        given = put(store, daily())
        zones.bring(then=then)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        settle(store)
        walk(watch, clock)
        found = store.get_definition(given.id)
        assert found.next_fire_time == NINE + moved * HOUR
        assert found.revision == given.revision
        assert watch.told == 0

    def test_what_should_have_fired_meanwhile_fires_at_once(
        self, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        given = put(store, daily())
        clock.advance(7.5 * HOUR)
        zones.bring(then=2)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        settle(store)
        walk(watch, clock)
        assert [each.fire_time for each in instances(store, given)] == [NINE - HOUR]
        assert store.get_definition(given.id).next_fire_time == NINE + DAY - HOUR
        assert watch.told == 1
        created, moved = watch.events
        assert isinstance(created, InstanceCreated)
        assert created.fire_time == NINE - HOUR
        assert moved == DefinitionsMoved(count=1)

    def test_it_goes_page_by_page_with_pauses(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        store.put_definitions([daily() for _ in range(5 * MOST_DISPLACED // 2)])
        zones.bring(then=0)
        watch = Watch(clock, store)
        assert watch.tick() == MINUTE
        clock.advance(MINUTE)
        for written in (MOST_DISPLACED, 2 * MOST_DISPLACED):
            store.calls.clear()
            assert watch.tick() == SECOND / 2
            assert store.calls == Counter(
                list_definitions=1, list_instances=MOST_DISPLACED, fire_definitions=1
            )
            moved = [
                each
                for each in store.list_definitions(limit=1000)
                if each.next_fire_time == NINE + HOUR
            ]
            assert len(moved) == written
            assert watch.tick() == SECOND / 2
            clock.advance(SECOND / 2)
        assert watch.tick() is None
        assert {each.next_fire_time for each in store.list_definitions(limit=1000)} == {
            NINE + HOUR
        }

    def test_what_is_as_it_should_be_costs_the_reading_alone(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        store.put_definitions([daily(), definition(START + HOUR), definition(START)])
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        walk(watch, clock)
        assert store.calls == Counter(list_definitions=1)

    def test_it_is_made_once(self, clock: ManualClock, zones: Zones) -> None:
        store = Noting(clock)
        scheduler = Scheduler(
            None, store, schedule_window=HOUR, runner_window=HOUR, clock=clock
        )
        with scheduler:
            clock.advance(DAY + HOUR)
        assert store.calls["list_definitions"] == 1

    def test_what_waits_is_paused_or_is_over_is_left_as_it_is(
        self, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        paused = replace(daily(), paused=True)
        waiting = definition(None, trigger=WAITING)
        rests = definition(NINE, trigger=WAITING)
        over = definition(None, trigger=HOURLY)
        store.put_definitions([paused, waiting, rests, over])
        zones.bring(then=0)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        settle(store)
        walk(watch, clock)
        assert store.get_definition(paused.id).next_fire_time == NINE
        assert store.get_definition(waiting.id).next_fire_time is None
        assert store.get_definition(rests.id).next_fire_time == NINE
        assert store.get_definition(over.id).next_fire_time is None

    def test_an_edit_at_the_same_moment_wins(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        given = put(store, daily())
        zones.bring(then=0)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        store.edit = replace(given, metadata={"edited": True}, revision=None)
        walk(watch, clock)
        assert store.get_definition(given.id).next_fire_time == NINE

    def test_a_firing_at_the_same_moment_wins(
        self, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        given = put(store, daily())
        zones.bring(then=0)
        step = Planner(store, Guard(clock, patience=SECOND)).plan(
            [given], now=START, until=START, failed=lambda _, error: None
        )
        [move] = step.firings
        assert store.fire_definitions([replace(move, fire_times=(NINE,))]).done
        assert not store.fire_definitions([move]).done

    def test_what_was_backfilled_does_not_say_what_has_fired_last(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = MemoryStore(clock)
        given = put(store, daily())
        store.backfill_instances(given, [NINE + 2 * DAY], overlap=Overlap.ALLOW)
        zones.bring(then=0)
        step = Planner(store, Guard(clock, patience=SECOND)).plan(
            [given], now=START, until=START, failed=lambda _, error: None
        )
        [move] = step.firings
        assert move.next_fire_time == NINE + HOUR

    def test_a_store_that_is_away_is_asked_for_the_same_page_again(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        put(store, daily())
        zones.bring(then=0)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        store.error = StoreUnavailableError("away")
        with pytest.raises(StoreUnavailableError):
            watch.tick()
        store.error = None
        walk(watch, clock)
        [moved] = store.list_definitions()
        assert moved.next_fire_time == NINE + HOUR


class TestOneBadRow:
    def test_one_that_cannot_be_written_costs_only_itself(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        bad, good = put(store, daily()), put(store, daily())
        store.bad = bad
        zones.bring(then=0)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        walk(watch, clock)
        assert store.get_definition(bad.id).next_fire_time == NINE
        assert store.get_definition(good.id).next_fire_time == NINE + HOUR

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_foreign_trigger_is_asked_under_guard(
        self, driven: bool, clock: ManualClock, zones: Zones
    ) -> None:
        store = MemoryStore(clock)
        broken = put(store, definition(NINE, trigger=Own(ZONE, broken=True)))
        own = put(store, definition(NINE, trigger=Own(ZONE)))
        given = put(store, daily())
        zones.bring(then=0)
        timekeeper: Clock = clock if driven else SystemClock()
        watch = Watch(clock, store, Guard(timekeeper, patience=HOUR))
        clock.advance(MINUTE)
        walk(watch, clock)
        assert store.get_definition(broken.id).next_fire_time == NINE
        assert store.get_definition(own.id).next_fire_time == NINE + HOUR
        assert store.get_definition(given.id).next_fire_time == NINE + HOUR

    @pytest.mark.parametrize("timezone", [ZONE, "UTC", "Nowhere/Else", 5, UTC])
    def test_a_zone_that_a_foreign_trigger_names_is_looked_at(
        self, timezone: object, clock: ManualClock, zones: Zones
    ) -> None:
        store = MemoryStore(clock)
        trigger = Own(ZONE)
        given = put(store, definition(NINE, trigger=trigger))
        object.__setattr__(trigger, "timezone", timezone)
        zones.bring(then=0)
        watch = Watch(clock, store)
        clock.advance(MINUTE)
        walk(watch, clock)
        moved = timezone == ZONE
        assert store.get_definition(given.id).next_fire_time == NINE + moved * HOUR


@dataclass(frozen=True)
class Own(Trigger):
    """A user's trigger, at nine o'clock in its zone."""

    kind: ClassVar[str] = "tests.zone_watch.own"

    timezone: str
    broken: bool = False

    def next_fire_time(self, after: datetime) -> datetime | None:
        if self.broken:
            raise ZeroDivisionError("by zero")
        local = after.astimezone(ZoneInfo(self.timezone))
        found = local.replace(hour=9, minute=0, second=0, microsecond=0)
        if found.astimezone(UTC) <= after:
            found += DAY
        return found.astimezone(UTC)


class TestWhatIsDue:
    def test_it_is_not_fired_at_a_time_that_is_none_any_more(
        self, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        given = put(store, daily())
        zones.bring(then=0)
        loop = scheduling(clock, store)
        clock.advance(NINE - START)
        settle(store)
        loop.tick()
        assert instances(store, given) == []
        assert store.get_definition(given.id).next_fire_time == NINE + HOUR
        clock.advance(HOUR)
        loop.tick()
        assert [each.fire_time for each in instances(store, given)] == [NINE + HOUR]

    def test_many_at_once_do_not_hold_up_what_fires(
        self, clock: ManualClock, zones: Zones
    ) -> None:
        store = Noting(clock)
        displaced = [daily() for _ in range(MOST_DISPLACED + 10)]
        store.put_definitions(displaced)
        on_time = put(store, definition(NINE, trigger=HOURLY))
        zones.bring(then=0)
        loop = scheduling(clock, store)
        clock.advance(NINE - START)
        assert loop.tick() == timedelta(0)
        assert store.calls["list_instances"] == MOST_DISPLACED
        assert len(instances(store, on_time)) == 1
        loop.tick()
        times = Counter(each.next_fire_time for each in store.list_definitions())
        assert times == {NINE + HOUR: MOST_DISPLACED + 11}

    def test_a_definition_that_was_paused_meanwhile_fires_at_its_new_time(
        self, clock: ManualClock, store: Store, zones: Zones
    ) -> None:
        given = put(store, daily())
        store.pause_definitions([given.id])
        zones.bring(then=0)
        store.resume_definitions([given.id])
        loop = scheduling(clock, store)
        clock.advance(NINE - START)
        settle(store)
        loop.tick()
        assert store.get_definition(given.id).next_fire_time == NINE + HOUR


def scheduling(clock: ManualClock, store: Store) -> DefinitionScheduler:
    return DefinitionScheduler(
        store,
        StoreClock(clock, store.now),
        planner=Planner(store, Guard(clock, patience=SECOND)),
        settings=SETTINGS,
        created=lambda: None,
    )


class Node:
    """What of a node meets time zones, by data that it had when it was started.

    Args:
        clock: The clock.
        store: The store.
        zones: Where to put the data.
        ahead: How many hours its zone is ahead of UTC.
    """

    def __init__(
        self, clock: ManualClock, store: Store, zones: Zones, ahead: float
    ) -> None:
        self._zones = zones
        self._offset = ahead
        self._loop = scheduling(clock, store)
        self._watch = Watch(clock, store)

    def tick(self) -> None:
        self._zones.bring(then=self._offset)
        self._loop.tick()
        self._watch.tick()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("then", [0, 2])
def test_nodes_with_old_and_new_data_fire_each_day_once(
    seed: int, then: float, clock: ManualClock, store: Store, zones: Zones
) -> None:
    chance = random.Random(seed)
    daily_one = put(store, daily())
    few = LimitedTrigger(CronTrigger("30 12 * * *", ZONE), start=START, limit=4)
    limited = put(store, definition(few.next_fire_time(START), trigger=few))
    old, new = Node(clock, store, zones, 1), Node(clock, store, zones, then)
    fleets = [[old], [old, new], [new]]
    for hour in range(6 * 24):
        settle(store)
        # First the old one is alone, then both are there for two days.
        chance.choice(fleets[hour // 48]).tick()
        clock.advance(HOUR)
    fired = [each.fire_time for each in instances(store, daily_one)]
    assert Counter(f"{each:%d}" for each in fired if each) == Counter(
        f"{day:02}" for day in range(1, 7)
    )
    assert len(instances(store, limited)) == 4
    last = fired[-1]
    assert last is not None
    assert last == START + 5 * DAY + (9 - then) * HOUR


class Noting(MemoryStore):
    """Counts what it is asked, and fails as it is told."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.calls: Counter[str] = Counter()
        self.edit: TaskDefinition | None = None
        self.bad: TaskDefinition | None = None
        self.error: Exception | None = None

    def list_definitions(self, **asked: object) -> Sequence[TaskDefinition]:
        self.calls["list_definitions"] += 1
        return super().list_definitions(**asked)  # type: ignore[arg-type]

    def list_instances(self, **asked: object) -> Sequence[TaskInstance]:
        self.calls["list_instances"] += 1
        return super().list_instances(**asked)  # type: ignore[arg-type]

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[object]]:  # type: ignore[override]
        self.calls["fire_definitions"] += 1
        if self.error is not None:
            raise self.error
        if self.edit is not None:
            self.put_definitions([self.edit])
        if self.bad in [firing.definition for firing in firings]:
            raise StoreError("a bad row")
        return super().fire_definitions(firings)
