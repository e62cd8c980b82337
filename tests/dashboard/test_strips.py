"""The strip of time: where everything stands on it, and what it says of much."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.timeline import (
    HEIGHT,
    MOST_COUNTED,
    MOST_MARKS,
    ZOOMS,
    Window,
    is_in,
    mark_of,
    read_row,
    zoom_of,
)
from go_scheduler.models import Outcome, Skipped, State
from go_scheduler.stores.messages import Addition
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    definition,
    ended,
    fire,
    pending,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.simple import IntervalTrigger
from tests.http.serving import Calling

if TYPE_CHECKING:
    from go_scheduler.dashboard.timeline import TimelineRow
    from go_scheduler.models import TaskDefinition

HALF_PAST = Window(start=START, zoom="hour")


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


def row(
    store: MemoryStore,
    of: TaskDefinition,
    window: Window = HALF_PAST,
    now: datetime = START + 30 * MINUTE,
) -> TimelineRow:
    return read_row(Client(store), store.get_definition(of.id), window, now=now)


@pytest.mark.parametrize(
    ("every", "zoom"),
    [
        (SECOND, "minute"),
        (6 * SECOND, "10-minutes"),
        (36 * SECOND, "hour"),
        (24 * HOUR, "hour"),
    ],
)
def test_a_window_is_as_long_as_what_it_shows_is_told_apart(
    every: timedelta, zoom: str
) -> None:
    waiting = definition(None)
    dense = definition(START, trigger=IntervalTrigger(every, anchor=START))
    assert zoom_of([waiting, dense], START) == zoom


def test_a_window_is_moved_by_half_and_zoomed_around_its_middle() -> None:
    assert HALF_PAST.end == START + HOUR
    assert HALF_PAST.later.start == START + 30 * MINUTE
    assert HALF_PAST.earlier.start == START - 30 * MINUTE
    assert HALF_PAST.closer == Window(start=START + 25 * MINUTE, zoom="10-minutes")
    assert HALF_PAST.wider == Window(start=START - 150 * MINUTE, zoom="6-hours")
    assert HALF_PAST.at_zoom("minute").closer is None
    for year in (1, 9999):
        month = Window(start=datetime(year, 1, 1, tzinfo=UTC), zoom="month")
        assert month.earlier.later.wider is None
        assert month.ticks()
    assert Window.around(START, "hour").share(START) == 0.75


@pytest.mark.parametrize("zoom", ZOOMS)
def test_ticks_are_few_and_at_round_times(zoom: str) -> None:
    window = Window(start=START + 7 * MINUTE + SECOND, zoom=zoom)
    ticks = window.ticks()
    assert 4 <= len(ticks) <= 8
    assert all(window.has(at) for at, _ in ticks)
    assert ticks == sorted(ticks)


def test_changes_of_the_clocks_are_shown(store: MemoryStore) -> None:
    start = datetime(2030, 3, 31, tzinfo=UTC)
    day = Window(start=start, zoom="day")
    zoned = CronTrigger("0 12 * * *", timezone="Europe/Berlin")
    [(at, text)] = row(store, put(store, definition(start, trigger=zoned)), day).changes
    assert at == start + HOUR
    assert text.endswith("forward by 60 min, to 03:00")
    for trigger in (CronTrigger("0 12 * * *"), IntervalTrigger(HOUR)):
        made = put(store, definition(start, trigger=trigger))
        assert row(store, made, day).changes == []


def test_planned_fires_stand_behind_those_that_were_made(store: MemoryStore) -> None:
    every = CronTrigger("*/10 * * * *")
    made = put(store, definition(START + 40 * MINUTE, trigger=every))
    found = row(store, made)
    assert [each.kind for each in found.marks] == ["planned"] * 2
    assert [each.at - START for each in found.marks] == [40 * MINUTE, 50 * MINUTE]
    assert found.marks[0].text == "2030-01-01 00:40:00 UTC: planned"
    before = row(store, made, HALF_PAST.earlier.earlier)
    assert before.marks == []
    at = datetime(2030, 3, 31, 1, tzinfo=UTC)
    daily = CronTrigger("30 2 * * *", timezone="Europe/Berlin")
    moved = put(store, definition(at, trigger=daily))
    [mark] = row(store, moved, Window(start=at - HOUR, zoom="6-hours")).marks
    assert "does not exist" in mark.text


def test_planned_marks_that_would_overlap_are_shown_in_numbers(
    store: MemoryStore,
) -> None:
    every = CronTrigger("* * * * *")
    made = put(store, definition(START + MINUTE, trigger=every))
    fire(store, made, START, next_fire_time=START + MINUTE)
    hour = row(store, made)
    assert not hour.heaps
    assert len(hour.marks) == 60
    wider = row(store, made, Window(start=START - 4 * HOUR, zoom="6-hours"))
    assert [each.kind for each in wider.marks] == ["pending"]
    assert sum(each.total for each in wider.heaps) == 119
    assert all(set(each.counts) == {"planned"} for each in wider.heaps)
    assert not any(each.more for each in wider.heaps)


def test_a_bar_is_where_the_run_was(store: MemoryStore, clock: ManualClock) -> None:
    new = definition(START, name="report")
    clock.advance(6 * MINUTE)
    made = put(store, new)
    fire(store, made, START)
    [claimed] = claim(store, lead=0 * SECOND)
    [mark] = row(store, made, now=START + 12 * MINUTE).marks
    assert (mark.kind, mark.at) == ("running", START)
    assert (mark.begun, mark.ended) == (START + 6 * MINUTE, START + 12 * MINUTE)
    assert mark.text.startswith("2030-01-01 00:00:00 UTC: running, 6 min late, took 6")
    assert mark.instance is not None
    assert mark.instance.id == claimed.id
    clock.advance(6 * MINUTE)
    with Calling(create_dashboard(Client(store), clock=clock)) as browser:
        query = {"zoom": "hour", "start": START.isoformat()}
        page = browser.get(f"/definitions/{made.id}", params=query).text
    assert '<line x1="0.000%" x2="0.000%" y1="6"' in page
    assert '<rect x="10.000%" y="14" width="10.000%"' in page
    assert '<line class="now" x1="20.000%"' in page
    store.cancel_instances({claimed.id: None})
    [mark] = row(store, made, now=START + 12 * MINUTE).marks
    assert mark.kind == "cancelling"


RECORD = Skipped(
    first=START + 6 * MINUTE, last=START + 12 * MINUTE, count=7, reason="too late"
)


@pytest.mark.parametrize(
    ("has", "begun", "ended", "text"),
    [
        (
            {"outcome": Outcome.SKIPPED, "fire_time": None, "skipped": RECORD},
            *(RECORD.first, RECORD.last, "skipped, 7, too late"),
        ),
        (
            {
                "outcome": Outcome.FAILED,
                "completed_at": START,
                "runs": 3,
                "error": "KeyError: 'x'",
            },
            *(START, START, "failed, 3 runs, KeyError: 'x'"),
        ),
        ({"fire_time": None}, START, START, "pending, by hand"),
    ],
    ids=["skipped", "failed", "by hand"],
)
def test_a_mark_says_what_became_of_an_instance(
    store: MemoryStore, has: dict[str, Any], begun: datetime, ended: datetime, text: str
) -> None:
    instance = replace(pending(store), **has)
    mark = mark_of(instance, START)
    assert mark.kind == text.partition(",")[0]
    assert (mark.begun, mark.ended) == (begun, ended)
    assert mark.text.endswith(text)
    assert is_in(instance, HALF_PAST)
    assert not is_in(instance, HALF_PAST.later)


def test_a_window_has_what_ran_into_it_and_what_was_made_by_hand(
    store: MemoryStore,
) -> None:
    ran = ended(store, definition(START - 2 * HOUR)).definition
    store.add_instances(ran.id, [Addition(id=uuid4(), at=START + 6 * MINUTE)])
    marks = row(store, ran).marks
    assert [each.kind for each in marks] == ["completed", "pending"]
    assert [HALF_PAST.share(each.at) for each in marks] == pytest.approx([0, 0.1])
    assert row(store, ran, HALF_PAST.later).marks == []


def test_of_too_many_the_numbers_are_shown(store: MemoryStore) -> None:
    every = IntervalTrigger(SECOND, anchor=START)
    made = put(store, definition(START, trigger=every))
    times = [START + number * SECOND for number in range(MOST_MARKS + 1)]
    fire(store, made, *times, next_fire_time=START + 30 * MINUTE)
    found = row(store, made)
    assert found.marks == []
    assert len(found.heaps) == 48
    first, middle, last = found.heaps[0], found.heaps[10], found.heaps[-1]
    assert first.counts == {State.PENDING.value: MOST_COUNTED}
    assert first.more
    assert first.said == f"{MOST_COUNTED}+ pending"
    assert (middle.counts, middle.said, middle.more) == ({}, "nothing", False)
    assert last.counts == {"planned": MOST_COUNTED}
    assert found.highest == MOST_COUNTED
    assert first.bars(2 * MOST_COUNTED) == [("pending", HEIGHT / 2, HEIGHT / 2)]
    assert all(one.until == two.since for one, two in pairwise(found.heaps))
