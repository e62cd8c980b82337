"""What definitions would do: fire times, turns, load and what to beware of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from go_scheduler import (
    ConfigurationError,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    Overlap,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.models import Outcome
from go_scheduler.simulation import (
    Simulated,
    Simulation,
    durations_of,
    picture,
    simulate,
)
from go_scheduler.simulation.picture import MOST_ROWS
from go_scheduler.simulation.simulating import load_of
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    YEAR,
    check,
    definition,
    finish,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger, UnknownTrigger
from tests.simulation.seeds import named

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

DOCS = Path(__file__).parents[2] / "docs"
DAY = timedelta(days=1)
MONDAY = datetime(2030, 1, 7, tzinfo=UTC)


def every(period: timedelta, **given: Any) -> TaskDefinition:
    return TaskDefinition(trigger=IntervalTrigger(period, anchor=MONDAY), **given)


def simulated(*definitions: TaskDefinition, **given: Any) -> Simulation:
    known: dict[str, Any] = {"start": MONDAY, "span": DAY}
    return simulate(definitions, **(known | given))


def one(given: TaskDefinition, **more: Any) -> Simulated:
    [found] = simulated(given, **more).definitions
    return found


def test_all_fire_times_of_a_span_are_counted_by_definition_and_minute() -> None:
    found = simulated(every(HOUR, name="a"), every(12 * HOUR, name="b"))
    noon = MONDAY + 12 * HOUR
    assert [each.fires for each in found.definitions] == [23, 1]
    assert found.definitions[0].starts[0] == MONDAY + HOUR
    assert list(found.minutes)[:2] == [MONDAY + HOUR, MONDAY + 2 * HOUR]
    check(found, fires=24, end=MONDAY + DAY, busiest=(noon, 2), warnings=())
    check(found, most_at_once=2, most_at_once_at=noon)


def test_a_span_is_a_week_unless_told_otherwise() -> None:
    found = simulate([every(DAY)], start=MONDAY)
    assert (found.end - found.start, found.fires) == (timedelta(days=7), 6)


def test_without_definitions_nothing_runs() -> None:
    found = simulated()
    assert (found.fires, found.busiest, found.most_at_once_at) == (0, None, None)
    assert "0 fires of 0 definitions" in picture(found)


def test_what_was_read_from_a_store_goes_on_as_it_is_there(
    clock: ManualClock,
) -> None:
    scheduler = Scheduler(None, MemoryStore(clock), clock=clock)
    unanchored = scheduler.schedule(TaskDefinition(trigger=IntervalTrigger(HOUR)))
    assert one(unanchored, start=START + MINUTE).starts[0] == START + HOUR
    once = scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
    assert one(once).starts == (MONDAY,)
    # By then it has fired for years.
    assert one(unanchored, start=START + YEAR).starts[0] == START + YEAR


def test_what_waits_for_its_end_begins_so_long_after_it() -> None:
    waits = TaskDefinition(trigger=DelayTrigger(HOUR))
    found = one(waits, durations=HOUR)
    gaps = {b - a for a, b in zip(found.starts, found.starts[1:], strict=False)}
    assert gaps == {2 * HOUR}
    assert one(waits).fires == 23


@pytest.mark.parametrize(
    ("trigger", "fires"),
    [
        (ExecuteOnceTrigger(MONDAY - DAY), 1),
        (ExecuteOnceTrigger(MONDAY + HOUR), 1),
        (ExecuteOnceTrigger(MONDAY + 2 * DAY), 0),
        (OnDemandTrigger(), 0),
        (CronTrigger("0 9 * * Tue"), 0),
    ],
)
def test_what_fires_once_or_not_at_all(trigger: Any, fires: int) -> None:
    found = one(TaskDefinition(trigger=trigger))
    assert found.fires == fires
    silent = fires or isinstance(trigger, OnDemandTrigger)
    assert found.warnings == (() if silent else ("it does not fire within this time",))


def test_what_is_paused_does_not_fire_and_says_so() -> None:
    found = one(every(HOUR, paused=True))
    assert (found.fires, found.warnings) == (0, ("it is paused",))


@dataclass(frozen=True)
class Leaving(Trigger):
    """A third party's, which would have the process end."""

    kind: ClassVar[str] = "tests.leaving"

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise SystemExit


@dataclass(frozen=True)
class Partless(Trigger):
    """A third party's, which fires each hour, and does not say of what it is made."""

    kind: ClassVar[str] = "tests.partless"
    timezone: ClassVar[str] = "Europe/Berlin"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after.replace(minute=0, second=0, microsecond=0) + HOUR

    def parts(self) -> tuple[Trigger, ...]:
        raise ValueError


def test_what_the_clocks_do_to_a_trigger_without_parts_is_not_known() -> None:
    found = one(
        TaskDefinition(trigger=Partless()), start=datetime(2030, 3, 31, tzinfo=UTC)
    )
    assert found.effects == ()
    assert found.fires == 23


def test_a_trigger_that_cannot_be_asked_says_so_and_harms_no_other() -> None:
    unknown = UnknownTrigger(unknown_kind="moon", state={}, reason="nobody knows it")
    leaving, moon = (TaskDefinition(trigger=each) for each in (Leaving(), unknown))
    found = simulated(leaving, moon, every(HOUR))
    assert "SystemExit" in found.definitions[0].warnings[0]
    assert "nobody knows it" in found.definitions[1].warnings[0]
    assert found.fires == 23


def test_jitter_moves_starts_as_it_will() -> None:
    found = one(every(HOUR, jitter=MINUTE, id=UUID(int=7)))
    late = {
        each - each.replace(minute=0, second=0, microsecond=0) for each in found.starts
    }
    assert len(late) > 1
    assert max(late) <= MINUTE


@pytest.mark.parametrize(
    ("overlap", "ran", "skipped", "waited", "at_once"),
    [
        (Overlap.ALLOW, 23, 0, 0, 3),
        (Overlap.SKIP, 8, 15, 0, 1),
        (Overlap.BUFFER_ONE, 10, 13, 9, 1),
        (Overlap.BUFFER_ALL, 23, 0, 22, 1),
        (Overlap.REPLACE, 23, 0, 0, 1),
    ],
)
def test_runs_that_outlast_their_period_do_as_their_overlap_says(
    overlap: Overlap, ran: int, skipped: int, waited: int, at_once: int
) -> None:
    hourly = every(HOUR, overlap=overlap, expire_after=DAY)
    found = one(hourly, durations={hourly.id: 2.5 * HOUR})
    assert (len(found.starts), found.fires) == (ran, ran + skipped)
    check(found, skipped=skipped, waited=waited, most_at_once=at_once)
    text = "; ".join(found.warnings)
    assert ("at once" in text) is (at_once > 1)
    assert (f"by its overlap: {overlap.value}" in text) is (skipped > 0)
    assert ("wait for another" in text) is (waited > 0)


def test_those_with_one_lock_wait_for_each_other() -> None:
    first = every(HOUR, lock="disk", expire_after=DAY)
    second = every(HOUR, lock="disk", overlap=Overlap.REPLACE)
    third = every(HOUR, lock="disk")
    lengths = {first.id: 10 * MINUTE, second.id: SECOND, third.id: SECOND}
    found = simulated(first, second, third, durations=lengths)
    assert found.most_at_once == 1
    assert [each.waited for each in found.definitions] == [0, 23, 23]
    assert found.definitions[1].longest_wait == 10 * MINUTE


def test_what_takes_its_place_while_it_waits_is_skipped() -> None:
    first = every(HOUR, lock="disk", expire_after=DAY)
    second = every(10 * MINUTE, lock="disk", overlap=Overlap.REPLACE)
    found = simulated(first, second, durations={first.id: 30 * MINUTE})
    assert found.definitions[1].skipped > 0


def test_runs_that_outlive_their_limits_are_told() -> None:
    found = one(every(HOUR, timeout=MINUTE), durations=10 * MINUTE)
    assert found.warnings == (
        "a run of 10 min outlives its expire_after of 5 min: it is presumed hung, and"
        " runs again",
        "a run is ended by its timeout of 1 min",
    )


def test_minutes_with_more_runs_than_workers_are_told() -> None:
    many = [every(HOUR, name=f"{each}") for each in range(3)]
    found = simulated(*many, durations=90 * SECOND, workers=2, span=3 * HOUR - SECOND)
    assert found.short_minutes == 4
    [warning] = found.warnings
    assert warning.startswith("in 4 minutes more than 2 would run at once, up to 3")
    assert simulated(*many, durations=90 * SECOND, workers=3).short_minutes == 0


def test_many_that_begin_at_one_instant_are_told() -> None:
    found = simulated(*(every(12 * HOUR) for _ in range(101)))
    assert found.warnings == (
        "101 begin at 2030-01-07 12:00:00 UTC: a jitter would spread them",
    )


def test_changes_of_the_clocks_and_what_they_do_are_told() -> None:
    nightly = TaskDefinition(trigger=CronTrigger("30 2 * * *", "Europe/Berlin"))
    found = simulated(
        nightly, every(DAY), start=datetime(2030, 3, 29, tzinfo=UTC), span=7 * DAY
    )
    [change] = found.changes
    assert change.text == "clocks in Europe/Berlin go forward by 60 min, to 03:00"
    [effect] = found.definitions[0].effects
    assert effect.text == "02:30 does not exist that day"
    assert effect.at == change.at == datetime(2030, 3, 31, 1, tzinfo=UTC)
    assert found.definitions[1].effects == ()
    drawn = picture(found)
    assert "clocks in Europe/Berlin go forward" in drawn


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"start": datetime(2030, 1, 1)}, "start has no time zone"),  # noqa: DTZ001
        ({"start": datetime.max.replace(tzinfo=UTC)}, "start is too late"),
        ({"span": timedelta(0)}, "span must be"),
        ({"span": 367 * DAY}, "span must be at most 366 days"),
        ({"durations": -HOUR}, "a duration must be"),
        ({"durations": 5}, "durations must be"),
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"most": 0}, "most must be at least 1, not 0"),
        ({"most": 22}, "there are more than 22 fire times up to 2030-01-08 00:00"),
    ],
)
def test_an_argument_that_is_wrong_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        simulated(every(HOUR), **given)


def test_one_definition_twice_or_none_is_refused() -> None:
    twice = every(HOUR)
    with pytest.raises(ConfigurationError, match="is there twice"):
        simulated(twice, replace(twice))
    with pytest.raises(ConfigurationError, match="a definition must be"):
        simulated("report")  # type: ignore[arg-type]
    assert simulated(twice, most=23).fires == 23


def test_runs_without_length_count_at_their_instant() -> None:
    assert load_of([(MONDAY, MONDAY), (MONDAY, MONDAY)]).most == 2
    assert load_of([(MONDAY, MONDAY + HOUR), (MONDAY + HOUR, MONDAY + DAY)]).most == 1


def test_how_long_runs_took_is_read_from_their_history(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    once = definition(START, trigger=ExecuteOnceTrigger(START))
    instance = running(store, once)
    clock.advance(3 * MINUTE)
    assert finish(store, instance, Outcome.COMPLETED)
    silent = store.put_definitions([definition(START + HOUR)]).definitions[0]
    stored = [store.get_definition(once.id), silent, every(HOUR)]
    assert durations_of(Client(store), stored) == {once.id: 3 * MINUTE}


def test_a_picture_is_a_document_that_harms_nobody() -> None:
    hostile = every(HOUR, name="<script>alert(1)</script>\x1b & more\nthan a line")
    many = [every(2 * HOUR) for _ in range(MOST_ROWS)]
    silent = ET.fromstring(picture(simulated(every(2 * DAY, name="seldom"))))
    assert [each for each in silent.iter() if each.get("class") == "run"] == []
    drawn = picture(simulated(hostile, *many))
    root = ET.fromstring(drawn)
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert tags == {"svg", "title", "style", "text", "line", "rect", "path"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;…" in drawn
    strips = [each for each in root.iter() if each.get("class") == "run"]
    assert len(strips) == MOST_ROWS
    assert root.get("role") == "img"
    assert root.get("aria-label", "").startswith("463 fires of 41 definitions")


def test_the_picture_of_the_page_is_of_what_it_says() -> None:
    berlin = "Europe/Berlin"
    week = [
        named("report", CronTrigger("30 2 * * *", berlin)),
        named("backup", CronTrigger("0 4 * * *", berlin), lock="disk"),
        named("invoices", CronTrigger("*/15 8-17 * * Mon-Fri", berlin)),
        named("mail", CronTrigger("0 * * * *")),
        named("cleanup", DelayTrigger(3 * HOUR), lock="disk"),
    ]
    lengths = {week[1].id: 2 * HOUR, week[4].id: 20 * MINUTE}
    start = datetime(2030, 3, 29, tzinfo=UTC)
    drawn = picture(simulate(week, start=start, durations=lengths))
    assert drawn == (DOCS / "images/simulation.svg").read_text()
